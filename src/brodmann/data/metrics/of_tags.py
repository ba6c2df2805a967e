"""Metrics of one tag per word: accuracy, macro F1, and F1, precision and recall of entities.

Entities are counted as conlleval and seqeval count them (Tjong Kim Sang & De Meulder 2003): one is
right if its label and both its ends are.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from brodmann.data.metrics import Metric, Prediction, divided, mean, of_counts
from brodmann.data.metrics.positives import mean_f1_of_present
from brodmann.data.tag_schemes import entities
from brodmann.data.tasks import Example, TaskSpec
from brodmann.files import Array


def has_entities(spec: TaskSpec) -> bool:
    return spec.scheme == "entities"


def _tags(
    predictions: Sequence[Prediction], examples: Sequence[Example], spec: TaskSpec
) -> Iterator[tuple[list[str], list[str]]]:
    """The true and the predicted tags of every example."""
    for prediction, example in zip(predictions, examples, strict=True):
        yield [spec.label_list[tag] for tag in example["tags"]], prediction["tags"]


def _right(predictions: Sequence[Prediction], examples: Sequence[Example], spec: TaskSpec) -> Array:
    """Numbers of right words and of all words."""
    rows = _tags(predictions, examples, spec)
    return np.array(
        [
            [sum(a == b for a, b in zip(truth, guess, strict=True)), len(truth)]
            for truth, guess in rows
        ]
    )


def _positives(
    predictions: Sequence[Prediction], examples: Sequence[Example], spec: TaskSpec
) -> Array:
    # By name, as scikit-learn sorts them: the mean over labels is then the same to the last bit.
    place = {name: index for index, name in enumerate(sorted(spec.label_list))}
    counts = np.zeros((len(examples), len(place), 3))
    for row, (truth, guess) in zip(counts, _tags(predictions, examples, spec), strict=True):
        for true, guessed in zip(truth, guess, strict=True):
            row[place[true], 0] += true == guessed
            row[place[guessed], 1] += 1
            row[place[true], 2] += 1
    return counts.reshape(len(examples), -1)


def _entity_counts(
    predictions: Sequence[Prediction], examples: Sequence[Example], spec: TaskSpec
) -> Array:
    """True positives, predicted positives, actual positives of entities."""
    rows = _tags(predictions, examples, spec)
    pairs = ((set(entities(truth)), set(entities(guess))) for truth, guess in rows)
    return np.array([[len(t & g), len(g), len(t)] for t, g in pairs])


def _precision(totals: Array) -> Array:
    return divided(totals[:, 0], totals[:, 1])


def _recall(totals: Array) -> Array:
    return divided(totals[:, 0], totals[:, 2])


def _entity_f1(totals: Array) -> Array:
    """The harmonic mean of precision and recall, rounded as seqeval rounds it."""
    precision, recall = _precision(totals), _recall(totals)
    return divided(2 * precision * recall, precision + recall)


entity_f1 = Metric(_entity_counts, of_counts(_entity_f1), defined=has_entities)
entity_precision = Metric(_entity_counts, of_counts(_precision), defined=has_entities)
entity_recall = Metric(_entity_counts, of_counts(_recall), defined=has_entities)
accuracy = Metric(_right, mean)
macro_f1 = Metric(_positives, of_counts(mean_f1_of_present))
