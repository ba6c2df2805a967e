r"""A number for one text or a pair.

Learnt in standard units: the head predicts $z$, the value is $\mu + \sigma z$ with the mean and
spread of the training values, so that a task in dollars trains like one in stars.
Loss: $(z - (y - \mu)/\sigma)^2$.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from brodmann.data.answering.decisions import USUAL
from brodmann.data.encoding import Encoded, Tokenizer, one_row_an_example
from brodmann.data.judging import Case, Judged, pair_excerpt, unknown
from brodmann.data.metrics import Metric, Prediction, of_values
from brodmann.data.tasks import Example, TaskSpec, read_texts
from brodmann.errors import InputError
from brodmann.files import Array

if TYPE_CHECKING:
    from torch import Tensor

HEAD = "sequence"
REQUIRED = ("text", "label")
OPTIONAL = ("text_pair",)
TARGETS = ("label",)
METRICS: dict[str, Metric] = {
    "spearman": of_values.spearman,
    "pearson": of_values.pearson,
    "r2": of_values.r2,
    "mean_squared_error": of_values.mean_squared_error,
}
WEIGHTED_CLASSES = False
# A number is not chosen among several.
entropy = None
decisions = None

STRATA = 10
LARGEST = 1e30  # squares of larger values overflow


def read(row: Mapping[str, Any], spec: TaskSpec, labelled: bool) -> Example:
    example = read_texts(row)
    if labelled:
        label = row["label"]
        try:
            if isinstance(label, bool) or "_" in str(label):  # Python reads both as numbers
                raise ValueError
            example["label"] = float(label)
        except (TypeError, ValueError):
            raise InputError(f"label: expected a number, found {label!r:.60}") from None
        except OverflowError:
            example["label"] = math.inf
        if not math.isfinite(example["label"]):
            raise InputError(f"label: expected a finite number, found {row['label']!r:.60}")
    return example


def settle(spec: TaskSpec, splits: Mapping[str, Sequence[Example]]) -> TaskSpec:
    values = np.array([example["label"] for example in splits["train"]])
    if np.abs(values).max() > LARGEST:
        raise InputError(f"task '{spec.name}': values beyond {LARGEST:g} cannot be learnt")
    if values.std() == 0:
        raise InputError(
            f"task '{spec.name}': every example has the value {values[0]:g}, "
            "expected at least two different values"
        )
    return replace(spec, target_mean=float(values.mean()), target_scale=float(values.std()))


def target(example: Example, spec: TaskSpec) -> Example:
    return example


def as_row(example: Example, spec: TaskSpec) -> Example:
    return example


def strata(examples: Sequence[Example], spec: TaskSpec) -> list[Any]:
    """Tenths of the values, by rank."""
    values = np.array([example["label"] for example in examples])
    edges = np.quantile(values, np.linspace(0, 1, STRATA + 1)[1:-1])
    return [int(stratum) for stratum in np.searchsorted(edges, values)]


def primary(spec: TaskSpec) -> str:
    return "spearman"


def outputs(spec: TaskSpec) -> int:
    return 1


def encode(
    examples: Sequence[Example], spec: TaskSpec, tokenizer: Tokenizer, max_length: int, stride: int
) -> Encoded:
    encoded = one_row_an_example(tokenizer, examples, max_length)
    if all("label" in example for example in examples):
        values = np.array([example["label"] for example in examples])
        units = (values - spec.target_mean) / spec.target_scale
        encoded.labels["label"] = units.astype(np.float32)
    return encoded


def loss(logits: "Tensor", labels: dict[str, "Tensor"], spec: TaskSpec) -> "Tensor":
    return (logits[:, 0].float() - labels["label"]).square()


def predict(
    outputs: Sequence[Array],
    encoded: Encoded,
    examples: Sequence[Example],
    spec: TaskSpec,
    thresholds: Mapping[str, float] = USUAL,
) -> list[dict[str, Any]]:
    return [{"value": float(z[0]) * spec.target_scale + spec.target_mean} for z in outputs]


def threshold_grids(spec: TaskSpec) -> dict[str, list[float]]:
    return {}


def surprises(
    predictions: Sequence[Prediction], examples: Sequence[Example], spec: TaskSpec
) -> Array:
    pairs = zip(predictions, examples, strict=True)
    return np.array([abs(found["value"] - example["label"]) for found, example in pairs])


def region(prediction: Prediction, furthest: float, spec: TaskSpec) -> dict[str, Any]:
    """The interval around the value; open where too few examples decide its ends."""
    if math.isinf(furthest):
        return {"interval": [None, None]}
    return {"interval": [prediction["value"] - furthest, prediction["value"] + furthest]}


def judge(predictions: Sequence[Prediction], examples: Sequence[Example], spec: TaskSpec) -> Judged:
    """Numbers are more or less wrong; there are no labels to count."""
    pairs = zip(examples, predictions, strict=True)
    values = np.array([[example["label"], found["value"]] for example, found in pairs], float)
    none = np.zeros(0, np.int64)
    return Judged(
        unit="value",
        names=(),
        example=none,
        truth=none,
        answer=none,
        wrong=np.abs(values[:, 1] - values[:, 0]),
        sure=unknown(len(values)),
        certainty=unknown(len(values)),
        values=values,
    )


def case(prediction: Prediction, example: Example, spec: TaskSpec) -> Case:
    return Case(f"{example['label']:.4g}", f"{prediction['value']:.4g}", pair_excerpt(example))


def trivial(
    train: Sequence[Example], examples: Sequence[Example], spec: TaskSpec
) -> list[dict[str, Any]]:
    """The mean of the training values."""
    mean = float(np.mean([example["label"] for example in train]))
    return [{"value": mean} for _ in examples]
