"""Metrics of several labels per text: F1 over all decisions, its mean over labels, exact match."""

from collections.abc import Callable, Sequence

import numpy as np

from brodmann.data.metrics import Addends, Metric, Prediction, mean, of_counts
from brodmann.data.metrics.positives import mean_f1, positives
from brodmann.data.tasks import Example, TaskSpec
from brodmann.files import Array


def _given(
    predictions: Sequence[Prediction], examples: Sequence[Example], spec: TaskSpec
) -> tuple[Array, Array]:
    """The true and the predicted labels as booleans, (example, label)."""
    guess = np.array([[name in p["labels"] for name in spec.label_list] for p in predictions])
    return np.array([example["label"] for example in examples]).astype(bool), guess


def _positives(truth: Array, guess: Array) -> Array:
    return positives(zip(truth.T, guess.T, strict=True))


def _all_positives(truth: Array, guess: Array) -> Array:
    counts = _positives(truth, guess)
    return np.asarray(counts.reshape(len(counts), -1, 3).sum(axis=1))


def _same(truth: Array, guess: Array) -> Array:
    return np.asarray((truth == guess).all(axis=1))[:, None]


def _of_predictions(from_matrices: Callable[[Array, Array], Array]) -> Addends:
    def addends(
        predictions: Sequence[Prediction], examples: Sequence[Example], spec: TaskSpec
    ) -> Array:
        return from_matrices(*_given(predictions, examples, spec))

    return addends


# The addends from booleans (example, label): the right labels, and those given.
FROM_MATRICES = {"micro_f1": _all_positives, "macro_f1": _positives, "exact_match": _same}

micro_f1 = Metric(_of_predictions(_all_positives), of_counts(mean_f1))
macro_f1 = Metric(_of_predictions(_positives), of_counts(mean_f1))
exact_match = Metric(_of_predictions(_same), mean, proportion=True)
