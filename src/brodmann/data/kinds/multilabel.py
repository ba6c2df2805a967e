"""Any number of labels for one text or a pair.

Loss: binary cross-entropy, averaged over the labels. A label is predicted if its probability is at
least one half.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from brodmann.data.answering.decisions import TRIED_SHARES, USUAL, Decisions
from brodmann.data.encoding import Encoded, Tokenizer, one_row_an_example
from brodmann.data.judging import NOTHING, Beliefs, Case, Judged, pair_excerpt
from brodmann.data.metrics import Metric, Prediction, of_label_sets
from brodmann.data.sampling import entropy as entropies
from brodmann.data.tasks import (
    Example,
    TaskSpec,
    label_index,
    label_names,
    listed,
    read_texts,
    scalar_label,
)
from brodmann.errors import InputError
from brodmann.files import Array
from brodmann.text import listed as first_names

if TYPE_CHECKING:
    from torch import Tensor

HEAD = "sequence"
REQUIRED = ("text", "label")
OPTIONAL = ("text_pair",)
TARGETS = ("label",)
METRICS: dict[str, Metric] = {
    "micro_f1": of_label_sets.micro_f1,
    "macro_f1": of_label_sets.macro_f1,
    "exact_match": of_label_sets.exact_match,
}
WEIGHTED_CLASSES = False

THRESHOLD = 0.5
SHOWN = 20  # labels of one example


def read(row: Mapping[str, Any], spec: TaskSpec, labelled: bool) -> Example:
    example = read_texts(row)
    if labelled:
        several = listed(row["label"], "label", spec.separator)
        example["label"] = [scalar_label(label, "label") for label in several]
    return example


def settle(spec: TaskSpec, splits: Mapping[str, Sequence[Example]]) -> TaskSpec:
    labels = spec.labels or label_names(
        label for examples in splits.values() for example in examples for label in example["label"]
    )
    if not labels:
        raise InputError(f"task '{spec.name}': no example has a label")
    return replace(spec, labels=labels)


def target(example: Example, spec: TaskSpec) -> Example:
    indices = {label_index(label, spec) for label in example["label"]}
    return {**example, "label": [int(i in indices) for i in range(len(spec.label_list))]}


def as_row(example: Example, spec: TaskSpec) -> Example:
    marked = zip(spec.label_list, example["label"], strict=True)
    return {**example, "label": [name for name, is_right in marked if is_right]}


def strata(examples: Sequence[Example], spec: TaskSpec) -> list[Any]:
    return [tuple(map(str, example["label"])) for example in examples]


def primary(spec: TaskSpec) -> str:
    return "micro_f1"


def outputs(spec: TaskSpec) -> int:
    return len(spec.label_list)


def encode(
    examples: Sequence[Example], spec: TaskSpec, tokenizer: Tokenizer, max_length: int, stride: int
) -> Encoded:
    encoded = one_row_an_example(tokenizer, examples, max_length)
    if all("label" in example for example in examples):
        encoded.labels["label"] = np.array([example["label"] for example in examples], np.float32)
    return encoded


def loss(logits: "Tensor", labels: dict[str, "Tensor"], spec: TaskSpec) -> "Tensor":
    from torch.nn import functional

    return functional.binary_cross_entropy_with_logits(
        logits.float(), labels["label"], reduction="none"
    ).mean(dim=1)


def entropy(logits: "Tensor", real: "Tensor") -> tuple["Tensor", "Tensor"]:
    """Mean entropy over labels, each a yes or no."""
    found = entropies.of_yes_or_no(logits).mean(dim=-1)
    return found, entropies.uniform(found, 2)


def predict(
    outputs: Sequence[Array],
    encoded: Encoded,
    examples: Sequence[Example],
    spec: TaskSpec,
    thresholds: Mapping[str, float] = USUAL,
) -> list[dict[str, Any]]:
    predictions = []
    for logits in outputs:
        probabilities = dict(zip(spec.label_list, map(float, _sigmoid(logits)), strict=True))
        given = [name for name, p in probabilities.items() if p >= thresholds.get(name, THRESHOLD)]
        predictions.append({"labels": given, "probabilities": probabilities})
    return predictions


def threshold_grids(spec: TaskSpec) -> dict[str, list[float]]:
    """How probable each label has to be."""
    return {name: [THRESHOLD, *TRIED_SHARES] for name in spec.label_list}


def decisions(outputs: Sequence[Array], encoded: Encoded) -> Decisions:
    """Yes or no, for every text and label."""
    yes = np.array(outputs).ravel()
    given = encoded.labels["label"]
    return Decisions(
        np.stack([np.zeros_like(yes), yes], axis=1),
        given.ravel().astype(np.int64),
        np.repeat(encoded.item_example, given.shape[1]),
    )


surprises = None  # sets of labels have no simple region
region = None


def _sigmoid(logits: Array) -> Array:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * logits)))  # no overflow at either end


def judge(predictions: Sequence[Prediction], examples: Sequence[Example], spec: TaskSpec) -> Judged:
    """One unit per label that is right or given; a label is never mistaken for another."""
    truth = np.array([example["label"] for example in examples], bool)
    answer = np.zeros_like(truth)
    for row, found in zip(answer, predictions, strict=True):
        row[[spec.label_places[name] for name in found["labels"]]] = True
    yes = np.array([list(found["probabilities"].values()) for found in predictions], np.float32)
    side = np.where(answer, yes, 1 - yes)  # probability of each yes and no that was answered
    wrong = truth != answer
    example, label = np.nonzero(truth | answer)
    return Judged(
        unit="label",
        names=spec.label_list,
        example=example,
        truth=np.where(truth[example, label], label, NOTHING),
        answer=np.where(answer[example, label], label, NOTHING),
        wrong=wrong.sum(axis=1).astype(float),
        sure=np.where(wrong, side, 0).max(axis=1),
        certainty=side.min(axis=1),
        sorts={
            "label missed": int((truth & ~answer).sum()),
            "label wrongly given": int((answer & ~truth).sum()),
        },
        beliefs=_beliefs(truth, yes, spec),
    )


def _beliefs(truth: Array, yes: Array, spec: TaskSpec) -> Iterator[Beliefs]:
    """Yes or no, label by label: of thousands of labels, one at a time is in memory."""
    rows = np.arange(len(truth))
    for place, name in enumerate(spec.label_list):
        chances = np.stack([1 - yes[:, place], yes[:, place]], axis=1)
        yield Beliefs((f"without {name}", name), rows, truth[:, place].astype(np.int64), chances)


def case(prediction: Prediction, example: Example, spec: TaskSpec) -> Case:
    right = [name for name, given in zip(spec.label_list, example["label"], strict=True) if given]
    sides = (right, prediction["labels"])
    truth, answer = (first_names(names, SHOWN) or "no label" for names in sides)
    return Case(truth, answer, pair_excerpt(example))


def trivial(
    train: Sequence[Example], examples: Sequence[Example], spec: TaskSpec
) -> list[dict[str, Any]]:
    """The labels of more than half of the training examples; if none, the most common one."""
    share = np.mean([example["label"] for example in train], axis=0)
    threshold = min(THRESHOLD, float(share.max()))
    given = [name for name, s in zip(spec.label_list, share, strict=True) if s >= threshold]
    return [{"labels": given} for _ in examples]
