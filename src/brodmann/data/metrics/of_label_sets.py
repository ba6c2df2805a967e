"""Metrics of several labels per text: F1 over all decisions, its mean over labels, exact match."""

from collections.abc import Sequence

import numpy as np

from brodmann.data.metrics import Metric, Prediction, mean, of_counts
from brodmann.data.metrics.positives import mean_f1, positives
from brodmann.data.tasks import Example, TaskSpec
from brodmann.files import Array


def _given(
    predictions: Sequence[Prediction], examples: Sequence[Example], spec: TaskSpec
) -> tuple[Array, Array]:
    """The true and the predicted labels as booleans, (example, label)."""
    guess = np.array([[name in p["labels"] for name in spec.label_list] for p in predictions])
    return np.array([example["label"] for example in examples]).astype(bool), guess


def _positives(
    predictions: Sequence[Prediction], examples: Sequence[Example], spec: TaskSpec
) -> Array:
    truth, guess = _given(predictions, examples, spec)
    return positives(zip(truth.T, guess.T, strict=True))


def _all_positives(
    predictions: Sequence[Prediction], examples: Sequence[Example], spec: TaskSpec
) -> Array:
    counts = _positives(predictions, examples, spec)
    return np.asarray(counts.reshape(len(counts), -1, 3).sum(axis=1))


def _same(predictions: Sequence[Prediction], examples: Sequence[Example], spec: TaskSpec) -> Array:
    truth, guess = _given(predictions, examples, spec)
    return np.asarray((truth == guess).all(axis=1))[:, None]


micro_f1 = Metric(_all_positives, of_counts(mean_f1))
macro_f1 = Metric(_positives, of_counts(mean_f1))
exact_match = Metric(_same, mean, proportion=True)
