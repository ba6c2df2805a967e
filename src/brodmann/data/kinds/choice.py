"""Multiple choice: one text, several continuations or answers, one of them right.

Every choice is read with the text as a pair and gets one number. Loss: cross-entropy over the
choices of an example; their number may differ between examples.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from brodmann.artifacts import Array
from brodmann.data.encoding import Encoded, encode_texts
from brodmann.data.metrics import accuracy
from brodmann.data.tasks import Example, TaskSpec, is_text, label_name, listed, read_texts
from brodmann.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

HEAD = "choice"
REQUIRED = ("text", "choices", "label")
OPTIONAL = ()
TARGETS = ("label",)
METRICS = ("accuracy",)
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
    if labelled:
        example["label"] = _right_choice(row["label"], choices)
    return example


def _right_choice(label: Any, choices: list[str]) -> int:
    """The number of the right choice, from 0, or its text."""
    if isinstance(label, str) and label in choices:
        return choices.index(label)
    name = "" if isinstance(label, bool) else label_name(label)
    number = int(name) if name.isdecimal() else -1
    if not 0 <= number < len(choices):
        raise InputError(
            f"label: expected the number of a choice (0 to {len(choices) - 1}) or its text, "
            f"found {label!r}"
        )
    return number


def settle(spec: TaskSpec, splits: Mapping[str, Sequence[Example]]) -> TaskSpec:
    return spec


def target(example: Example, spec: TaskSpec) -> Example:
    return example


def strata(examples: Sequence[Example], spec: TaskSpec) -> list[Any]:
    return [example["label"] for example in examples]


def outputs(spec: TaskSpec) -> int:
    return 1


def encode(
    examples: Sequence[Example], spec: TaskSpec, tokenizer: Any, max_length: int, stride: int
) -> Encoded:
    texts = [example["text"] for example in examples for _ in example["choices"]]
    choices = [choice for example in examples for choice in example["choices"]]
    ids, starts, types, truncated = encode_texts(tokenizer, texts, choices, max_length)
    item_rows = np.cumsum([0, *(len(example["choices"]) for example in examples)])
    # Rows were cut; how many examples lost text is what is reported.
    if truncated:
        full = np.diff(starts) == max_length
        truncated = int(np.add.reduceat(full, item_rows[:-1]).astype(bool).sum())
    encoded = Encoded(ids, starts, item_rows, np.arange(len(examples)), truncated, types)
    if all("label" in example for example in examples):
        encoded.labels["label"] = np.array([example["label"] for example in examples], np.int64)
    return encoded


def loss(logits: "Tensor", labels: dict[str, "Tensor"], spec: TaskSpec) -> "Tensor":
    """`logits` is (item, choice), padded with -inf where an item has fewer choices."""
    from torch.nn import functional

    return functional.cross_entropy(logits.float(), labels["label"], reduction="none")


def predict(
    outputs: Sequence[Array], encoded: Encoded, examples: Sequence[Example], spec: TaskSpec
) -> list[dict[str, Any]]:
    predictions = []
    for logits, example in zip(outputs, examples, strict=True):
        logits = logits[: len(example["choices"])]
        probabilities = np.exp(logits - logits.max())
        probabilities /= probabilities.sum()
        best = int(probabilities.argmax())
        predictions.append(
            {
                "choice": best,
                "text": example["choices"][best],
                "score": float(probabilities[best]),
                "probabilities": [float(p) for p in probabilities],
            }
        )
    return predictions


def score(
    predictions: Sequence[dict[str, Any]], examples: Sequence[Example], spec: TaskSpec
) -> dict[str, float]:
    return accuracy([example["label"] for example in examples], [p["choice"] for p in predictions])


def trivial(
    train: Sequence[Example], examples: Sequence[Example], spec: TaskSpec
) -> list[dict[str, Any]]:
    """Always the place that is right most often."""
    place = Counter(example["label"] for example in train).most_common(1)[0][0]
    return [{"choice": place} for _ in examples]
