"""Answers as the columns of a table: each task's answer and, where it has one, its probability.

A frame or a Dataset to predict for comes back as the same type, with these columns added. CSV
tables have the same columns, in which lists are written as text.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from brodmann.data.sources.in_memory import column_names, is_polars
from brodmann.data.tasks import TaskSpec
from brodmann.errors import InputError

SCORED = ("classification", "choice", "span")  # kinds with one probability per answer
KEYS = {
    "classification": "label",
    "multilabel": "labels",
    "regression": "value",
    "choice": "text",
    "span": "answer",
}


def is_scored(spec: TaskSpec) -> bool:
    return spec.kind in SCORED or (spec.kind == "tokens" and spec.scheme == "entities")


def answer_of(found: Mapping[str, Any], spec: TaskSpec) -> Any:
    """The answer itself: a name, a value, or a list of labels, tags or entities."""
    if spec.kind == "tokens":
        return found["entities"] if "entities" in found else found["tags"]
    return found[KEYS[spec.kind]]


def score_of(found: Mapping[str, Any]) -> Any:
    """The probability of the answer; of entities, a list with one for each."""
    if "entities" in found:
        return [entity["score"] for entity in found["entities"]]
    return found["score"]


def answer_columns(
    answers: Sequence[Mapping[str, Any]], specs: Mapping[str, TaskSpec]
) -> dict[str, list[Any]]:
    """The added columns; `answers` map tasks to what they found, and may lack some of `specs`."""
    columns: dict[str, list[Any]] = {}
    for name, spec in specs.items():
        found = [answer.get(name) for answer in answers]
        columns[f"{name}.answer"] = [None if f is None else answer_of(f, spec) for f in found]
        if is_scored(spec):
            columns[f"{name}.score"] = [None if f is None else score_of(f) for f in found]
    return columns


def check_free(inputs: Any, specs: Mapping[str, TaskSpec]) -> None:
    """Raise InputError if the table has one of the columns that the answers need."""
    given = column_names(inputs)
    taken = next((name for name in answer_columns([], specs) if name in given), None)
    if taken is not None:
        raise InputError(f"inputs: the column '{taken}' is taken: rename it, or leave it out")


def with_columns(inputs: Any, columns: Mapping[str, list[Any]]) -> Any:
    """A copy of a frame or Dataset with columns added."""
    if is_polars(inputs):
        import polars

        added = [polars.Series(name, values, strict=False) for name, values in columns.items()]
        return inputs.with_columns(added)
    if hasattr(inputs, "add_column"):  # a Dataset
        for name, values in columns.items():
            inputs = inputs.add_column(name, values)
        return inputs
    return inputs.assign(**columns)
