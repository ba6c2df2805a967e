"""Rows that know their position."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

Split = Literal["train", "validation", "test"]
SPLITS: tuple[str, ...] = get_args(Split)


@dataclass
class Table:
    """The rows of one split; `lines[i]` is the position of row i in `source`."""

    source: str
    rows: list[dict[str, Any]]
    lines: Sequence[Any]  # numbers; in a union of languages, whole descriptions
    counted: str = "row"  # what `lines` counts: "line" of a text file, "row" elsewhere
    label_names: dict[str, list[str]] = field(default_factory=dict)  # as the dataset states them
    notes: tuple[str, ...] = ()  # how the source was read, if that is not obvious
    parts: "tuple[Table, ...]" = ()  # the files that were joined; `lines` counts their rows from 0
    root: "Table | None" = None  # the original table, if this is a part or another form of it
    # Identity of the data: equal for a table and its parts, and if the same file is read again.
    identity: object = field(default_factory=object, compare=False, repr=False)

    def where(self, index: int) -> str:
        line = self.lines[index]
        for part in self.parts:
            if line < len(part.rows):
                return part.where(line)
            line -= len(part.rows)
        return f"{self.source} {self.counted} {line}" if self.counted else str(line)

    def rows_of(self, kept: Sequence[int], rows: "list[dict[str, Any]] | None" = None) -> "Table":
        """Some of the rows, or a new form of them, which keep their positions."""
        return replace(
            self,
            rows=[self.rows[i] for i in kept] if rows is None else rows,
            lines=[self.lines[i] for i in kept],
            root=self.root or self,
        )

    def columns(self) -> list[str]:
        return list(dict.fromkeys(key for row in self.rows for key in row))


Tables = dict[str, Table]  # by split


def joined(tables: Sequence[Table]) -> Table:
    """The rows of several files as one table, in their order; each keeps its position."""
    rows = [row for table in tables for row in table.rows]
    more = f" and {len(tables) - 1} more"
    return Table(
        tables[0].source + more,
        rows,
        range(len(rows)),
        notes=tuple(note for table in tables for note in table.notes),
        parts=tuple(tables),
    )


def plain(value: Any) -> Any:
    """Convert numpy scalars and arrays to Python's; NaN, NaT and NA are missing, not 'nan'."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float) and math.isnan(value):
        return None
    return None if type(value).__name__ in ("NaTType", "NAType") else value
