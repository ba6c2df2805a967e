r"""Metrics of predicted numbers: the correlations of Spearman and Pearson, $R^2$, squared error.

$$R^2 = 1 - \frac{\sum (y - \hat y)^2}{\sum (y - \bar y)^2}$$

where $y$ is the truth and $\hat y$ the prediction. Spearman's correlation is Pearson's of the
ranks, which change with every draw: each resample is ranked again.
"""

from collections.abc import Sequence

import numpy as np

from brodmann.data.metrics import Metric, Prediction, mean, redrawn
from brodmann.data.tasks import Example, TaskSpec
from brodmann.files import Array


def _both(predictions: Sequence[Prediction], examples: Sequence[Example], spec: TaskSpec) -> Array:
    truth = np.array([example["label"] for example in examples], float)
    guess = np.array([prediction["value"] for prediction in predictions], float)
    return np.stack([truth, guess], axis=1)


def _squared_error(
    predictions: Sequence[Prediction], examples: Sequence[Example], spec: TaskSpec
) -> Array:
    truth, guess = _both(predictions, examples, spec).T
    return np.asarray((truth - guess) ** 2)[:, None]


def _varied(truth: Array, guess: Array) -> bool:
    return bool(np.ptp(truth) > 0 and np.ptp(guess) > 0)


def _spearman(truth: Array, guess: Array) -> float:
    if not _varied(truth, guess):
        return 0.0
    return float(np.corrcoef(_ranks(truth), _ranks(guess))[1, 0])


def _ranks(values: Array) -> Array:
    """Ranks from 1; equal values share the mean of theirs.

    scipy's `rankdata` gives the same numbers, but an interval ranks thousands of small samples,
    for which its checks of the input take most of the time.
    """
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((counts.cumsum() - (counts - 1) / 2)[place])


def _pearson(truth: Array, guess: Array) -> float:
    if not _varied(truth, guess):
        return 0.0
    with np.errstate(invalid="ignore", over="ignore"):  # for infinite predictions
        found = float(_standard(truth) @ _standard(guess))
    return min(max(found, -1.0), 1.0) if np.isfinite(found) else 0.0


def _standard(values: Array) -> Array:
    """The values centred and scaled to length 1; scaled first, so that no square overflows."""
    centred = values - values.mean()
    largest = np.abs(centred).max()
    return np.asarray(centred / (largest * np.sqrt(((centred / largest) ** 2).sum())))


def _r2(truth: Array, guess: Array) -> float:
    spread = float(truth.var())
    return 1 - float(np.mean((truth - guess) ** 2)) / spread if spread > 0 else 0.0


spearman = Metric(_both, redrawn(_spearman), lowest=-1.0)
pearson = Metric(_both, redrawn(_pearson), lowest=-1.0)
r2 = Metric(_both, redrawn(_r2), lowest=-1.0)
mean_squared_error = Metric(_squared_error, mean, lower_is_better=True)
