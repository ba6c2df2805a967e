"""Columns in the manner of CoNLL: one token per line, sentences apart by blank lines.

A sentence becomes one row whose columns are lists. `tokens` is the first column of the file and
`tags` the last; all are also found by their number from 1, so that `tags = "3"` reads the third.
Fields are separated by tabs if the first line has any, else by spaces. `-DOCSTART-` lines and
comments at the beginning of a sentence (`# id ...`) are left out. In CoNLL-U files (`.conllu`),
columns have the names of that format, `tokens` is `form` and `tags` is `upos`.

Format: https://www.clips.uantwerpen.be/conll2003/ner/, https://universaldependencies.org/format.html
"""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from brodmann.data.sources.decoding import read_text
from brodmann.data.sources.table import Table
from brodmann.errors import InputError

CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
DOCUMENT = "-DOCSTART-"

Line = tuple[int, list[str]]


def read_conll(path: Path, encoding: str) -> Table:
    text, notes = read_text(path, encoding)
    universal = path.name.lower().removesuffix(".gz").endswith(".conllu")
    separator, width = ("\t", len(CONLLU)) if universal else _layout(text, path)
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    for sentence in _sentences(text, path, separator, width):
        if universal:  # without contracted words (1-2) and words that are not written (1.1)
            sentence = [line for line in sentence if line[1][0].isdecimal()]
        if sentence:
            lines.append(sentence[0][0])
            rows.append(_row(sentence, universal))
    if not rows:
        raise InputError(f"{path}: the file is empty, expected at least one sentence")
    return Table(str(path), rows, lines, counted="line", notes=notes)


def _row(sentence: Sequence[Line], universal: bool) -> dict[str, Any]:
    columns = [list(column) for column in zip(*(fields for _, fields in sentence), strict=True)]
    if universal:
        row = dict(zip(CONLLU, columns, strict=True))
        return {"tokens": row["form"], "tags": row["upos"], **row}
    numbered = {str(number): column for number, column in enumerate(columns, start=1)}
    return {"tokens": columns[0], "tags": columns[-1], **numbered}


def _sentences(text: str, path: Path, separator: str | None, width: int) -> Iterator[list[Line]]:
    sentence: list[Line] = []
    for number, line in enumerate(io.StringIO(text, newline=None), start=1):
        fields = _fields(line, separator)
        if not fields or fields[0].startswith(DOCUMENT):
            if sentence:
                yield sentence
            sentence = []
        elif len(fields) == width:
            sentence.append((number, fields))
        elif sentence or not _is_comment(fields):
            raise InputError(
                f"{path} line {number}: expected {width} columns as in the first lines, found "
                f"{len(fields)}: write a token and its tags on each line, and a blank line after "
                "each sentence"
            )
    if sentence:
        yield sentence


def _layout(text: str, path: Path) -> tuple[str | None, int]:
    """The separator (None for spaces) and the number of columns, from the first token's line."""
    for number, line in enumerate(io.StringIO(text, newline=None), start=1):
        separator = "\t" if "\t" in line else None
        fields = _fields(line, separator)
        if not fields or fields[0].startswith(DOCUMENT) or _is_comment(fields):
            continue
        if len(fields) < 2:
            raise InputError(
                f"{path} line {number}: one column, expected a token and its tags, separated by "
                "spaces or tabs"
            )
        return separator, len(fields)
    return None, 0


def _fields(line: str, separator: str | None) -> list[str]:
    """The fields of a line; a blank line has none."""
    if not line.strip():
        return []
    return line.split() if separator is None else line.rstrip("\r\n").split(separator)


def _is_comment(fields: Sequence[str]) -> bool:
    return fields[0] == "#" or fields[0].startswith("# ")
