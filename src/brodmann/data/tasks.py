"""What a task is, once read: its specification, stored with the model, and its examples."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from brodmann.artifacts import digest
from brodmann.errors import InputError, did_you_mean

Example = dict[str, Any]


@dataclass(frozen=True)
class TaskSpec:
    """All that is needed to build the task's output head and to read its predictions."""

    name: str
    kind: str
    columns: dict[str, str | list[str]] = field(default_factory=dict)  # role → column
    labels: tuple[str, ...] | None = None
    metric: str = ""  # the primary one
    weight: float = 1.0
    class_weights: tuple[float, ...] | None = None
    group: str | None = None
    language: str | None = None
    source: str = ""  # where the examples came from, for the model card
    generated: bool = False  # written by the built-in generator, and to be called so
    separator: str = "|"  # multilabel: between labels in one cell
    target_mean: float = 0.0  # regression: value = mean + scale · output
    target_scale: float = 1.0
    unanswerable: bool = False  # span: some contexts hold no answer
    scheme: str = ""  # tokens: "entities" (BIO) or "words"

    @property
    def label_list(self) -> tuple[str, ...]:
        if self.labels is None:
            raise InputError(f"task '{self.name}': its labels are not known yet")
        return self.labels

    @property
    def pair(self) -> bool:
        return "text_pair" in self.columns

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "TaskSpec":
        kept = dict(values)
        for name in ("labels", "class_weights"):
            if kept.get(name) is not None:
                kept[name] = tuple(kept[name])
        return cls(**kept)


@dataclass
class Task:
    """A specification with its examples by split; `notes` are what the reader should be told."""

    spec: TaskSpec
    splits: dict[str, list[Example]]
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def sizes(self) -> dict[str, int]:
        return {split: len(examples) for split, examples in self.splits.items()}

    def fingerprint(self) -> str:
        return digest(self.spec.to_dict(), self.splits)

    def __repr__(self) -> str:
        return f"Task({self.name!r}, {self.spec.kind}, {self.sizes})"


def read_texts(row: Mapping[str, Any]) -> Example:
    example: Example = {"text": one_text(row, "text")}
    if "text_pair" in row:
        example["text_pair"] = one_text(row, "text_pair")
    return example


def one_text(row: Mapping[str, Any], role: str) -> str:
    text = row[role]
    if not isinstance(text, str):
        raise InputError(f"{role}: expected a text, found {text!r:.60}")
    return text


def label_name(value: Any) -> str:
    """One spelling a label, however the file types it: 1, 1.0 and '1' are the same class."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def label_names(values: Iterable[Any]) -> tuple[str, ...]:
    """Distinct names in an order that does not depend on the data's order."""
    names = {label_name(value) for value in values}
    if all(name.lstrip("-").isdecimal() for name in names):
        return tuple(sorted(names, key=int))
    return tuple(sorted(names))


def label_index(value: Any, spec: TaskSpec) -> int:
    """The place of a label among the task's names; a whole number counts the names from 0."""
    name = label_name(value)
    if name in spec.label_list:
        return spec.label_list.index(name)
    if name.isdecimal() and int(name) < len(spec.label_list):
        return int(name)
    hint = did_you_mean(name, spec.label_list)
    raise InputError(f"label '{name}' is not one of the task's {len(spec.label_list)} labels{hint}")
