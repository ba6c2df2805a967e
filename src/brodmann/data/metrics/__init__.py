"""Metrics: the contribution of each example, and the score of any resample.

A `Metric` is two functions. `addends` turns predictions into an array (unit, addend); a unit is
drawn as a whole: one example or, if examples come in sets, one set. `resampled` turns
that array and weights (resample, unit), the number of times each unit was drawn, into one score per
resample. The score of all examples is that of the resample with each unit once, so a score and its
interval cannot follow different formulas.

A metric takes one of three forms:

- `mean`: the weighted mean of one number per unit, or of right answers per question;
- `of_counts`: a formula of sums of whole numbers (positives, cells of a confusion matrix);
- `redrawn`: a formula of the drawn examples themselves, for metrics that are not sums over examples
  (ranks) or lose precision in sums (correlations of nearly constant predictions).

Scores are fractions. A metric with nothing to measure (constant predictions, no entity on either
side) is 0: nothing was shown. Every module of this package holds one family of metrics; `METRICS`
in the file of a kind lists those of its tasks.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from brodmann.data.tasks import Example, TaskSpec
from brodmann.files import Array

Prediction = Mapping[str, Any]
Addends = Callable[[Sequence[Prediction], Sequence[Example], TaskSpec], Array]
Resampled = Callable[[Array, Array], Array]


def _always(spec: TaskSpec) -> bool:
    return True


@dataclass(frozen=True)
class Metric:
    """One metric for one form of prediction.

    `addends` reads only those keys of a prediction that `Kind.trivial` writes, too.
    """

    addends: Addends  # predictions, examples, specification → (unit, addend)
    resampled: Resampled  # (unit, addend), (resample, unit) → (resample,)
    defined: Callable[[TaskSpec], bool] = _always  # whether a task has what it needs
    lower_is_better: bool = False
    lowest: float = 0.0  # the lower end of its range; the upper end is 1
    proportion: bool = False  # a single addend, 1 if the unit is right, else 0

    def outcomes(
        self, predictions: Sequence[Prediction], examples: Sequence[Example], spec: TaskSpec
    ) -> Array:
        """The addends as floating-point numbers, ready to be resampled or stored."""
        return np.asarray(self.addends(predictions, examples, spec), dtype=np.float64)

    def whole(self, values: Array) -> float:
        """The score with every unit drawn once."""
        return float(self.resampled(values, np.ones((1, len(values))))[0])

    def score(
        self, predictions: Sequence[Prediction], examples: Sequence[Example], spec: TaskSpec
    ) -> float:
        return self.whole(self.outcomes(predictions, examples, spec))


def mean(values: Array, weights: Array) -> Array:
    """The mean of one column; for two columns, the total of the first over that of the second."""
    if values.shape[1] == 2:
        return divided(*(weights @ values).T)
    # Not a matrix product: its rounding depends on the number of resamples.
    return divided((weights * values[:, 0]).sum(axis=1), weights.sum(axis=1))


def of_counts(formula: Callable[[Array], Array]) -> Resampled:
    """`formula` of the totals, (resample, addend), which are exact for whole numbers."""
    return lambda values, weights: formula(weights @ values)


def redrawn(formula: Callable[[Array, Array], float]) -> Resampled:
    """`formula` of the two columns of the drawn examples, one resample at a time."""

    def resampled(values: Array, weights: Array) -> Array:
        draws = (np.repeat(values.T, row.astype(int), axis=1) for row in weights)
        return np.array([formula(truth, guess) for truth, guess in draws])

    return resampled


def divided(above: Array, below: Array) -> Array:
    """The quotient, or 0 if the divisor is 0."""
    zeros = np.zeros_like(above, dtype=float)
    return np.asarray(np.divide(above, below, out=zeros, where=below > 0))
