"""Excel workbooks (`.xlsx`), with the extra `excel`.

The first sheet is read, and its first row that is not empty names the columns. Cells become texts
as Excel would save them to a CSV file, so that a column of texts may hold 404 and a label 1.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

from brodmann.data.sources.table import Table
from brodmann.errors import InputError

EXTRA = "pip install 'brodmann[excel]'"
ERRORS = ("#N/A", "#REF!", "#VALUE!", "#NAME?", "#DIV/0!", "#NUM!", "#NULL!")


def read_excel(path: Path, encoding: str) -> Table:
    """The rows of the first sheet; the encoding of texts has no meaning here."""
    sheets, cells = _cells(path)
    header: list[str] | None = None
    rows: list[dict[str, Any]] = []
    numbers: list[int] = []
    for number, values in enumerate(cells, start=1):
        if all(value is None for value in values):
            continue
        if header is None:
            header = _header(values, f"{path} row {number}")
            continue
        rows.append(_row(header, values, f"{path} row {number}"))
        numbers.append(number)
    if not rows:
        found = "is empty" if header is None else "has a header but no rows"
        raise InputError(f"{path}: the sheet '{sheets[0]}' {found}, expected at least one example")
    several = f"{path}: only the first of its {len(sheets)} sheets is read, '{sheets[0]}'"
    return Table(str(path), rows, numbers, notes=(several,) if len(sheets) > 1 else ())


def _cells(path: Path) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The names of the sheets, and the values of the first one by row."""
    try:
        import openpyxl
    except ModuleNotFoundError:
        raise InputError(f"{path}: reading Excel files needs one more package: {EXTRA}") from None
    try:
        book: Any = openpyxl.load_workbook(path, read_only=True, data_only=True)
        try:
            sheet = book.worksheets[0]
            sheet.reset_dimensions()  # some programs write a wrong size
            return [one.title for one in book.worksheets], list(sheet.iter_rows(values_only=True))
        finally:
            book.close()
    except Exception as error:  # zipfile, XML and openpyxl raise many unrelated types here
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"{path}: not a readable Excel file ({reason})") from None


def _header(values: Sequence[Any], where: str) -> list[str]:
    names = ["" if value is None else _text(value).strip() for value in values]
    while names and not names[-1]:
        names.pop()
    unnamed = next((place for place, name in enumerate(names) if not name), None)
    if unnamed is not None:
        raise InputError(
            f"{where}: column {unnamed + 1} has no name: the first row must name the columns"
        )
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise InputError(f"{where}: the column '{twice}' occurs twice in the first row")
    return names


def _row(header: Sequence[str], values: Sequence[Any], where: str) -> dict[str, Any]:
    beyond = next((value for value in values[len(header) :] if value is not None), None)
    if beyond is not None:
        raise InputError(
            f"{where}: expected {len(header)} cells as in the first row, found {beyond!r:.60} "
            "after them"
        )
    row: dict[str, Any] = dict.fromkeys(header)  # a short row has empty cells at its end
    for name, value in zip(header, values, strict=False):
        if value in ERRORS:
            raise InputError(f"{where}: the cell of '{name}' holds the error {value}")
        row[name] = None if value is None else _text(value)
    return row


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value.isoformat() if isinstance(value, date | datetime) else str(value)
