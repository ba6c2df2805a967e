"""Check the rows of a table, by role, as examples of a task; every error names its row."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from brodmann.data.character_spans import holds_spans, with_tags
from brodmann.data.resolving import Request
from brodmann.data.sources.label_columns import rows_labelled_for_others
from brodmann.data.sources.table import Table
from brodmann.data.tasks import Example, TaskSpec, is_text
from brodmann.errors import MOST_SHOWN, InputError, did_you_mean
from brodmann.text import listed

SHOWN_PLACES = 5  # of spans that were widened


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
    """The examples of one split, without the unlabelled rows that may be skipped."""
    _check_columns(table, spec)
    target = request.kind.TARGETS[0]
    by_role = _Roles(table, spec, request)
    split = Split(table, [], [])
    unlabelled = []
    for index, row in enumerate(table.rows):
        try:
            cells = by_role(row)
            if _missing(cells[target], spec, in_spans=by_role.spans):
                unlabelled.append(index)
                continue
            if by_role.spans:
                cells = by_role.with_tags(cells, index)
            example = request.kind.read(cells, spec, True)
            for role, value in example.items():
                _check_whole_characters(value, role)
        except InputError as error:
            raise InputError(f"{table.where(index)}: task '{spec.name}': {error}") from None
        split.examples.append(example)
        split.rows.append(index)
    _check_unlabelled(unlabelled, split, spec, request)
    _add_languages(split)
    notes += [f"{spec.name}: {note}" for note in (*by_role.notes(), *_notes(split, unlabelled))]
    return split


def _check_unlabelled(
    unlabelled: list[int], split: Split, spec: TaskSpec, request: Request
) -> None:
    """Rows without a label may be skipped if the user says so, or if they are for another task."""
    table = split.table
    if unlabelled and not request.description.skip_unlabelled:
        columns = spec.columns.values()
        read = {name for c in columns for name in ([c] if isinstance(c, str) else c)}
        others = rows_labelled_for_others(table, read) if split.rows else set()
        own = next((index for index in unlabelled if index not in others), None)
        if own is not None:
            raise InputError(
                f"{table.where(own)}: task '{spec.name}': the {request.kind.TARGETS[0]} is empty "
                "(skip_unlabelled = true leaves such rows out)"
            )
    if not split.rows:
        raise InputError(f"{table.source}: task '{spec.name}': no row has a label")


def _notes(split: Split, unlabelled: list[int]) -> Iterator[str]:
    source = split.table.source
    blank = sum(not str(example.get("text", "-")).strip() for example in split.examples)
    if blank:
        yield f"{blank:,} examples of {source} have an empty text"
    if unlabelled:
        yield f"{len(unlabelled):,} rows without a label left out of {source}"


class _Roles:
    """Reads the cells of a row by role; character spans become tags on the way."""

    def __init__(self, table: Table, spec: TaskSpec, request: Request) -> None:
        self.table, self.columns = table, spec.columns
        self.widen = request.description.misaligned == "widen"
        column = spec.columns.get("tags")
        self.spans = any(holds_spans(row.get(str(column))) for row in table.rows if column)
        self.widened: list[tuple[int, int]] = []  # rows, and how many of their spans

    def __call__(self, row: Mapping[str, Any]) -> dict[str, Any]:
        return {role: _cell(row, column, role) for role, column in self.columns.items()}

    def with_tags(self, cells: dict[str, Any], index: int) -> dict[str, Any]:
        tagged, widened = with_tags(cells, widen=self.widen)
        if widened:
            self.widened.append((index, widened))
        return tagged

    def notes(self) -> Iterator[str]:
        if self.widened:
            places = [self.table.where(index) for index, _ in self.widened]
            count = sum(widened for _, widened in self.widened)
            yield f"{count:,} spans widened to whole words: {listed(places, SHOWN_PLACES)}"


def _check_columns(table: Table, spec: TaskSpec) -> None:
    present = set(table.columns())
    for role, column in spec.columns.items():
        for single in [column] if isinstance(column, str) else column:
            if single not in present:
                raise InputError(
                    f"{table.source}: task '{spec.name}' needs the column '{single}' ({role}), "
                    f"found {listed(sorted(present), MOST_SHOWN)}{_hint(single, present, table)}"
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


def _missing(value: Any, spec: TaskSpec, *, in_spans: bool) -> bool:
    """Whether a label is missing. An empty answer (span) or list of labels or spans is not."""
    if value is None:
        return spec.kind != "span"
    if value == [] and spec.kind in ("tokens", "choice"):
        return not in_spans
    if value == -1 and spec.kind in ("classification", "choice"):  # the hub's mark
        return spec.kind == "choice" or (spec.labels is not None and "-1" not in spec.labels)
    blank = isinstance(value, str) and not value.strip()
    return blank and spec.kind not in ("span", "multilabel")


def _hint(column: str, present: set[str], table: Table) -> str:
    named = (row.get(name) == name for row in table.rows for name in present if name)
    if table.counted == "line" and any(named):  # a label, say, stands below its own name
        return "; does the first line hold values? It must name the columns"
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
