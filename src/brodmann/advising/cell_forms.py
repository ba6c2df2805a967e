"""What the columns of a table hold, as far as their cells show: texts, labels, numbers, lists."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any, Literal

from brodmann.data.character_spans import holds_spans
from brodmann.data.sources.label_columns import as_label, few_values
from brodmann.data.sources.table import Table

Form = Literal[
    "empty",
    "identifier",
    "text",
    "label",
    "number",
    "label sets",
    "words",  # a list of words per row
    "tags",  # a list of labels per row
    "texts",  # a list of a few texts per row
    "spans",  # character spans with labels
    "answers",  # {"text": [...], "answer_start": [...]}
    "other",
]
LOOKED_AT = 5000  # rows
MOST_LABELS = 4  # rows per label, at least, for a column of short texts to be labels
SHORT = 3  # words on average of what may be a label
SEPARATORS = ("|", ";", ",")
CODE = re.compile(r"\S*\d\S*")


@dataclass(frozen=True)
class Cells:
    """One column: its form, and what shows it."""

    name: str
    form: Form
    values: list[Any]  # one per row that was looked at, lists as lists; None if empty
    distinct: int
    words: float  # on average, of the texts
    separator: str = ""  # of label sets that are written as one text

    @property
    def filled(self) -> float:
        return sum(value is not None for value in self.values) / max(len(self.values), 1)

    @property
    def present(self) -> list[Any]:
        return [value for value in self.values if value is not None]

    def examples(self, most: int = 3) -> str:
        """Its most frequent values, as a reader sees them."""
        counts = Counter(as_label(value) for value in self.present)
        shown = ", ".join(f"'{name:.30}'" for name, _ in counts.most_common(most))
        return shown + (", …" if len(counts) > most else "")


def describe_columns(table: Table) -> list[Cells]:
    """Every column of the table, in its order."""
    rows = table.rows[:LOOKED_AT]
    return [_described(name, [row.get(name) for row in rows]) for name in table.columns()]


def _described(name: str, raw: Sequence[Any]) -> Cells:
    values = [_parsed(value) for value in raw]
    present = [value for value in values if value is not None]
    if not present:
        return Cells(name, "empty", values, 0, 0.0)
    if any(isinstance(value, dict) for value in present):
        keyed = all(isinstance(value, dict) and "text" in value for value in present)
        return Cells(name, "answers" if keyed else "other", values, len(present), 0.0)
    if any(isinstance(value, list) for value in present):
        return _described_lists(name, values, present)
    names = [as_label(value) for value in present]
    distinct = len(set(names))
    words = mean(len(one.split()) for one in names)
    form, separator = _form_of_scalars(present, names, distinct, words)
    if form == "label sets":
        values = [None if v is None else _cut(as_label(v), separator) for v in values]
    return Cells(name, form, values, distinct, words, separator)


def _parsed(value: Any) -> Any:
    """The cell; None if it is empty, a list or table if it is written as one."""
    if isinstance(value, str):
        text = value.strip()
        if not text:
            return None
        if text[0] in "[{":
            try:
                found = json.loads(text)
            except ValueError:
                return text
            return found if isinstance(found, list | dict) else text
        return text
    return value


def _described_lists(name: str, values: list[Any], present: list[Any]) -> Cells:
    filled = [value for value in present if isinstance(value, list)]
    if any(holds_spans(value) for value in filled):
        return Cells(name, "spans", values, len(filled), 0.0)
    items = [item for value in filled for item in value]
    if not items or any(isinstance(item, list | dict) for item in items):
        return Cells(name, "other", values, 0, 0.0)
    distinct = len({as_label(item) for item in items})
    words = mean(len(as_label(item).split()) for item in items)
    longest = max(len(value) for value in filled)
    form: Form
    if words > 1.5 and longest <= 10 and distinct > len(filled):
        form = "texts"
    elif distinct <= max(len(items) // 20, 12):
        form = "tags" if _are_tags(filled) else "label sets"
    elif longest <= 6 and words > 1 and distinct > len(filled) // 2:
        form = "texts"
    else:
        form = "words"
    return Cells(name, form, values, distinct, words)


def _are_tags(filled: Sequence[list[Any]]) -> bool:
    """Whether lists repeat their items, which sets of labels do not."""
    repeated = sum(len(set(map(as_label, value))) < len(value) for value in filled)
    return repeated > 0.2 * len(filled)


def _form_of_scalars(
    present: Sequence[Any], names: Sequence[str], distinct: int, words: float
) -> tuple[Form, str]:
    if all(isinstance(value, bool) for value in present):
        return "label", ""
    numbers = _numbers(names)
    if numbers is not None:
        whole = all(value.is_integer() for value in numbers)
        if whole and distinct == len(names) and len(names) > 10:
            return "identifier", ""
        few = distinct <= (20 if whole else 5) and few_values(names, len(names))
        return ("label" if few else "number"), ""
    separator = _separator(names)
    if separator:
        return "label sets", separator
    if few_values(names, len(names)):
        return "label", ""
    repeated = distinct * MOST_LABELS <= len(names)
    if repeated and words <= SHORT:
        return "label", ""
    codes = sum(CODE.fullmatch(one) is not None for one in names)
    if codes > 0.9 * len(names) and distinct > 0.9 * len(names):
        return "identifier", ""
    return "text", ""


def _numbers(names: Sequence[str]) -> list[float] | None:
    try:
        return [float(one) for one in names]
    except ValueError:
        return None


def _separator(names: Sequence[str]) -> str:
    """What separates the labels of a cell, if cells are sets from one small vocabulary."""
    for separator in SEPARATORS:
        cut = [_cut(one, separator) for one in names]
        several = sum(len(parts) > 1 for parts in cut)
        vocabulary = Counter(part for parts in cut for part in parts)
        if several < 0.05 * len(names) or len(vocabulary) < 2:
            continue
        brief = mean(len(part.split()) for part in vocabulary) <= 2
        unlike = all(len(set(parts)) == len(parts) for parts in cut)
        if brief and unlike and len(vocabulary) * MOST_LABELS <= len(names):
            return separator
    return ""


def _cut(text: str, separator: str) -> list[str]:
    return [part.strip() for part in text.split(separator) if part.strip()]
