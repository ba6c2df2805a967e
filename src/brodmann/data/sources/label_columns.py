"""The columns of a table that look like labels: few, short values, or numbers.

They decide which rows are held out together, and whether a row without a label belongs to another
task over the same table.
"""

import math
from collections.abc import Sequence
from typing import Any

from brodmann.data.character_spans import holds_spans
from brodmann.data.sources.table import Table

LABEL_WORDS = 5  # on average; longer cells are texts
TENTHS = 10


def few_values(cells: Sequence[str], groups: int) -> bool:
    """Whether cells are labels: few distinct values among `groups` texts, all of them short."""
    distinct = set(cells)
    if not 1 < len(distinct) <= max(groups // 10, math.isqrt(2 * groups)):
        return False
    return sum(len(cell.split()) for cell in distinct) / len(distinct) <= LABEL_WORDS


def tenths(cells: Sequence[str]) -> list[str] | None:
    """Tenths by rank for a column of numbers; None for texts and for row numbers."""
    try:
        values = [float(cell) for cell in cells]
    except ValueError:
        return None
    if len(set(values)) == len(values) and all(value == round(value, 0) for value in values):
        return None
    edges = sorted(values)[:: max(1, len(values) // TENTHS)]
    return [str(sum(value > edge for edge in edges)) for value in values]


def as_label(value: Any) -> str:
    """A cell as a label: one spelling per number, a list as the names that occur in it."""
    if isinstance(value, list):
        return " ".join(sorted({as_label(one) for one in value}))
    if isinstance(value, dict):
        return " ".join(as_label(value[key]) for key in sorted(value)).strip()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return "" if value is None else str(value).strip()


def rows_labelled_for_others(table: Table, read: set[str]) -> set[int]:
    """Indices of the rows with a label in a column that is not among those `read`."""
    found: set[int] = set()
    for name in set(table.columns()) - read:
        cells = [as_label(row.get(name)) for row in table.rows]
        filled = [cell for cell in cells if cell]  # the other task's labels may have gaps, too
        if any(holds_spans(row.get(name)) for row in table.rows) or (
            filled and (few_values(filled, len(filled)) or tenths(filled) is not None)
        ):
            found |= {index for index, cell in enumerate(cells) if cell}
    return found
