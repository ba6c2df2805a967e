"""Check the rows of a table, by role, as examples of a task; every error names its row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from brodmann.data.resolving import Request
from brodmann.data.sources.table import Table
from brodmann.data.tasks import Example, TaskSpec, is_text
from brodmann.errors import MOST_SHOWN, InputError, did_you_mean
from brodmann.text import listed


@dataclass
class Split:
    """Examples with the rows they come from."""

    table: Table
    rows: list[int]
    examples: list[Example]

    def where(self, index: int) -> str:
        return self.table.where(self.rows[index])

    def only(self, indices: Sequence[int]) -> "Split":
        return Split(
            self.table, [self.rows[i] for i in indices], [self.examples[i] for i in indices]
        )


def check_rows(table: Table, spec: TaskSpec, request: Request, notes: list[str]) -> Split:
    """The examples of one split, without unlabelled ones if these may be skipped."""
    kind = request.kind
    _check_columns(table, spec)
    split = Split(table, [], [])
    for index, row in enumerate(table.rows):
        by_role = {role: _cell(row, column, role) for role, column in spec.columns.items()}
        target = kind.TARGETS[0]
        if _missing(by_role[target], spec):
            if request.description.skip_unlabelled:
                continue
            raise InputError(
                f"{table.where(index)}: task '{spec.name}': the {target} is empty "
                "(skip_unlabelled = true leaves such rows out)"
            )
        try:
            example = kind.read(by_role, spec, True)
            for role, value in example.items():
                _check_whole_characters(value, role)
            split.examples.append(example)
        except InputError as error:
            raise InputError(f"{table.where(index)}: task '{spec.name}': {error}") from None
        split.rows.append(index)
    _add_languages(split)
    if not split.rows:
        raise InputError(f"{table.source}: task '{spec.name}': no row has a label")
    blank = sum(not str(example.get("text", "-")).strip() for example in split.examples)
    if blank:
        notes.append(f"{spec.name}: {blank:,} examples of {table.source} have an empty text")
    if len(split.rows) < len(table.rows):
        skipped = len(table.rows) - len(split.rows)
        notes.append(f"{spec.name}: {skipped:,} rows without a label left out of {table.source}")
    return split


def _check_columns(table: Table, spec: TaskSpec) -> None:
    present = set(table.columns())
    for role, column in spec.columns.items():
        for single in [column] if isinstance(column, str) else column:
            if single not in present:
                raise InputError(
                    f"{table.source}: task '{spec.name}' needs the column '{single}' ({role}), "
                    f"found {listed(sorted(present), MOST_SHOWN)}{_hint(single, present)}"
                )


def _add_languages(split: Split) -> None:
    """In a union of languages, record each example's language and the row it translates."""
    if split.table.counted:
        return
    for example, row in zip(split.examples, split.rows, strict=True):
        found = split.table.rows[row]
        example |= {key: found[key] for key in ("language", "parallel") if key in found}


def _check_whole_characters(value: Any, role: str) -> None:
    """Raise InputError for half of a surrogate pair, which JSON allows but no tokenizer."""
    if isinstance(value, str) and not is_text(value):
        raise InputError(f"{role}: contains half a character (a lone surrogate): {value!r:.60}")
    if isinstance(value, list | tuple):
        for inner in value:
            _check_whole_characters(inner, role)


def _missing(value: Any, spec: TaskSpec) -> bool:
    """Whether a label is missing. An empty answer (span) or list of labels is not."""
    if value is None:
        return spec.kind != "span"
    if value == [] and spec.kind in ("tokens", "choice"):
        return True
    if value == -1 and spec.kind in ("classification", "choice"):  # the hub's mark
        return spec.kind == "choice" or (spec.labels is not None and "-1" not in spec.labels)
    blank = isinstance(value, str) and not value.strip()
    return blank and spec.kind not in ("span", "multilabel")


def _hint(column: str, present: set[str]) -> str:
    hint = did_you_mean(column, sorted(present))
    return hint if "did you mean" in hint else ""


def _cell(row: Mapping[str, Any], column: str | list[str], role: str) -> Any:
    """A column's value; several columns are a list of choices, or one text joined by spaces."""
    if isinstance(column, str):
        return row.get(column)
    values = [row.get(single) for single in column]
    if role == "choices":
        return values
    missing = next((c for c, v in zip(column, values, strict=True) if not isinstance(v, str)), None)
    if missing is not None:
        return row.get(missing)  # the kind's reader reports what is wrong with it
    return " ".join(value for value in values if value)
