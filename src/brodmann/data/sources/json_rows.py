"""Rows of JSON: one object per line, or one list of objects."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from brodmann.data.sources import label_studio
from brodmann.data.sources.decoding import read_text
from brodmann.data.sources.in_memory import from_memory
from brodmann.data.sources.table import Table, plain
from brodmann.errors import InputError


def read_json_lines(path: Path, encoding: str) -> Table:
    text, notes = read_text(path, encoding)
    return _of_lines(text, path, notes)


def read_json(path: Path, encoding: str) -> Table:
    """A `.json` file: a list of objects (perhaps Label Studio's), or an object per line."""
    text, notes = read_text(path, encoding)
    if not text.lstrip().startswith("["):
        return _of_lines(text, path, notes)
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: broken JSON ({error})") from None
    if label_studio.is_export(rows):
        table = label_studio.table_of(rows, str(path))
    else:
        table = from_memory(rows, str(path))
    table.notes = (*notes, *table.notes)
    return table


def _of_lines(text: str, path: Path, notes: tuple[str, ...]) -> Table:
    lines: list[int] = []
    rows: list[dict[str, Any]] = []
    for line, row in _json_rows(text, path):
        lines.append(line)
        rows.append(row)
    if not rows:
        raise InputError(f"{path}: the file is empty, expected at least one example")
    return Table(str(path), rows, lines, counted="line", notes=notes)


def _json_rows(text: str, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    if text.lstrip().startswith("["):
        name = path.name.removesuffix(".gz")
        raise InputError(
            f"{path} line 1: a JSON list, expected one JSON object per line: rename the file to "
            f"{name.rpartition('.')[0]}.json{'.gz' if path.name.endswith('.gz') else ''}, or write "
            "one object per line without [ ]"
        )
    # Only \n and \r\n end a line: str.splitlines would also cut at U+2028 inside a JSON string.
    for number, line in enumerate(io.StringIO(text, newline=None), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line.rstrip("\n"))
        except json.JSONDecodeError as error:
            raise InputError(
                f"{path} line {number}: broken JSON ({error.msg} at column {error.colno}): "
                "expected one JSON object per line"
            ) from None
        except (ValueError, RecursionError) as error:  # a number too large or nesting too deep
            raise InputError(f"{path} line {number}: broken JSON ({error})") from None
        if not isinstance(row, dict):
            raise InputError(
                f"{path} line {number}: expected a JSON object, found {type(row).__name__}"
            )
        yield number, {key: plain(value) for key, value in row.items()}
