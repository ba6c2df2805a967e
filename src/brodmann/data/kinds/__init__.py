"""The kinds of task. Each is one file with the functions below, registered in this dict.

A kind defines the columns it needs, how a row becomes an example and an example token ids, the
output of its head, the loss of each item, how outputs become predictions, and its metrics.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from brodmann.data.answering.decisions import USUAL, Decisions
from brodmann.data.encoding import Encoded, Tokenizer
from brodmann.data.judging import Case, Judged
from brodmann.data.kinds import choice, classification, multilabel, regression, span, tokens
from brodmann.data.metrics import Metric, Prediction
from brodmann.data.tasks import Example, Task, TaskSpec
from brodmann.errors import InputError, did_you_mean
from brodmann.files import Array

if TYPE_CHECKING:
    from torch import Tensor


class Kind(Protocol):
    """The interface of a module in this folder (the module is the object)."""

    @property
    def HEAD(self) -> str:  # noqa: N802 (constants of the module)
        """Form of the output head: "sequence", "choice", "span" or "tokens"."""

    @property
    def REQUIRED(self) -> tuple[str, ...]:  # noqa: N802 (constants of the module)
        """Columns that must be named."""

    @property
    def OPTIONAL(self) -> tuple[str, ...]:  # noqa: N802 (constants of the module)
        """Columns that may be named."""

    @property
    def TARGETS(self) -> tuple[str, ...]:  # noqa: N802 (constants of the module)
        """The columns among them that hold the answer: absent when predicting."""

    @property
    def METRICS(self) -> dict[str, Metric]:  # noqa: N802 (constants of the module)
        """The metrics of its predictions, by the names that users write."""

    @property
    def WEIGHTED_CLASSES(self) -> bool:  # noqa: N802 (constants of the module)
        """Whether `class_weights` makes sense."""

    def read(self, row: Mapping[str, Any], spec: TaskSpec, labelled: bool) -> Example:
        """Check one row, by role; raises InputError without the location (the caller adds it)."""

    def settle(self, spec: TaskSpec, splits: Mapping[str, Sequence[Example]]) -> TaskSpec:
        """Complete the task from its examples: label names, range of values."""

    def target(self, example: Example, spec: TaskSpec) -> Example:
        """The example with its label as the number that the loss expects."""

    def as_row(self, example: Example, spec: TaskSpec) -> Example:
        """The inverse of `read` and `target`: the row, by role, that gives this example."""

    def strata(self, examples: Sequence[Example], spec: TaskSpec) -> list[Any]:
        """One value per example that random divisions keep in proportion (before `settle`)."""

    def primary(self, spec: TaskSpec) -> str:
        """The default primary metric."""

    def outputs(self, spec: TaskSpec) -> int:
        """Number of outputs of the head."""

    def encode(
        self,
        examples: Sequence[Example],
        spec: TaskSpec,
        tokenizer: Tokenizer,
        max_length: int,
        stride: int,
    ) -> Encoded: ...

    def loss(self, logits: "Tensor", labels: dict[str, "Tensor"], spec: TaskSpec) -> "Tensor":
        """One loss per item, (item,)."""

    @property
    def entropy(self) -> "Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None":
        """(logits, mask of real ones) → each item's entropy, and that of a uniform answer."""

    def predict(
        self,
        outputs: Sequence[Array],
        encoded: Encoded,
        examples: Sequence[Example],
        spec: TaskSpec,
        thresholds: Mapping[str, float] = USUAL,
    ) -> list[dict[str, Any]]:
        """One prediction per example, in the form users read; `outputs[i]` is item i's logits."""

    def threshold_grids(self, spec: TaskSpec) -> dict[str, list[float]]:
        """The thresholds of `predict` by name with the values to try, the usual one first."""

    @property
    def decisions(self) -> Callable[[Sequence[Array], Encoded], Decisions] | None:
        """(outputs, labelled encoding) → every choice among several answers."""

    @property
    def surprises(
        self,
    ) -> Callable[[Sequence[Prediction], Sequence[Example], TaskSpec], Array] | None:
        """(predictions, labelled examples) → how strange each right answer is, (example,)."""

    @property
    def region(self) -> Callable[[Prediction, float, TaskSpec], dict[str, Any]] | None:
        """(prediction, furthest, task) → the answers that are no stranger than `furthest`."""

    def judge(
        self, predictions: Sequence[Prediction], examples: Sequence[Example], spec: TaskSpec
    ) -> Judged:
        """Every answer beside the right one: what is counted about mistakes."""

    def case(self, prediction: Prediction, example: Example, spec: TaskSpec) -> Case:
        """One answer beside the right one, as readers see it."""

    def trivial(
        self, train: Sequence[Example], examples: Sequence[Example], spec: TaskSpec
    ) -> list[dict[str, Any]]:
        """The best answers without reading the text, which a trained model must beat."""


KINDS: dict[str, Kind] = {
    "classification": classification,
    "multilabel": multilabel,
    "regression": regression,
    "choice": choice,
    "span": span,
    "tokens": tokens,
}


def metric_of(spec: TaskSpec) -> Metric:
    """The primary metric of a task."""
    metrics = KINDS[spec.kind].METRICS
    if spec.metric not in metrics:
        hint = did_you_mean(spec.metric, metrics)
        raise InputError(f"task '{spec.name}': unknown metric '{spec.metric}'{hint}")
    return metrics[spec.metric]


def outcomes(
    predictions: Sequence[Prediction], examples: Sequence[Example], spec: TaskSpec
) -> Array:
    """Contribution of each unit to the primary metric, (unit, addend)."""
    return metric_of(spec).outcomes(predictions, examples, spec)


def resampled_scores(values: Array, weights: Array, spec: TaskSpec) -> Array:
    """The primary metric of `outcomes` under each row of `weights` (resample, unit)."""
    return metric_of(spec).resampled(values, weights)


def every_score(
    predictions: Sequence[Prediction], examples: Sequence[Example], spec: TaskSpec
) -> dict[str, float]:
    """Scores by each metric of the kind that is defined for the task."""
    return {
        name: metric.score(predictions, examples, spec)
        for name, metric in KINDS[spec.kind].METRICS.items()
        if metric.defined(spec)
    }


def trivial_score(task: Task, split: str) -> float:
    """The primary metric of the best answers without reading the text."""
    examples = task.splits[split]
    answers = KINDS[task.spec.kind].trivial(task.splits["train"], examples, task.spec)
    return metric_of(task.spec).score(answers, examples, task.spec)


def lower_is_better(metric: str | None) -> bool:
    """Whether a metric of this name, of whatever kind, is an error."""
    return any(
        kind.METRICS[metric].lower_is_better for kind in KINDS.values() if metric in kind.METRICS
    )
