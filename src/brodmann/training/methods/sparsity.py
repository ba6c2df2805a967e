r"""Sparse gates: push trained gates shut as far as the losses allow.

Each step adds $\lambda \cdot \frac{1}{|H|} \sum_h P(z_h > 0)$ to the loss: the expected share of
open gates of hard-concrete gates (`models/heads/trained_gates.py`), which are drawn while they
train. $\lambda$ is the option `sparsity`.

Reference: Louizos et al. 2018, "Learning Sparse Neural Networks through L0 Regularization".
"""

import contextlib
from collections.abc import Iterator

from torch import Tensor

from brodmann.data.batches import Batch
from brodmann.models.heads.trained_gates import ModelGates, sparse_gates
from brodmann.training.methods import Method, Setup


class SparseGates(Method):
    name = "sparsity"

    def __init__(self, gates: ModelGates, weight: float) -> None:
        self.gates, self.weight = gates, weight

    @contextlib.contextmanager
    def reading(self, batch: Batch) -> Iterator[None]:
        self.gates.noisy = True
        try:
            yield
        finally:
            self.gates.noisy = False

    def term(self, share: float) -> Tensor | None:
        return self.weight * share * self.gates.open_share()


def make(setup: Setup) -> SparseGates | None:
    if not setup.options.sparsity:
        return None
    return SparseGates(sparse_gates(setup.model), setup.options.sparsity)
