r"""Choose the task of the next batch: probabilities from the sizes of the training sets.

$N_i$ training examples of task $i$, $T$ tasks, epoch $e$ of $E$:

| sampler | $p_i \propto$ |
|---|---|
| `proportional` | $N_i$ (an epoch visits every example exactly once) |
| `uniform` | $1$ |
| `sqrt` | $N_i^{1/2}$ |
| `temperature` | $N_i^{1/\tau}$ |
| `annealed` | $N_i^\epsilon$, $\epsilon = 1 - 0.8\,(e-1)/(E-1)$; alone $\epsilon = 1$ |

`uncertainty` has no probabilities: it chooses examples (`data/sampling/uncertainty.py`).

Reference for `annealed`: Stickland & Murray 2019, "BERT and PALs", §3.3.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from brodmann.data.sampling.stream import BatchStream, WholeEpochs
from brodmann.data.sampling.uncertainty import UncertaintyStream, check_formula
from brodmann.errors import InputError, did_you_mean
from brodmann.files import Array


def proportional(sizes: Array, epoch: int, epochs: int) -> Array:
    return sizes


def uniform(sizes: Array, epoch: int, epochs: int) -> Array:
    return np.ones_like(sizes)


def sqrt(sizes: Array, epoch: int, epochs: int) -> Array:
    return np.sqrt(sizes)


def temperature(sizes: Array, epoch: int, epochs: int, tau: float = 2.0) -> Array:
    if not tau > 0:
        raise InputError(f"sampling: tau = {tau}: expected a number above 0")
    return np.asarray(sizes ** (1.0 / tau))


def annealed(sizes: Array, epoch: int, epochs: int) -> Array:
    exponent = 1.0 - 0.8 * (epoch - 1) / (epochs - 1) if epochs > 1 else 1.0
    return np.asarray(sizes**exponent)


@dataclass(frozen=True)
class Sampler:
    """A function that makes the stream of batches, and facts about it."""

    stream: type[BatchStream] = BatchStream
    weights: Callable[..., Array] | None = None  # from sizes, epoch, epochs
    by_example: bool = False  # needs feedback from the model, and mixes tasks in a batch
    chooses: str = ""  # by example: what it trains on, in words for the page
    check: Callable[..., None] | None = None  # raises for wrong values of its parameters

    def parameter_names(self) -> list[str]:
        if self.weights is not None:
            return list(inspect.signature(self.weights).parameters)[3:]
        return [] if self.check is None else list(inspect.signature(self.check).parameters)


SAMPLERS: dict[str, Sampler] = {
    "proportional": Sampler(WholeEpochs, weights=proportional),
    "uniform": Sampler(weights=uniform),
    "sqrt": Sampler(weights=sqrt),
    "temperature": Sampler(weights=temperature),
    "annealed": Sampler(weights=annealed),
    "uncertainty": Sampler(
        UncertaintyStream,
        by_example=True,
        chooses="the candidates of every task that the model was least sure about",
        check=check_formula,
    ),
}


def make_stream(
    sampling: str, lengths: Sequence[Array], *, parameters: Mapping[str, Any], **options: Any
) -> BatchStream:
    """The stream of batches that a sampler makes over tasks with items of these lengths.

    `options`: `batch_size`, `epochs`, `seed`, `bucketing`.
    """
    check_sampler(sampling, parameters)
    sampler = SAMPLERS[sampling]
    if sampler.weights is None:
        return sampler.stream(lengths, **options, **parameters)
    probabilities = partial(_probabilities, sampling, parameters)
    return sampler.stream(lengths, probabilities=probabilities, **options)


def _probabilities(
    kind: str, parameters: Mapping[str, Any], sizes: Sequence[int], epoch: int, epochs: int
) -> Array:
    return task_probabilities(kind, sizes, epoch, epochs, **parameters)


def task_probabilities(
    kind: str, sizes: Sequence[int], epoch: int = 1, epochs: int = 1, **parameters: Any
) -> Array:
    """Probabilities of the tasks in `epoch` (counted from 1).

    >>> task_probabilities("sqrt", [100, 400]).round(3).tolist()
    [0.333, 0.667]
    """
    check_sampler(kind, parameters)
    weights = SAMPLERS[kind].weights
    if weights is None:
        raise InputError(f"sampler '{kind}' has no probabilities: it chooses examples")
    counts = np.asarray(sizes, dtype=float)
    if counts.ndim != 1 or not len(counts) or not (counts > 0).all():
        raise InputError(f"sampling: expected a positive size for every task, found {list(sizes)}")
    if not 1 <= epoch <= epochs:
        raise InputError(f"sampling: epoch {epoch} is not between 1 and {epochs}")
    shares = weights(counts / counts.max(), epoch, epochs, **parameters)
    return np.asarray(shares / shares.sum())


def check_sampler(kind: str, parameters: Mapping[str, Any]) -> None:
    """Raise `InputError` for an unknown sampler, parameter or value."""
    if kind not in SAMPLERS:
        raise InputError(f"unknown sampler '{kind}'{did_you_mean(kind, SAMPLERS)}")
    sampler = SAMPLERS[kind]
    known = sampler.parameter_names()
    for name, value in parameters.items():
        if name not in known:
            raise InputError(
                f"sampler '{kind}' has no parameter '{name}'{did_you_mean(name, known)}"
            )
        if sampler.weights is not None and (
            isinstance(value, bool) or not isinstance(value, int | float)
        ):
            raise InputError(f"sampler '{kind}': {name} = {value!r}: expected a number")
    if sampler.check is not None:
        sampler.check(**parameters)
