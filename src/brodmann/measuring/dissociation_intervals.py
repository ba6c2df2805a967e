"""Intervals of D: over validation examples, and over the draw of importance examples as well.

Validation examples are resampled from the outcomes already measured, with the same draw for all
choices of heads. If importance was redrawn (`analysis/redraws.py`), the spread of D over the
redraws is added to every draw; the intervals over validation examples alone are kept, too.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from brodmann.analysis.dissociation import DissociationScores
from brodmann.analysis.statistics import (
    LEVEL,
    bootstrap_weights,
    never_empty,
    percentile_interval,
    unseen_share,
)
from brodmann.files import Array
from brodmann.measuring.head_outcomes import HeadOutcomes, Named

FEWEST_DEFINED = 0.95  # share of the resamples in which a D must exist to have an interval
EXAMPLES, IMPORTANCE = "validation examples", "importance examples"


def dissociation_intervals(
    measured: HeadOutcomes,
    tasks: Sequence[Named],
    alpha: float,
    found: DissociationScores,
    resamples: int,
    seed: int,
    redrawn: dict[str, Any] | None,
) -> dict[str, Any]:
    """Intervals of each task's D, their mean, each pairwise D and each pair; None if undefined."""
    drawn: list[Array | None] = []
    reach = []  # half-width for a D that no resample moves: a share not seen yet
    for i, task in enumerate(tasks):
        units = len(measured.outcomes_of(task, "base"))
        if found.per_task[i] is None or not resamples:
            drawn.append(None)
            reach.append(0.0)
            continue
        weights = bootstrap_weights(units, resamples, seed + i)
        drawn.append(_resampled(measured, tasks, i, alpha, weights))
        reach.append(unseen_share(units) / measured.score(task, "base"))
    over_examples = _ends(drawn, reach)
    if redrawn is None or not resamples:
        return {"level": LEVEL, "over": [EXAMPLES], **over_examples}
    noise = np.random.default_rng(seed).standard_t(redrawn["redraws"] - 1, size=resamples)
    combined = _ends(drawn, reach, redrawn["spread"], noise)
    return {
        "level": LEVEL,
        "over": [EXAMPLES, IMPORTANCE],
        **combined,
        "examples_only": over_examples,
    }


def _resampled(
    measured: HeadOutcomes, tasks: Sequence[Named], place: int, alpha: float, weights: Array
) -> Array:
    """(other task, resample): RP_i(H_j) - RP_i(H_i) for the task with index `place`."""
    task = tasks[place]
    base = measured.score(task, "base", weights)
    base = np.where(base > 0, base, np.nan)
    relative = np.stack([measured.score(task, f"{alpha}/{j.name}", weights) / base for j in tasks])
    return np.asarray(relative - relative[place])


def _ends(
    drawn: Sequence[Array | None],
    reach: Sequence[float],
    spread: dict[str, Any] | None = None,
    noise: Array | None = None,
) -> dict[str, Any]:
    count = len(drawn)
    others = [[j for j in range(count) if j != i] for i in range(count)]

    def ends(values: Array | None, most: float, deviation: float | None) -> list[float] | None:
        if values is None:
            return None
        if noise is not None and deviation:
            values = values + deviation * noise
        defined = values[np.isfinite(values)]
        if len(defined) < FEWEST_DEFINED * len(values):
            return None
        return never_empty(percentile_interval(defined, LEVEL), most)

    def spread_of(name: str, *places: int) -> Any:
        value: Any = None if spread is None else spread[name]
        for place in places:
            value = None if value is None else value[place]
        return value

    each = [None if d is None else d[others[i]].mean(axis=0) for i, d in enumerate(drawn)]
    defined = [d for d in each if d is not None]
    whole = np.mean(defined, axis=0) if len(defined) == count else None
    pairwise: list[list[Any]] = [[None] * count for _ in range(count)]
    pairs: list[list[Any]] = [[None] * count for _ in range(count)]
    for i in range(count):
        for j in others[i]:
            one, other = drawn[i], drawn[j]
            both = None if one is None or other is None else (one[j] + other[i]) / 2
            own = None if one is None else one[j]
            pairwise[i][j] = ends(own, reach[i], spread_of("pairwise", i, j))
            pairs[i][j] = ends(both, (reach[i] + reach[j]) / 2, spread_of("pairs", i, j))
    return {
        "per_task": [ends(d, reach[i], spread_of("per_task", i)) for i, d in enumerate(each)],
        "mean": ends(whole, float(np.mean(reach)), spread_of("mean")),
        "pairwise": pairwise,
        "pairs": pairs,
    }
