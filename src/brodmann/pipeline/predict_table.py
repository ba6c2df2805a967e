"""Write answers as a CSV table: the input's columns, then each task's answer and probability."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

from brodmann.data.tasks import TaskSpec
from brodmann.errors import InputError, did_you_mean
from brodmann.pipeline.predict import CHUNK

FORMATS = ("jsonl", "csv")
SCORED = ("classification", "choice", "span")  # kinds with one probability per answer


def check_target(to: Path | None, form: str | None) -> str:
    """The output format, decided before a model is read; existing files are never overwritten."""
    if form is not None and form not in FORMATS:
        raise InputError(f"--format {form}{did_you_mean(form, FORMATS)}")
    if to is None:
        return form or "jsonl"
    if to.exists():
        raise InputError(f"{to}: already exists: remove it, or name another file")
    if not to.parent.is_dir():
        raise InputError(f"{to}: no such folder: {to.parent}")
    ending = {".csv": "csv", ".jsonl": "jsonl"}.get(to.suffix.lower())
    if form is None and ending is None:
        raise InputError(f"{to}: expected the suffix .csv or .jsonl, or --format csv or jsonl")
    return form or str(ending)


def as_table(
    answers: Iterable[dict[str, Any]],
    specs: Mapping[str, TaskSpec],
    write: Callable[[str], Any],
    *,
    alone: bool,
) -> None:
    """Write one row per answer, as they come; `specs` are the requested tasks.

    If only one task was requested (`alone`), its columns are named without the task. The first
    rows decide the columns; a row with a new column raises an InputError.
    """
    given = iter(answers)
    first = list(islice(given, CHUNK))
    inputs = list(dict.fromkeys(key for answer in first for key in _input(answer["input"])))
    columns = [
        *inputs,
        *(column for spec in specs.values() for column in _columns(spec)),
    ]
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, [*columns, "note"], restval="", lineterminator="\n")
    if first:
        writer.writeheader()
    for number, answer in enumerate(chain(first, given), start=1):
        row = _input(answer["input"])
        new = next((key for key in row if key not in inputs), None)
        if new is not None:
            raise InputError(
                f"input {number}: the column '{new}' is in none of the first {len(first):,} "
                "inputs, so the CSV has no column for it: use --format jsonl"
            )
        found = dict.fromkeys(specs, answer) if alone else answer
        cells = {} if "note" in answer else dict(_cells(found, specs))
        writer.writerow({**row, **cells, "note": answer.get("note", "")})
        write(buffer.getvalue())
        buffer.seek(0)
        buffer.truncate()


def _input(entry: Any) -> dict[str, Any]:
    if isinstance(entry, Mapping):
        return {key: _cell(value) for key, value in entry.items()}
    return {"input": _cell(entry)}


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    is_list = isinstance(value, list | dict)
    return json.dumps(value, ensure_ascii=False) if is_list else value


def _columns(spec: TaskSpec) -> list[str]:
    return [f"{spec.name}.answer", *([f"{spec.name}.score"] if _is_scored(spec) else [])]


def _is_scored(spec: TaskSpec) -> bool:
    return spec.kind in SCORED or (spec.kind == "tokens" and spec.scheme == "entities")


def _cells(found: Mapping[str, Any], specs: Mapping[str, TaskSpec]) -> Iterator[tuple[str, Any]]:
    """Yield (column, cell) for every task that answered."""
    for task, spec in specs.items():
        if task in found:
            yield f"{task}.answer", _words(found[task], spec.kind)
            if _is_scored(spec):
                yield f"{task}.score", _score(found[task])


def _score(found: Mapping[str, Any]) -> Any:
    """The probability of the answer; of entities, one for each in their order."""
    if "entities" in found:
        return "; ".join(str(one["score"]) for one in found["entities"])
    return found["score"]


def _words(found: Mapping[str, Any], kind: str) -> Any:
    """The answer itself, for one cell."""
    if kind == "multilabel":
        return "|".join(found["labels"])
    if kind == "tokens":
        if "entities" in found:
            return "; ".join(f"{one['text']} ({one['label']})" for one in found["entities"])
        return " ".join(found["tags"])
    key = {"classification": "label", "regression": "value", "choice": "text", "span": "answer"}
    return found[key[kind]]
