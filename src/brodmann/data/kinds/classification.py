"""Classification of one text or a pair into one of several labels.

Loss: cross-entropy, times the weight of the true class if classes are weighted. Examples that
belong together (the answers to one question) may name their `set`: then `exact_match` counts the
sets in which all are right, as MultiRC does (Khashabi et al. 2018), and sampling keeps sets whole.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from brodmann.data.answering.conformal import label_region
from brodmann.data.answering.decisions import USUAL, Decisions, softmax
from brodmann.data.encoding import Encoded, Tokenizer, one_row_an_example
from brodmann.data.judging import Beliefs, Case, Judged, pair_excerpt
from brodmann.data.metrics import Metric, Prediction, of_labels
from brodmann.data.sampling import entropy as entropies
from brodmann.data.tasks import (
    Example,
    TaskSpec,
    label_index,
    label_names,
    read_texts,
    scalar_label,
)
from brodmann.errors import InputError
from brodmann.files import Array

if TYPE_CHECKING:
    from torch import Tensor

HEAD = "sequence"
REQUIRED = ("text", "label")
OPTIONAL = ("text_pair", "set")
TARGETS = ("label", "set")
METRICS: dict[str, Metric] = {
    "accuracy": of_labels.accuracy,
    "f1": of_labels.f1,
    "macro_f1": of_labels.macro_f1,
    "matthews": of_labels.matthews,
    "exact_match": of_labels.exact_match,
}
WEIGHTED_CLASSES = True


def read(row: Mapping[str, Any], spec: TaskSpec, labelled: bool) -> Example:
    example = read_texts(row)
    if labelled:
        label = row["label"]
        if isinstance(label, list | dict):
            raise InputError(
                f"label: expected one label, found a {type(label).__name__}"
                " (for several labels per text use kind 'multilabel')"
            )
        example["label"] = scalar_label(label, "label")
        if "set" in row:
            example["set"] = scalar_label(row["set"], "set")
    return example


def settle(spec: TaskSpec, splits: Mapping[str, Sequence[Example]]) -> TaskSpec:
    present = label_names(example["label"] for example in splits["train"])
    if len(present) < 2:
        raise InputError(
            f"task '{spec.name}': every training example has the label '{present[0]:.60}', "
            "expected at least two classes"
        )
    everywhere = (example["label"] for examples in splits.values() for example in examples)
    return replace(spec, labels=spec.labels or label_names(everywhere))


def target(example: Example, spec: TaskSpec) -> Example:
    return {**example, "label": label_index(example["label"], spec)}


def as_row(example: Example, spec: TaskSpec) -> Example:
    return {**example, "label": spec.label_list[example["label"]]}


def strata(examples: Sequence[Example], spec: TaskSpec) -> list[Any]:
    return [example["label"] for example in examples]


def primary(spec: TaskSpec) -> str:
    return "accuracy"


def outputs(spec: TaskSpec) -> int:
    return len(spec.label_list)


def encode(
    examples: Sequence[Example], spec: TaskSpec, tokenizer: Tokenizer, max_length: int, stride: int
) -> Encoded:
    encoded = one_row_an_example(tokenizer, examples, max_length)
    if all("label" in example for example in examples):
        encoded.labels["label"] = np.array([example["label"] for example in examples], np.int64)
    return encoded


def loss(logits: "Tensor", labels: dict[str, "Tensor"], spec: TaskSpec) -> "Tensor":
    from torch.nn import functional

    losses = functional.cross_entropy(logits.float(), labels["label"], reduction="none")
    if spec.class_weights is not None:
        losses = losses * logits.new_tensor(spec.class_weights).float()[labels["label"]]
    return losses


def entropy(logits: "Tensor", real: "Tensor") -> tuple["Tensor", "Tensor"]:
    found = entropies.of_choices(logits)
    return found, entropies.uniform(found, logits.shape[-1])


def predict(
    outputs: Sequence[Array],
    encoded: Encoded,
    examples: Sequence[Example],
    spec: TaskSpec,
    thresholds: Mapping[str, float] = USUAL,
) -> list[dict[str, Any]]:
    predictions = []
    for logits in outputs:
        probabilities = softmax(logits)
        best = int(probabilities.argmax())
        predictions.append(
            {
                "label": spec.label_list[best],
                "score": float(probabilities[best]),
                "probabilities": dict(zip(spec.label_list, map(float, probabilities), strict=True)),
            }
        )
    return predictions


def threshold_grids(spec: TaskSpec) -> dict[str, list[float]]:
    return {}  # the most probable class is the answer


def decisions(outputs: Sequence[Array], encoded: Encoded) -> Decisions:
    return Decisions(np.array(outputs), encoded.labels["label"], encoded.item_example)


def surprises(
    predictions: Sequence[Prediction], examples: Sequence[Example], spec: TaskSpec
) -> Array:
    right = (spec.label_list[example["label"]] for example in examples)
    found = [p["probabilities"][name] for p, name in zip(predictions, right, strict=True)]
    return 1 - np.array(found)


def region(prediction: Prediction, furthest: float, spec: TaskSpec) -> dict[str, Any]:
    """The labels that are no stranger than `furthest`, most probable first."""
    probabilities = list(prediction["probabilities"].values())
    return {"set": [spec.label_list[place] for place in label_region(probabilities, furthest)]}


def judge(predictions: Sequence[Prediction], examples: Sequence[Example], spec: TaskSpec) -> Judged:
    truth = np.array([example["label"] for example in examples], np.int64)
    answer = np.array([spec.label_places[found["label"]] for found in predictions], np.int64)
    score = np.array([found["score"] for found in predictions], np.float64)
    chances = np.array([list(found["probabilities"].values()) for found in predictions], np.float32)
    rows = np.arange(len(examples))
    return Judged(
        unit="text",
        names=spec.label_list,
        example=rows,
        truth=truth,
        answer=answer,
        wrong=(truth != answer).astype(float),
        sure=score,
        certainty=score,
        beliefs=[Beliefs(spec.label_list, rows, truth, chances)],
    )


def case(prediction: Prediction, example: Example, spec: TaskSpec) -> Case:
    return Case(spec.label_list[example["label"]], prediction["label"], pair_excerpt(example))


def trivial(
    train: Sequence[Example], examples: Sequence[Example], spec: TaskSpec
) -> list[dict[str, Any]]:
    """Always the same class: the one that scores best on the training examples.

    For accuracy that is the majority class; for F1 it may be the class that it counts.
    """
    classes = [name for _, name in sorted(_by_frequency(train, spec), reverse=True)]
    metric = METRICS[spec.metric]
    sign = -1 if metric.lower_is_better else 1
    best = max(
        classes, key=lambda name: sign * metric.score([{"label": name}] * len(train), train, spec)
    )
    return [{"label": best} for _ in examples]


def _by_frequency(train: Sequence[Example], spec: TaskSpec) -> list[tuple[int, str]]:
    counts = Counter(example["label"] for example in train)
    return [(counts[place], name) for place, name in enumerate(spec.label_list)]
