"""Multiple choice: one text, several continuations or answers, one of them right.

Every choice is read with the text as a pair and gets one number. Loss: cross-entropy over the
choices of an example; their number may differ between examples. If several choices are right
(ReCoRD, Zhang et al. 2018), it is the negative log of the sum of their probabilities. `f1` and
`exact_match` compare the chosen words with the right ones, as for spans; `choice_names` gives those
words if a choice is a whole sentence.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from brodmann.data.answering.conformal import label_region
from brodmann.data.answering.decisions import USUAL, Decisions, filled, softmax
from brodmann.data.answers import choice_words, right_choices
from brodmann.data.encoding import Encoded, Tokenizer, encode_texts
from brodmann.data.judging import Beliefs, Case, Judged, excerpt, pair_excerpt
from brodmann.data.metrics import Metric, Prediction, of_words
from brodmann.data.sampling import entropy as entropies
from brodmann.data.tasks import (
    Example,
    TaskSpec,
    is_number,
    is_text,
    label_name,
    listed,
    read_texts,
)
from brodmann.errors import InputError
from brodmann.files import Array

if TYPE_CHECKING:
    from torch import Tensor

HEAD = "choice"
REQUIRED = ("text", "choices", "label")
OPTIONAL = ("choice_names",)
TARGETS = ("label", "choice_names")
METRICS: dict[str, Metric] = {
    "accuracy": of_words.choice_accuracy,
    "f1": of_words.choice_f1,
    "exact_match": of_words.choice_exact_match,
}
WEIGHTED_CLASSES = False


def read(row: Mapping[str, Any], spec: TaskSpec, labelled: bool) -> Example:
    choices = row["choices"]
    if isinstance(choices, str):
        choices = listed(choices, "choices", "|")
    if not isinstance(choices, list) or not all(isinstance(c, str) and is_text(c) for c in choices):
        raise InputError(f"choices: expected a list of texts, found {choices!r:.60}")
    if len(choices) < 2:
        raise InputError(f"choices: expected at least two, found {len(choices)}")
    example = {**read_texts(row), "choices": choices}
    if row.get("choice_names") is not None:
        names = row["choice_names"]
        if not isinstance(names, list) or len(names) != len(choices):
            raise InputError(f"choice_names: expected one name per choice, found {names!r:.60}")
        example["choice_names"] = [str(name) for name in names]
    if labelled:
        given = row["label"] if isinstance(row["label"], list) else [row["label"]]
        right = sorted({_right_choice(label, choices) for label in given})
        if not right:
            raise InputError("label: no choice is right")
        example["label"] = right[0]
        if len(right) > 1:
            example["right"] = right
    return example


def _right_choice(label: Any, choices: list[str]) -> int:
    """The index of the right choice, from its number or its text."""
    if isinstance(label, str) and label in choices:
        return choices.index(label)
    name = "" if isinstance(label, bool) else label_name(label)
    number = int(name) if is_number(name) else -1
    if not 0 <= number < len(choices):
        raise InputError(
            f"label: expected the number of a choice (0 to {len(choices) - 1}) or its text, "
            f"found {label!r:.60}"
        )
    return number


def settle(spec: TaskSpec, splits: Mapping[str, Sequence[Example]]) -> TaskSpec:
    return spec


def target(example: Example, spec: TaskSpec) -> Example:
    return example


def as_row(example: Example, spec: TaskSpec) -> Example:
    row = {**example, "label": example.get("right", example["label"])}
    row.pop("right", None)
    return row


def strata(examples: Sequence[Example], spec: TaskSpec) -> list[Any]:
    """No strata: the position of the right choice says nothing about an example."""
    return [0] * len(examples)


def primary(spec: TaskSpec) -> str:
    return "accuracy"


def outputs(spec: TaskSpec) -> int:
    return 1


def encode(
    examples: Sequence[Example], spec: TaskSpec, tokenizer: Tokenizer, max_length: int, stride: int
) -> Encoded:
    texts = [example["text"] for example in examples for _ in example["choices"]]
    choices = [choice for example in examples for choice in example["choices"]]
    ids, starts, types, truncated = encode_texts(tokenizer, texts, choices, max_length)
    item_rows = np.cumsum([0, *(len(example["choices"]) for example in examples)])
    # Rows were cut, but the number of examples that lost text is reported.
    if truncated:
        full = np.diff(starts) == max_length
        truncated = int(np.add.reduceat(full, item_rows[:-1]).astype(bool).sum())
    encoded = Encoded(ids, starts, item_rows, np.arange(len(examples)), truncated, types)
    if all("label" in example for example in examples):
        encoded.labels["label"] = np.array([example["label"] for example in examples], np.int64)
        if any("right" in example for example in examples):
            right = np.zeros(len(choices), np.int64)
            for first, example in zip(item_rows, examples, strict=False):
                right[first + np.array(right_choices(example))] = 1
            encoded.labels["right"] = right
    return encoded


def loss(logits: "Tensor", labels: dict[str, "Tensor"], spec: TaskSpec) -> "Tensor":
    """Cross-entropy; `logits` is (item, choice), padded with -inf for missing choices."""
    from torch.nn import functional

    if "right" in labels:
        wrong = labels["right"] == 0
        among_right = logits.float().masked_fill(wrong, float("-inf")).logsumexp(dim=1)
        return logits.float().logsumexp(dim=1) - among_right
    return functional.cross_entropy(logits.float(), labels["label"], reduction="none")


def entropy(logits: "Tensor", real: "Tensor") -> tuple["Tensor", "Tensor"]:
    """Entropy over the choices; `real` is (item, choice)."""
    found = entropies.of_choices(logits, real)
    return found, entropies.uniform(found, real.sum(dim=-1))


def predict(
    outputs: Sequence[Array],
    encoded: Encoded,
    examples: Sequence[Example],
    spec: TaskSpec,
    thresholds: Mapping[str, float] = USUAL,
) -> list[dict[str, Any]]:
    predictions = []
    for logits, example in zip(outputs, examples, strict=True):
        logits = logits[: len(example["choices"])]
        probabilities = softmax(logits)
        best = int(probabilities.argmax())
        predictions.append(
            {
                "choice": best,
                "text": choice_words(example)[best],
                "score": float(probabilities[best]),
                "probabilities": [float(p) for p in probabilities],
            }
        )
    return predictions


def threshold_grids(spec: TaskSpec) -> dict[str, list[float]]:
    return {}  # the most probable choice is the answer


def decisions(outputs: Sequence[Array], encoded: Encoded) -> Decisions:
    return Decisions(filled(outputs), encoded.labels["label"], encoded.item_example)


def surprises(
    predictions: Sequence[Prediction], examples: Sequence[Example], spec: TaskSpec
) -> Array:
    pairs = zip(predictions, examples, strict=True)
    return np.array(
        [1 - max(found["probabilities"][place] for place in right_choices(e)) for found, e in pairs]
    )


def region(prediction: Prediction, furthest: float, spec: TaskSpec) -> dict[str, Any]:
    """The places of the choices that are no stranger than `furthest`, most probable first."""
    return {"set": label_region(prediction["probabilities"], furthest)}


def judge(predictions: Sequence[Prediction], examples: Sequence[Example], spec: TaskSpec) -> Judged:
    """Labels are the places of choices, which show whether the model prefers one of them."""
    answer = np.array([found["choice"] for found in predictions], np.int64)
    right = [right_choices(example) for example in examples]
    hit = np.array([place in places for place, places in zip(answer, right, strict=True)], bool)
    truth = np.where(hit, answer, [places[0] for places in right])
    score = np.array([found["score"] for found in predictions], np.float64)
    chances = np.exp(filled([np.log(_positive(found)) for found in predictions]))
    single = np.array([len(places) == 1 for places in right], bool)
    names = [_place(number) for number in range(chances.shape[1])]
    rows = np.arange(len(examples))
    return Judged(
        unit="question",
        names=names,
        example=rows,
        truth=truth,
        answer=answer,
        wrong=(~hit).astype(float),
        sure=score,
        certainty=score,
        beliefs=[Beliefs(names, rows[single], truth[single], chances[single], alike=True)],
    )


def _positive(found: Prediction) -> Array:
    return np.maximum(np.array(found["probabilities"], np.float64), np.finfo(np.float32).tiny)


def _place(number: int) -> str:
    return f"choice {number + 1}"


def case(prediction: Prediction, example: Example, spec: TaskSpec) -> Case:
    words, places = choice_words(example), right_choices(example)
    place = prediction["choice"] if prediction["choice"] in places else places[0]
    quoted = (excerpt(words[place]), excerpt(words[prediction["choice"]]))
    return Case(_place(place), _place(prediction["choice"]), pair_excerpt(example), quoted)


def trivial(
    train: Sequence[Example], examples: Sequence[Example], spec: TaskSpec
) -> list[dict[str, Any]]:
    """Always the position that is right most often."""
    counts = Counter(place for example in train for place in right_choices(example))
    place = counts.most_common(1)[0][0]
    return [{"choice": min(place, len(example["choices"]) - 1)} for example in examples]
