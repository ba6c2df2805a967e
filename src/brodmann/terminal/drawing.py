"""The report in a terminal: the blocks of `reporting`, drawn with letters."""

from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from rich.console import Group
from rich.markup import escape
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from brodmann.reporting import blocks
from brodmann.reporting.html import cell, column_names
from brodmann.terminal.tables_of_results import head_maps
from brodmann.terminal.width import Table

WIDTH = 24  # letters of a bar or a line
NAME = 24  # letters of a name
room: ContextVar[int] = ContextVar("room", default=80)  # letters of a terminal's line
SPARKS = "▁▂▃▄▅▆▇█"


def drawn(sections: list[blocks.Section], width: int = 80) -> Iterator[Any]:
    room.set(width)
    for section in sections:
        yield Text()
        yield Rule(Text(section.title, style="bold"), align="left", style="dim")
        for block in section.blocks:
            yield from DRAW[type(block)](block)


def _words(block: blocks.Words) -> Iterator[Any]:
    yield Text(block.text, style={"lead": "bold", "note": "dim"}.get(block.tone, ""))


def _items(block: blocks.Items) -> Iterator[Any]:
    if block.title:
        yield Text("\n" + block.title, style="bold")
    for what, why in block.items:
        text = Text(f"• {what}")
        if why:
            text.append(f"  {why}", style="dim")
        yield Padding(text, (0, 0, 0, 1))


def _table(block: blocks.Table) -> Iterator[Any]:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for place, column in enumerate(block.columns):
        table.add_column(escape(column), justify="right" if place else "left")
    for row in block.rows:
        table.add_row(*(escape(text) for text in row))
    yield from _captioned(table, block.caption)


def _matrix(block: blocks.Matrix) -> Iterator[Any]:
    """As many columns at a time as the terminal has room for."""
    names = [shown for shown, _ in column_names(block)]
    rows = [_short(f"{i + 1} {row}" if block.numbered else row) for i, row in enumerate(block.rows)]
    each = max(len(name) for name in [*names, "100.0"]) + 1
    at_once = max(1, (room.get() - max(map(len, rows)) - 1) // each)
    for begin in range(0, len(names), at_once):
        columns = range(begin, min(begin + at_once, len(names)))
        table = Table(box=None, header_style="bold", padding=(0, 1, 0, 0))
        table.add_column("", no_wrap=True)
        for j in columns:
            table.add_column(escape(names[j]), justify="right", no_wrap=True)
        for i, row in enumerate(rows):
            values = [
                Text(cell(block, i, j)[0], style="bold" if block.bold_diagonal and i == j else "")
                for j in columns
            ]
            table.add_row(escape(row), *values)
        yield from _captioned(table, block.caption if columns[-1] == len(names) - 1 else "")


def _bars(block: blocks.Bars) -> Iterator[Any]:
    most = max((abs(value) for value in block.values if value is not None), default=0.0) or 1.0
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for column in range(5):
        table.add_column(no_wrap=column < 4)
    for i, label in enumerate(block.labels):
        value, ends = block.values[i], block.intervals[i]
        length = 0 if value is None else round(WIDTH * abs(value) / most)
        bar = Text("█" * length, style="red" if (value or 0) < 0 else "blue")
        number = "–" if value is None else blocks.plain(value)
        both = "" if ends is None else f"[{blocks.plain(ends[0])}, {blocks.plain(ends[1])}]"
        remark = escape(block.remarks[i]) if block.remarks else ""
        table.add_row(escape(_short(label)), number, bar, escape(both), remark)
    yield from _captioned(table, f"{block.caption} Unit: {block.unit}.")


def _lines(block: blocks.Lines) -> Iterator[Any]:
    values = [point[1] for series in block.series.values() for point in series]
    if not values:
        return
    low, high = min(values), max(values)
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, series in block.series.items():
        if not series:
            continue
        step = -(-len(series) // WIDTH)
        shown = [point[1] for point in series[::step]]
        sparks = "".join(
            SPARKS[round((value - low) / ((high - low) or 1) * (len(SPARKS) - 1))]
            for value in shown
        )
        table.add_row(escape(_short(name)), f"{series[0][1]:.3g}", sparks, f"{series[-1][1]:.3g}")
    yield from _captioned(table, f"{block.caption} {block.y_title} over {block.x_title}.")


def _scatter(block: blocks.Scatter) -> Iterator[Any]:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for title in ("", block.x_title, block.y_title):
        table.add_column(escape(title), justify="right" if title else "left")
    for x, y, name in block.points:
        table.add_row(escape(_short(name)), f"{x:.3g}", blocks.plain(y))
    yield from _captioned(table, block.caption)


def _tree(block: blocks.Tree) -> Iterator[Any]:
    joins = [
        (f"{', '.join(step['left'])} + {', '.join(step['right'])}", f"at {step['distance']:.3g}")
        for step in block.joins[:12]
    ]
    yield from _items(blocks.Items(joins, "Who joins whom first (average linkage)"))


def _atlas(block: blocks.Atlas) -> Iterator[Any]:
    for name, scores in block.maps.items():
        if len(block.maps) > 1:
            yield Text(name, style="bold")
        yield from head_maps(scores, block.alpha)


def _code(block: blocks.Code) -> Iterator[Any]:
    yield Text("\n" + block.title, style="bold")
    yield Padding(Text(block.text, style="dim"), (0, 0, 0, 2))


def _fold(block: blocks.Fold) -> Iterator[Any]:
    yield Text("\n" + block.title, style="bold")
    for inner in block.blocks:
        yield from DRAW[type(inner)](inner)


def _short(name: str) -> str:
    return name if len(name) <= NAME else name[: NAME - 1] + "…"


def _captioned(table: Table, caption: str) -> Iterator[Any]:
    yield Text()
    yield Group(table, Text(caption, style="dim")) if caption else table


DRAW: dict[type, Any] = {
    blocks.Words: _words,
    blocks.Items: _items,
    blocks.Table: _table,
    blocks.Matrix: _matrix,
    blocks.Bars: _bars,
    blocks.Lines: _lines,
    blocks.Scatter: _scatter,
    blocks.Tree: _tree,
    blocks.Atlas: _atlas,
    blocks.Code: _code,
    blocks.Fold: _fold,
}
