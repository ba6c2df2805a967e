"""A folder of BRAT annotations: `<document>.ann` beside `<document>.txt`.

Each document is one row with its text and the character spans of its entities (lines that begin
with T); relations, events and notes are left out. An entity in several pieces is an error, since a
tag per word cannot express it.

Format: https://brat.nlplab.org/standoff.html
"""

from pathlib import Path
from typing import Any

from brodmann.data.sources.decoding import read_text
from brodmann.data.sources.table import Table
from brodmann.errors import InputError


def is_brat(folder: Path) -> bool:
    return any(folder.glob("*.ann"))


def read_brat(folder: Path, encoding: str) -> Table:
    """One row per document: `tokens` is its text, `tags` its entities."""
    rows: list[dict[str, Any]] = []
    places: list[str] = []
    for path in sorted(folder.glob("*.ann")):
        document = path.with_suffix(".txt")
        if not document.is_file():
            raise InputError(f"{path}: no text beside it, expected {document.name}")
        text = _read(document, encoding)
        entities = _entities(_read(path, encoding), text, path)
        rows.append({"document": path.stem, "tokens": text, "tags": entities})
        places.append(str(path))
    return Table(str(folder), rows, places, counted="")


def _read(path: Path, encoding: str) -> str:
    return read_text(path, encoding)[0]


def _entities(lines: str, text: str, path: Path) -> list[dict[str, Any]]:
    found = []
    for number, line in enumerate(lines.split("\n"), start=1):
        if not line.startswith("T"):
            continue
        where = f"{path} line {number}"
        _, _, described = line.partition("\t")
        place, _, words = described.rstrip("\r").partition("\t")
        if ";" in place:
            raise InputError(
                f"{where}: an entity in several pieces ('{place}'), which tags per word cannot "
                "express: mark one piece, or leave the line out"
            )
        label, *offsets = place.split(" ")
        if len(offsets) != 2 or not all(offset.isdecimal() for offset in offsets):
            raise InputError(
                f"{where}: expected an entity such as 'T1<tab>Person 0 5<tab>Maria', found "
                f"{line!r:.60}"
            )
        start, end = map(int, offsets)
        if words and text[start:end].split() != words.split():
            raise InputError(
                f"{where}: characters {start} to {end} are {text[start:end]!r:.60}, expected "
                f"{words!r:.60}: is the text the one that was annotated?"
            )
        found.append({"start": start, "end": end, "label": label})
    return found
