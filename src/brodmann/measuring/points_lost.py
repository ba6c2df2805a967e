"""Points that a task loses from one model to another, on the same examples.

A loss is in points: hundredths of the metric's range or, for an error such as the mean squared one,
percent of the first model's own. Its upper bound is that of a paired bootstrap, one-sided. It is
never below Wilson's bound of a share that none of the examples showed: a few hundred answers that
did not change do not prove that none ever will.
"""

from dataclasses import dataclass

import numpy as np

from brodmann.analysis.statistics import LEVEL, bootstrap_weights, percentile_interval, unseen_share
from brodmann.data.kinds import metric_of
from brodmann.data.tasks import TaskSpec
from brodmann.files import Array

RESAMPLES = 1000


@dataclass(frozen=True)
class Loss:
    """What a task loses on these examples, in points."""

    before: float  # scores
    after: float
    points: float
    interval: tuple[float, float]
    bound: float  # upper, one-sided
    examples: int


def points_lost(
    spec: TaskSpec, before: Array, after: Array, *, resamples: int = RESAMPLES, seed: int = 0
) -> Loss:
    """`before` and `after` are the outcomes (`Metric.outcomes`) of the same examples."""
    metric, count = metric_of(spec), len(before)
    weights = bootstrap_weights(count, resamples, seed)
    weights = np.concatenate([np.ones((1, count)), weights])  # the first: no resample
    scores = [metric.resampled(values, weights) for values in (before, after)]
    lost = 100 * (scores[0] - scores[1])
    if metric.lower_is_better:
        lost = -lost / np.maximum(scores[0], 1e-12)
    # Two-sided at 90 %, its upper end is that of the one-sided bound at 95 %.
    least = 100 * unseen_share(count, 2 * LEVEL - 1)
    return Loss(
        before=float(scores[0][0]),
        after=float(scores[1][0]),
        points=float(lost[0]),
        interval=percentile_interval(lost[1:]),
        bound=max(float(np.quantile(lost[1:], LEVEL)), float(lost[0]) + least),
        examples=count,
    )
