"""Metrics of answers: the right choice, and SQuAD's word F1 and exact match (see `answers.py`)."""

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from brodmann.data.answers import (
    AnswerScore,
    answer_score,
    choice_words,
    right_answers,
    right_choices,
)
from brodmann.data.metrics import Addends, Metric, Prediction, mean
from brodmann.data.tasks import Example, TaskSpec
from brodmann.files import Array


def _right_choice(
    predictions: Sequence[Prediction], examples: Sequence[Example], spec: TaskSpec
) -> Array:
    pairs = zip(predictions, examples, strict=True)
    return np.array([[p["choice"] in right_choices(example)] for p, example in pairs])


def _chosen_words(prediction: Prediction, example: Example, spec: TaskSpec) -> AnswerScore:
    names = choice_words(example)
    right = [names[place] for place in right_choices(example)]
    return answer_score(right, names[prediction["choice"]])


def _span(prediction: Prediction, example: Example, spec: TaskSpec) -> AnswerScore:
    language = example.get("language", spec.language)
    rules = spec.answer_rules or None
    return answer_score(right_answers(example), prediction["answer"], language, rules)


def _words(
    compared: Callable[[Prediction, Example, TaskSpec], AnswerScore],
    part: Literal["f1", "exact_match"],
) -> Addends:
    """One part of the comparison of every answer with the right ones."""

    def addends(
        predictions: Sequence[Prediction], examples: Sequence[Example], spec: TaskSpec
    ) -> Array:
        pairs = zip(predictions, examples, strict=True)
        return np.array([[getattr(compared(p, example, spec), part)] for p, example in pairs])

    return addends


choice_accuracy = Metric(_right_choice, mean, proportion=True)
choice_f1 = Metric(_words(_chosen_words, "f1"), mean)
choice_exact_match = Metric(_words(_chosen_words, "exact_match"), mean, proportion=True)
span_f1 = Metric(_words(_span, "f1"), mean)
span_exact_match = Metric(_words(_span, "exact_match"), mean, proportion=True)
