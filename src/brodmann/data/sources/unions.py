"""Several languages of a dataset as one task, each also evaluated separately (`validation_es`).

Rows with the same number may be translations of each other, so evaluation data of one language is
never trained on while another has training data; if none has, the same rows are held out in all.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from brodmann.data.sources.arranging import divided_split, order
from brodmann.data.sources.table import Table, Tables


def unite(parts: Mapping[str, Tables], name: str, notes: list[str]) -> Tables:
    """Join the splits of all languages, and note languages that are only evaluated."""
    merged: Tables = {}
    for split in sorted({s for tables in parts.values() for s in tables}, key=order):
        having = {code: tables[split] for code, tables in parts.items() if split in tables}
        merged[split] = _joined(having)
        if split != "train":
            merged |= {f"{split}_{code}": _joined({code: t}) for code, t in having.items()}
        elif len(having) < len(parts):
            without = ", ".join(code for code in parts if code not in having)
            notes.append(f"{name}: no training split in {without}: only evaluated there")
    if "train" not in merged:
        source = divided_split(merged, name, notes)
        parallel = [{**row, "parallel": number} for number, row in _numbered(parts, source)]
        kept = {s: t for s, t in merged.items() if not s.startswith(source)}
        merged = {"train": replace(merged[source], rows=parallel), **kept}
    return merged


def _numbered(parts: Mapping[str, Tables], split: str) -> list[tuple[int, dict[str, Any]]]:
    """Rows of every language with their index in it, in the order of `_joined`."""
    return [
        (number, {**row, "language": code})
        for code, tables in parts.items()
        if split in tables
        for number, row in enumerate(tables[split].rows)
    ]


def _joined(tables: Mapping[str, Table]) -> Table:
    """Concatenate the tables of several languages; every row keeps its position."""
    rows = [{**row, "language": code} for code, table in tables.items() for row in table.rows]
    places = [table.where(i) for table in tables.values() for i in range(len(table.rows))]
    names = next(iter(tables.values())).label_names
    source = " and ".join(table.source for table in tables.values())
    return Table(source, rows, places, "", names)
