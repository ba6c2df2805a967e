"""Answers as the columns of a table: each task's answer, its probability and what rules add.

A frame or a Dataset to predict for comes back as the same type, with these columns added. CSV
tables have the same columns, in which lists are written as text.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from brodmann.data.answering.rules import Rules, Wishes
from brodmann.data.sources.in_memory import column_names, is_polars
from brodmann.data.tasks import TaskSpec
from brodmann.errors import InputError

SCORED = ("classification", "choice", "span")  # kinds with one probability per answer
REGIONS = {"classification": "set", "choice": "set", "regression": "interval"}
KEYS = {
    "classification": "label",
    "multilabel": "labels",
    "regression": "value",
    "choice": "text",
    "span": "answer",
}

Cell = Callable[[Mapping[str, Any]], Any]


def is_scored(spec: TaskSpec) -> bool:
    return spec.kind in SCORED or (spec.kind == "tokens" and spec.scheme == "entities")


def answer_of(found: Mapping[str, Any], spec: TaskSpec) -> Any:
    """The answer itself: a name, a value, or a list of labels, tags or entities."""
    if spec.kind == "tokens":
        return found["entities"] if "entities" in found else found["tags"]
    return found[KEYS[spec.kind]]


def score_of(found: Mapping[str, Any]) -> Any:
    """The probability of the answer; of entities, a list with one for each."""
    if found.get("entities") is not None:
        return [entity["score"] for entity in found["entities"]]
    return found.get("score")


def cells_of(spec: TaskSpec, rules: Rules | None, wishes: Wishes) -> dict[str, Cell]:
    """What a task's answers add to a table: the end of each column's name and its value."""
    cells: dict[str, Cell] = {"answer": lambda found: answer_of(found, spec)}
    if is_scored(spec):
        cells["score"] = score_of
    region = REGIONS.get(spec.kind)
    known = rules is not None and rules.surprises is not None
    if wishes.coverage is not None and region is not None and known:
        cells[region] = lambda found: found[region]
    if rules is not None and rules.domain is not None:
        cells["in_domain"] = lambda found: found["in_domain"]
    return cells


def answer_columns(
    answers: Sequence[Mapping[str, Any]], cells: Mapping[str, Mapping[str, Cell]]
) -> dict[str, list[Any]]:
    """The added columns; `answers` map tasks to what they found, and may lack some of them."""
    return {
        f"{task}.{end}": [cell(answer[task]) if task in answer else None for answer in answers]
        for task, own in cells.items()
        for end, cell in own.items()
    }


def check_free(inputs: Any, cells: Mapping[str, Mapping[str, Cell]]) -> None:
    """Raise InputError if the table has one of the columns that the answers need."""
    given = column_names(inputs)
    taken = next((name for name in answer_columns([], cells) if name in given), None)
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
