"""Using a trained model in a pipe: lines in, one JSON object a line out."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from brodmann.data.readers import ENDINGS, read_file
from brodmann.errors import InputError

CHUNK = 256  # lines answered together: enough to batch by length, few enough for a live pipe


def inputs_from_file(path: Path) -> list[Any]:
    """Rows of a table by column, or the lines of a plain text file."""
    if any(path.name.lower().endswith(ending) for ending in ENDINGS):
        return read_file(path).rows
    try:
        with open(path, encoding="utf-8") as lines:
            return list(inputs_from_lines(lines, str(path)))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None


def inputs_from_lines(lines: Iterable[str], source: str) -> Iterator[Any]:
    """A line is a text, a JSON object with the task's columns, or a JSON list (a pair, words)."""
    for number, line in enumerate(_decoded(lines, source), start=1):
        text = line.rstrip("\r\n")
        if not text.strip():
            continue
        if text.lstrip().startswith(("{", "[")):
            try:
                yield json.loads(text)
                continue
            except (ValueError, RecursionError) as error:
                if text.lstrip().startswith('{"'):
                    raise InputError(f"{source} line {number}: broken JSON ({error})") from None
        yield text


def _decoded(lines: Iterable[str], source: str) -> Iterator[str]:
    try:
        yield from lines
    except UnicodeDecodeError as error:
        raise InputError(f"{source}: not UTF-8 text ({error.reason}, byte {error.start})") from None


def answers(model: Any, task: str | None, inputs: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """One answer an input, in order; all tasks at once where none is named."""
    chunk: list[Any] = []
    for entry in inputs:
        chunk.append(entry)
        if len(chunk) == CHUNK:
            yield from _answer(model, task, chunk)
            chunk = []
    if chunk:
        yield from _answer(model, task, chunk)


def _answer(model: Any, task: str | None, chunk: list[Any]) -> Iterator[dict[str, Any]]:
    found = model.predict_all(chunk) if task is None else model.predict(task, chunk)
    for entry, answer in zip(chunk, found, strict=True):
        yield {"input": entry, **answer}
