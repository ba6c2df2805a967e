"""The kinds of task. Each is one file with the functions below; this dict is the whole list.

A kind says which columns it needs, how a row becomes an example and an example token ids, what its
output head returns, the loss of each item, and how outputs become predictions and scores.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from brodmann.data.encoding import Encoded
from brodmann.data.kinds import choice, classification, multilabel, regression, span, tokens
from brodmann.data.tasks import Example, Task, TaskSpec
from brodmann.files import Array

if TYPE_CHECKING:
    from torch import Tensor


class Kind(Protocol):
    """What a module in this folder defines (a module is the object; there is no base class)."""

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
        """Those of them that hold the answer: absent when predicting."""

    @property
    def METRICS(self) -> tuple[str, ...]:  # noqa: N802 (constants of the module)
        """The first is primary unless the task says otherwise."""

    @property
    def WEIGHTED_CLASSES(self) -> bool:  # noqa: N802 (constants of the module)
        """Whether `class_weights` makes sense."""

    def read(self, row: Mapping[str, Any], spec: TaskSpec, labelled: bool) -> Example:
        """One row, by role, checked; raises InputError without the place (the caller adds it)."""

    def settle(self, spec: TaskSpec, splits: Mapping[str, Sequence[Example]]) -> TaskSpec:
        """The task with what is found in its examples: label names, range of values."""

    def target(self, example: Example, spec: TaskSpec) -> Example:
        """The example with its label as the number the loss takes."""

    def strata(self, examples: Sequence[Example], spec: TaskSpec) -> list[Any]:
        """What a random division keeps in proportion, one value an example, before `settle`."""

    def outputs(self, spec: TaskSpec) -> int:
        """How many numbers the head returns."""

    def encode(
        self,
        examples: Sequence[Example],
        spec: TaskSpec,
        tokenizer: Any,
        max_length: int,
        stride: int,
    ) -> Encoded: ...

    def loss(self, logits: "Tensor", labels: dict[str, "Tensor"], spec: TaskSpec) -> "Tensor":
        """One loss an item, (item,)."""

    @property
    def entropy(self) -> "Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None":
        """(logits, what of them is real) → each item's entropy, and that of a uniform answer."""

    def predict(
        self,
        outputs: Sequence[Array],
        encoded: Encoded,
        examples: Sequence[Example],
        spec: TaskSpec,
    ) -> list[dict[str, Any]]:
        """One prediction an example, in the form users read; `outputs[i]` is item i's logits."""

    def score(
        self, predictions: Sequence[dict[str, Any]], examples: Sequence[Example], spec: TaskSpec
    ) -> dict[str, float]: ...

    def trivial(
        self, train: Sequence[Example], examples: Sequence[Example], spec: TaskSpec
    ) -> list[dict[str, Any]]:
        """The best answers without reading the text: what a trained model must beat."""


KINDS: dict[str, Kind] = {
    "classification": classification,
    "multilabel": multilabel,
    "regression": regression,
    "choice": choice,
    "span": span,
    "tokens": tokens,
}


def trivial_score(task: Task, split: str) -> float:
    """The primary metric of the best answers without reading the text."""
    kind = KINDS[task.spec.kind]
    examples = task.splits[split]
    answers = kind.trivial(task.splits["train"], examples, task.spec)
    return kind.score(answers, examples, task.spec)[task.spec.metric]
