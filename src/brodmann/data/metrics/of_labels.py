r"""Metrics of one label per text.

$$\mathrm{MCC} = \frac{c s - \sum_k a_k p_k}
  {\sqrt{(s^2 - \sum_k p_k^2)(s^2 - \sum_k a_k^2)}}$$

where $c$ of $s$ answers are right, and class $k$ is right $a_k$ times and answered $p_k$ times.
`f1` is that of the second label for two classes, the macro mean for more.

Examples may come in sets, such as the answers to one question: then a set is the unit. MultiRC
(Khashabi et al. 2018) is scored by the F1 over all answers and by the exact match, the share of
questions whose answers are all right.
"""

from collections.abc import Sequence

import numpy as np

from brodmann.data.metrics import Metric, Prediction, divided, mean, of_counts
from brodmann.data.metrics.positives import mean_f1, per_label, positives
from brodmann.data.tasks import Example, TaskSpec
from brodmann.files import Array


def has_sets(spec: TaskSpec) -> bool:
    return "set" in spec.columns


def _labels(
    predictions: Sequence[Prediction], examples: Sequence[Example], spec: TaskSpec
) -> tuple[Array, Array]:
    """The true and the predicted labels, as indices among the task's labels."""
    guess = np.array([spec.label_places[prediction["label"]] for prediction in predictions])
    return np.array([example["label"] for example in examples]), guess


def _per_set(rows: Array, examples: Sequence[Example], spec: TaskSpec) -> Array:
    """One row per set, the sum of its examples; without sets, the rows unchanged."""
    if not has_sets(spec):
        return rows
    names, place = np.unique([str(example["set"]) for example in examples], return_inverse=True)
    totals = np.zeros((len(names), rows.shape[1]))
    np.add.at(totals, place, rows)
    return totals


def _right(predictions: Sequence[Prediction], examples: Sequence[Example], spec: TaskSpec) -> Array:
    """Whether an example is right; for a set, the numbers of right and of all examples."""
    truth, guess = _labels(predictions, examples, spec)
    if not has_sets(spec):
        return np.asarray(truth == guess)[:, None]
    return _per_set(np.stack([truth == guess, np.ones(len(truth))], axis=1), examples, spec)


def _right_sets(
    predictions: Sequence[Prediction], examples: Sequence[Example], spec: TaskSpec
) -> Array:
    right, asked = _right(predictions, examples, spec).T
    return np.asarray(right == asked)[:, None]


def _positives(
    predictions: Sequence[Prediction], examples: Sequence[Example], spec: TaskSpec
) -> Array:
    truth, guess = _labels(predictions, examples, spec)
    counts = positives((truth == place, guess == place) for place in range(len(spec.label_list)))
    return _per_set(counts, examples, spec)


def _counted_positives(
    predictions: Sequence[Prediction], examples: Sequence[Example], spec: TaskSpec
) -> Array:
    counts = _positives(predictions, examples, spec)
    return counts[:, 3:] if len(spec.label_list) == 2 else counts


def _matthews(totals: Array) -> Array:
    true, predicted, actual = per_label(totals)
    right, count = true.sum(axis=1), actual.sum(axis=1)
    above = right * count - (actual * predicted).sum(axis=1)
    spread = (count**2 - (actual**2).sum(axis=1)) * (count**2 - (predicted**2).sum(axis=1))
    return divided(above, np.sqrt(np.maximum(spread, 0)))


accuracy = Metric(_right, mean, proportion=True)
f1 = Metric(_counted_positives, of_counts(mean_f1))
macro_f1 = Metric(_positives, of_counts(mean_f1))
matthews = Metric(_positives, of_counts(_matthews), lowest=-1.0)
exact_match = Metric(_right_sets, mean, defined=has_sets, proportion=True)
