"""The files that a user gives: which belong to one task, and how each is read.

`reviews-train.csv` and `reviews-test.csv` are splits of one task; a folder of such files, too. A
file whose first line is data rather than a header, or whose rows must be rewritten before a task
can read them, is written again as JSON lines.
"""

import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from brodmann.advising.look import look
from brodmann.advising.special_forms import Belief
from brodmann.data.sources.decoding import read_text
from brodmann.data.sources.readers import ENDINGS, read_file, split_files
from brodmann.data.sources.table import Table, joined
from brodmann.data.tasks import label_name
from brodmann.errors import InputError
from brodmann.files import write_text

SPLIT_WORDS = {
    "train": "train",
    "training": "train",
    "dev": "validation",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "test": "test",
}
SPLIT_NAME = re.compile(rf"^(.*?)[-_. ]?({'|'.join(SPLIT_WORDS)})$", re.IGNORECASE)
FEWEST_ROWS = 20  # of a task, for anything to be said about it
LONG_HEADER = 8  # words of a header's cell: longer ones are data
LINES = (".txt", ".tsv", ".csv")
READ_AGAIN = "read"  # folder of the files that were written again


@dataclass(frozen=True)
class Given:
    """One task's files: a table per split ("train" alone if the file is not divided)."""

    name: str
    paths: dict[str, Path]
    tables: dict[str, Table]
    belief: Belief
    notes: tuple[str, ...] = ()

    @property
    def whole(self) -> Table:
        tables = list(self.tables.values())
        return tables[0] if len(tables) == 1 else joined(tables)


def read_given(files: Sequence[Path], folder: Path) -> list[Given]:
    """Read and look at every file; what must be rewritten goes into `folder`."""
    if not files:
        raise InputError("advise: expected at least one file with labelled rows, found none")
    found: list[Given] = []
    for name, paths in _groups(files):
        taken = {one.name for one in found}
        number = 2
        unique = name
        while unique in taken:
            unique, number = f"{name}-{number}", number + 1
        found.append(_read_one(unique, paths, folder))
    return found


def _groups(files: Sequence[Path]) -> list[tuple[str, dict[str, Path]]]:
    """(name, split → path) of each task: files that differ only in the name of a split."""
    groups: dict[tuple[Path, str], dict[str, Path]] = {}
    for path in files:
        if path.is_dir():
            splits = {SPLIT_WORDS.get(s, s): p for s, p in split_files(path).items()}
            if not splits:
                raise InputError(f"{path}: no data file in this folder: name the files themselves")
            if "train" in splits:
                groups[path, ""] = {s: p for s, p in splits.items() if s in SPLIT_WORDS.values()}
                continue
            for file in splits.values():
                groups[file, ""] = {"train": file}
            continue
        if not path.is_file():
            read_file(path)  # names what is near
        match = SPLIT_NAME.match(_stem(path))
        key = (path.parent, match[1]) if match else (path, "")
        split = SPLIT_WORDS[match[2].lower()] if match else "train"
        group = groups.setdefault(key, {})
        if split in group:
            raise InputError(
                f"{path}: given twice, or a second '{split}' file beside {group[split]}"
            )
        group[split] = path
    named = []
    for (place, rest), paths in groups.items():
        if "train" in paths:
            named.append((_named(rest or (place.name if place.is_dir() else _stem(place))), paths))
        else:  # a lone file that is called test or dev: all of its rows are divided
            named += [(_named(_stem(path)), {"train": path}) for path in paths.values()]
    return named


def _stem(path: Path) -> str:
    name = path.name
    ending = next((e for e in (*ENDINGS, ".txt.gz", ".txt") if name.lower().endswith(e)), "")
    return name[: -len(ending)] if ending else name


def _named(text: str) -> str:
    letters = "".join(c if c.isalnum() else "-" for c in text).strip("-").lower()
    return re.sub("-+", "-", letters) or "task"


def _read_one(name: str, paths: dict[str, Path], folder: Path) -> Given:
    tables, notes = {}, []
    for split, path in paths.items():
        again = _without_header(path)
        tables[split] = again if again is not None else read_file(path)
        if again is not None:
            notes.append(f"{path.name}: its first line is data, so columns are numbered")
    whole = next(iter(tables.values())) if len(tables) == 1 else joined(list(tables.values()))
    if len(whole.rows) < FEWEST_ROWS:
        raise InputError(
            f"{whole.source}: {len(whole.rows)} rows, expected at least {FEWEST_ROWS} labelled ones"
        )
    belief = look(whole)
    if notes or belief.converts:
        paths = {
            split: _write_again(table, belief, folder / READ_AGAIN / f"{name}.{split}.jsonl")
            for split, table in tables.items()
        }
        belief = _after(belief)
    return Given(name, paths, tables, belief, tuple(notes))


def _without_header(path: Path) -> Table | None:
    """The rows of a delimited file whose first line is data; None for any other file."""
    ending = next((e for e in LINES if path.name.lower().removesuffix(".gz").endswith(e)), None)
    if ending is None:
        return None
    text, notes = read_text(path, "utf-8")
    lines = [line for line in text.splitlines()[:200] if line.strip()]
    if not lines:
        return None
    stream = io.StringIO(text)
    if ending == ".csv":
        rows = list(csv.reader(stream))
    else:
        rows = list(csv.reader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))
    full = [row for row in rows if any(cell.strip() for cell in row)]
    width = len(full[0])
    if width < 2 or sum(len(row) == width for row in full) < 0.98 * len(full):
        return None  # lines of tokens, or another dialect, whose reader tells
    if ending == ".txt" and len(full) < 0.9 * len(rows):
        return None  # blank lines between sentences
    if ending != ".txt" and not _is_data(full):
        return None
    names = [f"column {n + 1}" for n in range(width)]
    if ending == ".txt" and not _is_data(full):
        names, full = full[0], full[1:]
    kept = [row for row in full if len(row) == width]
    cells = [dict(zip(names, row, strict=True)) for row in kept]
    return Table(str(path), cells, range(1, len(cells) + 1), notes=notes)


def _is_data(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first line looks like the others: numbers, long texts, or a repeated label."""
    head, body = rows[0], rows[1:200]
    if any(_number(cell) or len(cell.split()) > LONG_HEADER for cell in head):
        return True
    columns = list(zip(*(row for row in body if len(row) == len(head)), strict=True))
    return any(
        column.count(cell) > 1 and len(set(column)) < len(column) / 3
        for cell, column in zip(head, columns, strict=False)
    )


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _write_again(table: Table, belief: Belief, path: Path) -> Path:
    rows = [_converted(row, belief) for row in table.rows]
    write_text(
        path, "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows)
    )
    return path


def _converted(row: dict[str, Any], belief: Belief) -> dict[str, Any]:
    label = belief.columns.get("label")
    if belief.converts == "marks" and isinstance(label, list):
        on = [name for name in label if label_name(row.get(name)).lower() in ("1", "true")]
        return {**{k: v for k, v in row.items() if k not in label}, "labels": on}
    if belief.converts == "sets" and isinstance(label, str):
        cut = str(row.get(label) or "").split(belief.separator)
        return {**row, label: [part.strip() for part in cut if part.strip()]}
    return row


def _after(belief: Belief) -> Belief:
    """The belief about the rewritten rows."""
    if belief.converts == "marks":
        return replace(belief, columns={**belief.columns, "label": "labels"}, converts="")
    return replace(belief, converts="")
