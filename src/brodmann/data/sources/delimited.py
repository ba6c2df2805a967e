"""Tables of delimited text (CSV, TSV), whose dialect is found in the file.

A `.csv` file may separate its columns by commas, semicolons, tabs or bars, quote with " or ', and
write a quote inside a quoted field twice or after a backslash. A `.tsv` file has no quoting, as the
format defines, unless every quote in it is a spreadsheet's. Whatever differs from the usual form is
noted.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from brodmann.data.sources.decoding import read_text
from brodmann.data.sources.table import Table
from brodmann.errors import InputError

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
SAMPLE = 50  # records that show what separates the columns
# A quoted field of a tab-separated file: the second form may hold tabs and line breaks.
QUOTED = re.compile(r'(?:^|(?<=\t))"(?:[^"\t\n]|"")*"(?=\t|\r?$)', re.MULTILINE)
QUOTED_LINES = re.compile(r'(?:^|(?<=\t))"(?:[^"]|"")*"(?=\t|\r?$)', re.MULTILINE)


@dataclass(frozen=True)
class Dialect:
    """How a file separates and quotes its fields."""

    separator: str = ","
    quote: str = '"'
    escape: str | None = None  # before a quote inside a quoted field; None: it is doubled

    def notes(self, path: Path) -> tuple[str, ...]:
        found = []
        if self.separator != ",":
            found.append(f"columns separated by {SEPARATORS[self.separator]}")
        if self.quote != '"':
            found.append("fields quoted by '")
        if self.escape is not None:
            found.append("quotes escaped by a backslash")
        return (f"{path}: {', '.join(found)}",) if found else ()


def read_csv(path: Path, encoding: str) -> Table:
    text, notes = read_text(path, encoding)
    dialect = _dialect(text)
    try:
        lines, rows = _collected(_records(text, dialect, path), path)
    except InputError:
        escaped = replace(dialect, escape="\\")
        if f"\\{dialect.quote}" not in text or not _is_regular(text, escaped):
            raise
        dialect = escaped
        lines, rows = _collected(_records(text, dialect, path), path)
    return _table(path, text, rows, lines, notes + dialect.notes(path))


def read_tsv(path: Path, encoding: str) -> Table:
    text, notes = read_text(path, encoding)
    if _is_quoted(text):
        dialect = Dialect("\t")
        lines, rows = _collected(_records(text, dialect, path), path)
        return _table(path, text, rows, lines, (*notes, f"{path}: quoted fields, read as in CSV"))
    lines, rows = _collected(_plain_records(text), path)
    return _table(path, text, rows, lines, notes)


def _table(
    path: Path,
    text: str,
    rows: list[dict[str, Any]],
    lines: list[int],
    notes: tuple[str, ...],
) -> Table:
    if not rows:
        found = "has a header but no rows" if text.strip() else "is empty"
        raise InputError(f"{path}: the file {found}, expected at least one example")
    return Table(str(path), rows, lines, counted="line", notes=notes)


def _dialect(text: str) -> Dialect:
    """What separates and quotes the fields, from the first records of a `.csv` file."""
    head = text.lstrip("\r\n").partition("\n")[0].strip()
    quote = "'" if re.fullmatch(r"'[^']*'([,;\t|]'[^']*')+", head) else '"'
    possible = [Dialect(separator, quote) for separator in SEPARATORS]
    possible = [dialect for dialect in possible if len(_header(head, dialect)) > 1]
    if len(possible) > 1:  # a header such as `id;name, first;label`
        possible = [d for d in possible if _is_regular(text, d, SAMPLE)] or possible
    return possible[0] if possible else Dialect(quote=quote)


def _header(line: str, dialect: Dialect) -> list[str]:
    try:
        return next(_reader(line, dialect), [])
    except csv.Error:
        return []


def _is_regular(text: str, dialect: Dialect, most: int | None = None) -> bool:
    """Whether the first records all have as many fields as the header."""
    try:
        widths = {len(fields) for fields in islice(_reader(text, dialect), most) if fields}
    except csv.Error:
        return False
    return len(widths) == 1


def _reader(text: str, dialect: Dialect) -> Any:
    csv.field_size_limit(2**31 - 1)  # the default rejects texts of 131,072 characters
    return csv.reader(
        io.StringIO(text, newline=""),
        strict=True,
        delimiter=dialect.separator,
        quotechar=dialect.quote,
        doublequote=dialect.escape is None,
        escapechar=dialect.escape,
    )


def _records(text: str, dialect: Dialect, path: Path) -> Iterator[tuple[int, list[str]]]:
    """The fields of every record with its first line: a quoted field may hold line breaks."""
    reader = _reader(text, dialect)
    while True:
        start = reader.line_num + 1
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise InputError(f"{path} line {start}: broken CSV ({error})") from None
        if fields is None:
            return
        if fields:
            yield start, fields


def _plain_records(text: str) -> Iterator[tuple[int, list[str]]]:
    """Fields of tab-separated values without quoting: a quote is a character."""
    for number, line in enumerate(io.StringIO(text, newline=None), start=1):
        fields = line.rstrip("\n").split("\t")
        if fields != [""]:
            yield number, fields


def _collected(
    records: Iterator[tuple[int, list[str]]], path: Path
) -> tuple[list[int], list[dict[str, str]]]:
    lines: list[int] = []
    rows: list[dict[str, str]] = []
    header: list[str] | None = None
    for line, fields in records:
        if header is None:
            header = _checked_header(fields, path)
            continue
        if len(fields) != len(header):
            raise InputError(
                f"{path} line {line}: expected {len(header)} fields as in the first line, "
                f"found {len(fields)}"
            )
        lines.append(line)
        rows.append(dict(zip(header, fields, strict=True)))
    return lines, rows


def _is_quoted(text: str) -> bool:
    """Whether a tab-separated file quotes fields as a spreadsheet does.

    It must leave no quote outside a quoted field, and have a sign that quotes are not meant as
    characters: a quoted header, a doubled quote, or lines that are whole only with quoting.
    """
    if '"' not in text:
        return False
    header, _, _ = text.lstrip("\r\n").partition("\n")
    names = header.rstrip("\r").split("\t")
    signed = '""' in text or all(name[:1] == name[-1:] == '"' for name in names)
    if (regular := _has_one_width(text)) and not signed:
        return False
    pattern = QUOTED if regular else QUOTED_LINES
    return '"' not in pattern.sub("", text)


def _has_one_width(text: str) -> bool:
    lines = io.StringIO(text, newline=None)
    return len({line.count("\t") for line in lines if line != "\n"}) == 1


def _checked_header(fields: list[str], path: Path) -> list[str]:
    names = [name.strip() for name in fields]
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise InputError(f"{path} line 1: the column '{twice}' occurs twice in the first line")
    if len(names) == 1 and any(c in names[0] for c in SEPARATORS):
        raise InputError(
            f"{path} line 1: one column '{names[0]}': a .csv file has commas between its columns, "
            "a .tsv file tabs"
        )
    return names
