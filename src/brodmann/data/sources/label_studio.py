"""Label Studio's JSON exports: the full form, and the flat one (`JSON_MIN`).

The full form is a list of {"data": {...}, "annotations": [{"result": [...]}]}. A row has the fields
of `data` and one column per control of the labelling page, by its name (`from_name`): character
spans, a choice (or a list of them), a number. The flat form already is one row per task; its
choices are unpacked. Of several annotations, the first that was not cancelled counts.

Format: https://labelstud.io/guide/export (the forms JSON and JSON_MIN).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from brodmann.data.sources.table import Table
from brodmann.errors import InputError

FLAT = ("annotation_id", "lead_time")  # fields of every task in the flat form
VALUES = ("labels", "choices", "rating", "number")  # forms of results that become columns


def is_export(rows: Any) -> bool:
    """Whether a JSON list is an export, by the fields of its first entry."""
    first = rows[0] if isinstance(rows, list) and rows else None
    if not isinstance(first, Mapping):
        return False
    return {"data", "annotations"} <= first.keys() or all(key in first for key in FLAT)


def table_of(tasks: Sequence[Any], source: str) -> Table:
    """The annotated tasks; `lines` counts all tasks from 1."""
    full = "annotations" in tasks[0]
    rows: list[dict[str, Any]] = []
    numbers: list[int] = []
    several = 0
    for number, task in enumerate(tasks, start=1):
        where = f"{source} row {number}"
        if not isinstance(task, Mapping):
            raise InputError(f"{where}: expected a task, found {type(task).__name__}")
        row = {key: _unpacked(value) for key, value in task.items()}
        if full:
            annotations = _annotations(task, where)
            several += len(annotations) > 1
            if not annotations:
                continue
            row = {**task["data"], **_columns(annotations[0], where)}
        rows.append(row)
        numbers.append(number)
    if not rows:
        raise InputError(f"{source}: no task has an annotation: export it after labelling")
    _complete(rows)
    notes = []
    if len(rows) < len(tasks):
        notes.append(f"{source}: {len(tasks) - len(rows):,} tasks without an annotation left out")
    if several:
        notes.append(f"{source}: {several:,} tasks have several annotations: the first counts")
    return Table(source, rows, numbers, notes=tuple(notes))


def _annotations(task: Mapping[str, Any], where: str) -> list[Mapping[str, Any]]:
    data, annotations = task.get("data"), task.get("annotations")
    if not isinstance(data, Mapping):
        raise InputError(f"{where}: data: expected a table of fields, found {data!r:.60}")
    if not isinstance(annotations, list) or not all(isinstance(a, Mapping) for a in annotations):
        raise InputError(f"{where}: annotations: expected a list, found {annotations!r:.60}")
    return [one for one in annotations if not one.get("was_cancelled")]


def _columns(annotation: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The results of one annotation by the name of their control."""
    columns: dict[str, Any] = {}
    for result in annotation.get("result") or []:
        value = result.get("value") if isinstance(result, Mapping) else None
        if not isinstance(value, Mapping):
            raise InputError(f"{where}: a result without a value: {result!r:.60}")
        form = next((key for key in VALUES if key in value), None)
        if form == "labels":
            columns.setdefault(str(result.get("from_name")), []).append(dict(value))
        elif form is not None:  # relations and drawings have no column
            columns[str(result.get("from_name"))] = _unpacked(
                value if form == "choices" else value[form]
            )
    return columns


def _unpacked(value: Any) -> Any:
    """A choice as its name, several as a list; anything else unchanged."""
    if isinstance(value, Mapping) and isinstance(value.get("choices"), list):
        chosen = value["choices"]
        return chosen[0] if len(chosen) == 1 else chosen
    return value


def _complete(rows: Sequence[dict[str, Any]]) -> None:
    """Give tasks without any span an empty list: annotated, and nothing was found."""
    spans = {
        key
        for row in rows
        for key, value in row.items()
        if isinstance(value, list) and value and isinstance(value[0], Mapping)
        if "labels" in value[0]
    }
    for row in rows:
        for column in spans:
            row.setdefault(column, [])
