r"""Which task the next batch comes from: probabilities from the sizes of the training sets.

$N_i$ training examples of task $i$, $T$ tasks, epoch $e$ of $E$:

| sampler | $p_i \propto$ |
|---|---|
| `proportional` | $N_i$ (an epoch visits every example exactly once) |
| `uniform` | $1$ |
| `sqrt` | $N_i^{1/2}$ |
| `temperature` | $N_i^{1/\tau}$ |
| `annealed` | $N_i^\epsilon$, $\epsilon = 1 - 0.8\,(e-1)/(E-1)$; alone $\epsilon = 1$ |

Reference for `annealed`: Stickland & Murray 2019, "BERT and PALs", §3.3.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from brodmann.errors import InputError, did_you_mean
from brodmann.files import Array

Sampler = Callable[..., Array]


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


SAMPLERS: dict[str, Sampler] = {
    "proportional": proportional,
    "uniform": uniform,
    "sqrt": sqrt,
    "temperature": temperature,
    "annealed": annealed,
}


def task_probabilities(
    kind: str, sizes: Sequence[int], epoch: int = 1, epochs: int = 1, **parameters: Any
) -> Array:
    """p over the tasks in `epoch` (counted from 1).

    >>> task_probabilities("sqrt", [100, 400]).round(3).tolist()
    [0.333, 0.667]
    """
    check_sampler(kind, parameters)
    if kind not in SAMPLERS:
        raise InputError(f"sampler '{kind}' has no probabilities: it chooses examples")
    counts = np.asarray(sizes, dtype=float)
    if counts.ndim != 1 or not len(counts) or not (counts > 0).all():
        raise InputError(f"sampling: expected a positive size for every task, found {list(sizes)}")
    if not 1 <= epoch <= epochs:
        raise InputError(f"sampling: epoch {epoch} is not between 1 and {epochs}")
    shares = SAMPLERS[kind](counts / counts.max(), epoch, epochs, **parameters)
    return np.asarray(shares / shares.sum())


def check_sampler(kind: str, parameters: dict[str, Any]) -> None:
    if kind == "uncertainty":  # chooses examples, not tasks: see data/sampling/uncertainty.py
        from brodmann.data.sampling.uncertainty import check_formula

        for name in parameters:
            if name != "formula":
                hint = did_you_mean(name, ["formula"])
                raise InputError(f"sampler 'uncertainty' has no parameter '{name}'{hint}")
        check_formula(parameters.get("formula", "published"))
        return
    if kind not in SAMPLERS:
        known = [*SAMPLERS, "uncertainty"]
        raise InputError(f"unknown sampler '{kind}'{did_you_mean(kind, known)}")
    known = list(inspect.signature(SAMPLERS[kind]).parameters)[3:]
    for name, value in parameters.items():
        if name not in known:
            raise InputError(
                f"sampler '{kind}' has no parameter '{name}'{did_you_mean(name, known)}"
            )
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"sampler '{kind}': {name} = {value!r}: expected a number")
