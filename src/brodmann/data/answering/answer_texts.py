"""Texts → answers, by whatever reads them: a torch model, ONNX graphs or a server.

Tasks that read the same texts are answered from one reading if they share the encoder.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from brodmann.data.answering.answer_columns import (
    Cell,
    answer_columns,
    cells_of,
    check_free,
    with_columns,
)
from brodmann.data.answering.inputs import as_list, fits, is_table, needed_columns, read_inputs
from brodmann.data.answering.reader import Reader, Reading
from brodmann.data.answering.rules import PLAIN, Answer, Wishes, answer_by, check_wishes
from brodmann.data.kinds.tokens import token_text
from brodmann.data.sources.in_memory import collected
from brodmann.data.tasks import Example, TaskSpec
from brodmann.errors import InputError, did_you_mean

USUAL_BATCH = 32


@dataclass(frozen=True)
class Request:
    """What is asked of a reader besides the texts: which tasks, and how carefully."""

    tasks: tuple[str, ...]
    wishes: Wishes = PLAIN
    batch_size: int = USUAL_BATCH


def request_of(
    reader: Reader, tasks: Sequence[str] | None, wishes: Wishes, batch_size: int
) -> Request:
    """Check what is asked; all tasks of the reader if none are named."""
    if isinstance(tasks, str):
        raise InputError(f"tasks: expected a list, found one name: put '{tasks}' in [ ]")
    if batch_size < 1:
        raise InputError(f"batch_size = {batch_size}: expected at least 1")
    chosen = tuple(reader.specs if tasks is None else dict.fromkeys(tasks))
    for name in chosen:
        if name not in reader.specs:
            raise InputError(f"the model has no task '{name}'{did_you_mean(name, reader.specs)}")
    check_wishes(wishes, {name: reader.specs[name] for name in chosen}, reader.rules)
    return Request(chosen, wishes, batch_size)


def cells_of_tasks(reader: Reader, request: Request) -> dict[str, dict[str, Cell]]:
    """The cells that answers to this request add to a table, by task."""
    return {
        name: cells_of(reader.specs[name], reader.rules.get(name), request.wishes)
        for name in request.tasks
    }


def answer_task(reader: Reader, texts: Any, request: Request) -> Any:
    """One task's answers; a frame or Dataset comes back with columns added."""
    (name,) = request.tasks
    if not is_table(texts):
        return _of_one(reader, as_list(texts), request)
    table, cells = collected(texts), cells_of_tasks(reader, request)
    check_free(table, cells)
    found = [{name: answer} for answer in _of_one(reader, as_list(table), request)]
    return with_columns(table, answer_columns(found, cells))


def answer_tasks(reader: Reader, texts: Any, request: Request) -> Any:
    """The answers of every task asked that can read a text, by task."""
    if not is_table(texts):
        return _of_all(reader, as_list(texts), request)
    table, cells = collected(texts), cells_of_tasks(reader, request)
    check_free(table, cells)
    return with_columns(table, answer_columns(_of_all(reader, as_list(table), request), cells))


def _of_one(reader: Reader, texts: Sequence[Any], request: Request) -> list[Answer]:
    (name,) = request.tasks
    examples = read_inputs(reader.specs[name], texts)
    return _together(reader, {name: examples}, request)[name] if examples else []


def check_readable(reader: Reader, texts: Sequence[Any], request: Request) -> None:
    """Raise the InputError of inputs that no task reads, without reading any of them."""
    _grouped(reader, texts, request)


def _of_all(reader: Reader, texts: Sequence[Any], request: Request) -> list[dict[str, Answer]]:
    answers: list[dict[str, Answer]] = [{} for _ in texts]
    asked, groups = _grouped(reader, texts, request)
    for group in groups:
        for name, found in _together(reader, group, request).items():
            for place, answer in zip(asked[name], found, strict=True):
                answers[place][name] = answer
    return [{name: answer[name] for name in request.tasks if name in answer} for answer in answers]


def _grouped(
    reader: Reader, texts: Sequence[Any], request: Request
) -> tuple[dict[str, list[int]], list[dict[str, list[Example]]]]:
    """The inputs that each task can read, and the tasks' examples, by what is read at once."""
    specs = {name: reader.specs[name] for name in request.tasks}
    asked: dict[str, list[int]] = {}
    for name, spec in specs.items():
        asked[name] = [place for place, text in enumerate(texts) if fits(spec, text)]
    read = {place for places in asked.values() for place in places}
    for place, text in enumerate(texts):
        if place not in read:
            wanted = (f"{name} needs {needed_columns(spec)}" for name, spec in specs.items())
            raise InputError(
                f"input {place + 1}: no task of the model reads {text!r:.60}: {'; '.join(wanted)}"
            )
    groups: dict[Any, dict[str, list[Example]]] = {}  # tasks that read identical rows
    for name, places in asked.items():
        if places:
            examples = read_inputs(specs[name], [texts[place] for place in places], places)
            rows = _rows(specs[name], examples) if reader.one_pass else None
            groups.setdefault(rows or name, {})[name] = examples
    return asked, list(groups.values())


def _rows(spec: TaskSpec, examples: Sequence[Example]) -> tuple[Any, ...] | None:
    """What the encoder reads for these examples; None if only this kind reads them this way."""
    if spec.kind in ("classification", "multilabel", "regression"):
        return tuple((example["text"], example.get("text_pair")) for example in examples)
    if spec.kind == "tokens":
        return tuple((token_text(example), None) for example in examples)
    return None


def _together(
    reader: Reader, group: Mapping[str, list[Example]], request: Request
) -> dict[str, list[Answer]]:
    """Answers of several tasks from one reading of the texts."""
    specs = [reader.specs[name] for name in group]
    # A token task splits a long text into windows; the other tasks read the first one.
    first = next((spec for spec in specs if spec.kind == "tokens"), specs[0])
    encoded = reader.encode(first, group[first.name])
    readings = reader.read(encoded, [spec.name for spec in specs], batch_size=request.batch_size)
    first_windows = np.unique(encoded.item_example, return_index=True)[1]
    answers = {}
    for spec in specs:
        reading = readings[spec.name]
        if first.kind == "tokens" != spec.kind:
            kept = [reading.outputs[item] for item in first_windows]
            reading = Reading(kept, reading.states[first_windows])
        rules = reader.rules.get(spec.name)
        examples = group[spec.name]
        answers[spec.name] = answer_by(rules, reading, encoded, examples, spec, request.wishes)
    return answers
