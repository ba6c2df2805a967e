"""A task once it is read: its specification, stored with the model, and its examples."""

import ast
import contextlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from brodmann.errors import InputError, did_you_mean
from brodmann.files import Document, digest

Example: TypeAlias = dict[str, Any]  # one row: texts, numbers or lists by role, as its kind reads
LONGEST_NUMBER = 100  # digits; longer ones are names
TEXT_COLUMNS = ("text", "text_pair", "question", "context", "tokens", "choices")  # a model reads


@dataclass(frozen=True)
class TaskSpec:
    """Everything needed to build the task's output head and to read its predictions."""

    name: str
    kind: str
    columns: dict[str, str | list[str]] = field(default_factory=dict)  # role → column
    labels: tuple[str, ...] | None = None
    metric: str = ""  # the primary one
    metrics: tuple[str, ...] = ()  # metrics to show, including the primary one
    weight: float = 1.0
    class_weights: tuple[float, ...] | None = None
    group: str | None = None
    language: str | None = None
    source: str = ""  # where the examples came from, for the model card
    named: str = ""  # its name in the catalogue
    shape: str = ""  # how to convert rows with the dataset's own fields
    generated: bool = False  # written by the built-in generator, which must be stated
    separator: str = "|"  # multilabel: between labels in one cell
    target_mean: float = 0.0  # regression: value = mean + scale · output
    target_scale: float = 1.0
    unanswerable: bool = False  # span: some contexts contain no answer
    answer_rules: str = ""  # span: "squad" or "mlqa"; by language if empty
    scheme: str = ""  # tokens: "entities" (BIO) or "words"
    tag_scheme: str = ""  # tokens: scheme of the data's tags, if not BIO
    head: str = ""  # tasks that name the same one share an output head; its own if empty

    @property
    def label_list(self) -> tuple[str, ...]:
        if self.labels is None:
            raise InputError(f"task '{self.name}': its labels are not known yet")
        return self.labels

    @cached_property
    def label_places(self) -> dict[str, int]:
        """Index of each label by name, cached for lookups per example."""
        return {name: place for place, name in enumerate(self.label_list)}

    @cached_property
    def labels_are_numbers(self) -> bool:
        return any(label.isdecimal() for label in self.label_list)

    @property
    def pair(self) -> bool:
        return "text_pair" in self.columns

    @property
    def output_head(self) -> str:
        return self.head or self.name

    def to_dict(self) -> Document:
        values = asdict(self)
        if not self.head:  # keeps the fingerprints of earlier versions
            del values["head"]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> "TaskSpec":
        kept: Document = dict(values)
        for name in ("labels", "class_weights", "metrics"):
            if kept.get(name) is not None:
                kept[name] = tuple(kept[name])
        return cls(**kept)


@dataclass
class Task:
    """A specification with its examples by split; `notes` are messages for the user."""

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
    if not is_text(text):
        raise InputError(f"{role}: contains half a character (a lone surrogate): {text!r:.60}")
    return text


def is_text(text: str) -> bool:
    """Whether the text can be encoded: JSON may contain half of a surrogate pair."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def listed(cell: Any, role: str, separator: str | None) -> list[Any]:
    """A list, a list written as text (JSON, or as Python prints it), or parts of a text."""
    if isinstance(cell, list):
        return cell
    if not isinstance(cell, str):
        raise InputError(f"{role}: expected a list or a text, found {cell!r:.60}")
    if cell.lstrip().startswith("["):
        for read in (json.loads, ast.literal_eval):
            # Python's parser runs out of memory for lists nested thousands of times.
            with contextlib.suppress(ValueError, SyntaxError, RecursionError, MemoryError):
                values = read(cell)
                if isinstance(values, list):
                    return values
        if cell.rstrip().endswith("]") and ('"' in cell or "'" in cell):
            raise InputError(f"{role}: not a list: {cell!r:.60}")
    return [part.strip() for part in cell.split(separator) if part.strip()]


def scalar_label(value: Any, role: str) -> Any:
    """A label from a list or set: a name or a number, never None or another list.

    Dates and decimals of Parquet files become names.
    """
    if hasattr(value, "item"):  # numpy's
        value = value.item()
    if value is None or isinstance(value, list | dict | bytes) or not str(value).strip():
        raise InputError(f"{role}: expected names or numbers, found {value!r:.60}")
    return value if isinstance(value, str | int | float) else str(value)


def label_name(value: Any) -> str:
    """One spelling per label, whatever its type in the file: 1, 1.0 and '1' are the same class."""
    if hasattr(value, "item"):  # numpy's numbers
        value = value.item()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def label_names(values: Iterable[Any]) -> tuple[str, ...]:
    """Distinct names in an order that does not depend on the data's order."""
    names = {label_name(value) for value in values}
    if all(is_number(name.removeprefix("-")) for name in names):
        return tuple(sorted(names, key=int))
    return tuple(sorted(names))


def is_number(text: str) -> bool:
    """Whether int() can read it: digits, and not more than Python accepts."""
    return text.isdecimal() and len(text) <= LONGEST_NUMBER


def label_index(value: Any, spec: TaskSpec) -> int:
    """The index of a label among the task's names; a whole number is an index itself.

    If the names are numbers, they are only names: of "0" and "2", 1 is neither.
    """
    name = label_name(value)
    if name in spec.label_places:
        return spec.label_places[name]
    counted = not spec.labels_are_numbers
    if counted and is_number(name) and int(name) < len(spec.label_list):
        return int(name)
    hint = did_you_mean(name, spec.label_list)
    raise InputError(
        f"label '{name:.60}' is not one of the task's {len(spec.label_list)} labels{hint}"
    )
