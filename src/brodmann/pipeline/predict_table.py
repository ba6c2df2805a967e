"""Write answers: JSON lines, or a table (CSV, Parquet) with the input's columns beside them."""

import contextlib
import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from brodmann.data.answering.answer_columns import Cell
from brodmann.data.tasks import TaskSpec
from brodmann.errors import InputError, did_you_mean
from brodmann.pipeline.predict import CHUNK

FORMATS = {"jsonl": ".jsonl", "csv": ".csv", "parquet": ".parquet"}
NOTE = "note"  # column of the reason why an input has no answer


def check_target(out: Path | None, form: str | None) -> str:
    """The output format, decided before a model is read; existing files are never overwritten."""
    if form is not None and form not in FORMATS:
        raise InputError(f"--format {form}{did_you_mean(form, FORMATS)}")
    if out is None:
        if form == "parquet":
            raise InputError("--format parquet needs a file: add --out answers.parquet")
        return form or "jsonl"
    if out.exists():
        raise InputError(f"{out}: already exists: remove it, or name another file")
    if not out.parent.is_dir():
        raise InputError(f"{out}: no such folder: {out.parent}")
    found = next((name for name, end in FORMATS.items() if out.suffix.lower() == end), None)
    if form is None and found is None:
        *first, last = FORMATS.values()
        raise InputError(
            f"{out}: expected the suffix {', '.join(first)} or {last}, or --format "
            f"{', '.join([*FORMATS][:-1])} or {[*FORMATS][-1]}"
        )
    return form or str(found)


@dataclass(frozen=True)
class Columns:
    """What the requested tasks add to a table; with `alone`, answers are those of the only one."""

    specs: Mapping[str, TaskSpec]
    cells: Mapping[str, Mapping[str, Cell]]
    alone: bool

    def names(self) -> list[str]:
        return [f"{task}.{end}" for task, own in self.cells.items() for end in own]


def write_answers(
    answers: Iterable[dict[str, Any]],
    columns: Columns,
    form: str,
    target: Path | Callable[[str], Any],
    *,
    ascii_only: bool = False,
) -> None:
    """Write one line or row per answer, as they come, to a file or through a function.

    The first rows decide the columns of a table, and a later new one raises an InputError.
    """
    if form == "parquet":
        assert isinstance(target, Path)
        _write_parquet(_rows(answers, columns, form), target)
        return
    if isinstance(target, Path):
        with open(target, "w", encoding="utf-8", newline="") as file:
            write_answers(answers, columns, form, file.write, ascii_only=ascii_only)
        return
    if form == "csv":
        _write_csv(_rows(answers, columns, form), target)
        return
    for answer in answers:
        target(json.dumps(answer, ensure_ascii=ascii_only) + "\n")


def _write_csv(rows: Iterable[dict[str, Any]], write: Callable[[str], Any]) -> None:
    buffer = io.StringIO()
    writer: csv.DictWriter[str] | None = None
    for row in rows:
        if writer is None:
            writer = csv.DictWriter(buffer, list(row), lineterminator="\n")
            writer.writeheader()
        writer.writerow({key: "" if value is None else value for key, value in row.items()})
        write(buffer.getvalue())
        buffer.seek(0)
        buffer.truncate()


def _write_parquet(rows: Iterable[dict[str, Any]], place: Path) -> None:
    """Write row groups as they come; the first one decides the types of the columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    given = iter(rows)
    with _one_type_per_column(pa):
        table = pa.Table.from_pylist(list(islice(given, CHUNK)))
    unknown = [field.name for field in table.schema if pa.types.is_null(field.type)]
    for name in unknown:  # nothing but missing values so far: anything may follow
        place_of = table.schema.get_field_index(name)
        table = table.set_column(place_of, name, pa.nulls(len(table), pa.string()))
    with pq.ParquetWriter(place, table.schema) as writer:
        writer.write_table(table)
        while chunk := list(islice(given, CHUNK)):
            with _one_type_per_column(pa):
                writer.write_table(pa.Table.from_pylist(chunk, schema=table.schema))


@contextlib.contextmanager
def _one_type_per_column(pa: Any) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InputError(
            f"the inputs' columns change their type ({error}): use --format csv or jsonl"
        ) from None


def _rows(answers: Iterable[dict[str, Any]], added: Columns, form: str) -> Iterator[dict[str, Any]]:
    """One row per answer, with the same columns throughout."""
    given = iter(answers)
    first = list(islice(given, CHUNK))
    inputs = list(dict.fromkeys(key for answer in first for key in _input(answer["input"])))
    columns = [*inputs, *added.names(), NOTE]
    taken = next((name for name in inputs if name in columns[len(inputs) :]), None)
    if taken is not None:
        raise InputError(
            f"the inputs have a column '{taken}', which holds answers: rename it, or leave it out"
        )
    for number, answer in enumerate(chain(first, given), start=1):
        row = _input(answer["input"])
        new = next((key for key in row if key not in inputs), None)
        if new is not None:
            raise InputError(
                f"input {number}: the column '{new}' is in none of the first {len(first):,} "
                f"inputs, so the {form} file has no column for it: use --format jsonl"
            )
        found = dict.fromkeys(added.cells, answer) if added.alone else answer
        cells = {} if NOTE in answer else dict(_cells(found, added))
        yield dict.fromkeys(columns) | row | cells | {NOTE: answer.get(NOTE, "")}


def _input(entry: Any) -> dict[str, Any]:
    if isinstance(entry, Mapping):
        return {key: _cell(value) for key, value in entry.items()}
    return {"input": _cell(entry)}


def _cell(value: Any) -> Any:
    is_list = isinstance(value, list | dict)
    return json.dumps(value, ensure_ascii=False) if is_list else value


def _cells(found: Mapping[str, Any], added: Columns) -> Iterator[tuple[str, Any]]:
    """Yield (column, cell) for every task that answered."""
    for task, own in added.cells.items():
        if task in found:
            for end, cell in own.items():
                yield f"{task}.{end}", _words(cell(found[task]), added.specs[task], end)


def _words(value: Any, spec: TaskSpec, end: str) -> Any:
    """The value for one cell: a list is written as text."""
    if not isinstance(value, list):
        return value
    if end == "answer" and spec.scheme == "entities":
        return "; ".join(f"{entity['text']} ({entity['label']})" for entity in value)
    if end == "answer" and spec.kind == "tokens":
        return " ".join(value)
    return {"score": "; ", "interval": " to "}.get(end, "|").join(map(str, value))
