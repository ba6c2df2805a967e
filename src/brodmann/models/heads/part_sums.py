"""Sums of the examples' values at the gates, separately for a few fixed parts of the examples.

The mean over all parts is the measurement. The parts allow heads to be chosen again as if other
examples had been drawn, without another pass over the model. Memory does not grow with the number
of examples. With several processes, each adds its share of the batches, and all get the sum; an
example is in the same part wherever it is measured.
"""

import numpy as np
import torch

from brodmann.errors import InputError
from brodmann.files import Array
from brodmann.models.evaluation import share_of_processes
from brodmann.results import PARTS


def part_of_each(examples: int) -> Array:
    """Part of every example, in the order of the draw.

    Parts are random, so that an order in the data (classes in turn, say) has no effect, and always
    the same.
    """
    return np.asarray(np.random.default_rng(0).permutation(examples) % PARTS)


class PartSums:
    """Running sums of (example, layer, head) values."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.totals = np.zeros((PARTS, *shape))
        self.counts = np.zeros(PARTS)

    def add(self, values: Array, parts: Array, weights: Array | None = None) -> None:
        """Add `values[e]` of each example e; `weights` say how much each counts (default: 1)."""
        member = (parts == np.arange(PARTS)[:, None]).astype(np.float64)  # (part, example)
        flat = np.asarray(values, dtype=np.float64).reshape(len(parts), -1)
        self.totals += (member @ flat).reshape(self.totals.shape)
        self.counts += member @ (np.ones(len(parts)) if weights is None else weights)

    def gathered(self) -> tuple[Array, Array]:
        """(part, layer, head) sums and the counts of the parts, over all processes."""
        totals, counts = _over_processes(self.totals, self.counts)
        if not counts.sum():
            raise InputError("no example was measured")
        return totals, counts


def mean_of(totals: Array, counts: Array) -> Array:
    """(layer, head) mean over all examples."""
    return np.asarray(totals.sum(axis=0) / counts.sum())


def _over_processes(totals: Array, counts: Array) -> tuple[Array, Array]:
    if share_of_processes()[1] == 1:
        return totals, counts
    from torch import distributed

    # NCCL adds up tensors on a GPU only.
    device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    both = torch.tensor([*totals.ravel(), *counts], dtype=torch.float64, device=device)
    distributed.all_reduce(both)
    found = both.cpu().numpy()
    return found[: totals.size].reshape(totals.shape), found[totals.size :]
