"""Draw results in a terminal: the blocks of `reporting` as characters."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from rich.columns import Columns
from rich.console import RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.panel import Panel
from rich.rule import Rule
from rich.text import Text

from brodmann.reporting import blocks
from brodmann.results import HeadScores
from brodmann.terminal.width import Bullet, Table
from brodmann.text import NOTHING, percentage, places, plain

WIDTH = 24  # letters of a bar or a line
JOINS = 12  # at most this many merges of a tree are listed
SHADES = " ░▒▓█"
SPARKS = "▁▂▃▄▅▆▇█"
TONES = {"lead": "bold", "note": "dim"}
PREFIXES = {"caution": ("note: ", "yellow"), "warning": ("warning: ", "bold yellow")}

Drawn = Iterator[RenderableType]


def drawn(sections: Sequence[blocks.Section]) -> Drawn:
    """Draw a whole report, each section under its title."""
    for section in sections:
        yield Text()
        yield Rule(Text(section.title, style="bold"), align="left", style="dim")
        yield from drawn_blocks(section.blocks)


def drawn_blocks(found: Sequence[blocks.Block]) -> Drawn:
    """Draw the blocks of a result one below the other, with no gap between paragraphs."""
    before: blocks.Block | None = None
    for block in found:
        paragraphs = isinstance(before, blocks.Words) and isinstance(block, blocks.Words)
        if before is not None and not paragraphs:
            yield Text()
        yield from DRAW[type(block)](block)
        before = block


def _words(block: blocks.Words) -> Drawn:
    yield Text.assemble(PREFIXES.get(block.tone, ""), (block.text, TONES.get(block.tone, "")))


def _items(block: blocks.Items) -> Drawn:
    if block.title:
        yield Text(block.title, style="bold")
    for what, why in block.items:
        yield Bullet(Text.assemble(what, (f"  {why}" if why else "", "dim")))


def _table(block: blocks.Table) -> Drawn:
    table = _empty_table(show_header=any(block.columns), alike=block.alike)
    for place, column in enumerate(block.columns):
        left = place == 0 or block.is_words(place)
        table.add_column(escape(column), justify="left" if left else "right")
    for place, row in enumerate(block.rows):
        style = "bold" if place in block.strong else None
        table.add_row(*(escape(text) for text in row), style=style)
    yield from _captioned(table, block.caption)


def _matrix(block: blocks.Matrix) -> Drawn:
    table = _empty_table(padding=(0, 1, 0, 0), alike=True)
    table.add_column("")
    for name, _ in block.column_names():
        table.add_column(escape(name), justify="right")
    for i, row in enumerate(block.rows):
        cells = [
            Text(block.cell(i, j), style="bold" if block.bold_diagonal and i == j else "")
            for j in range(len(block.columns))
        ]
        table.add_row(escape(f"{i + 1} {row}" if block.numbered else row), *cells)
    yield from _captioned(table, block.caption)


def _bars(block: blocks.Bars) -> Drawn:
    most = max((abs(value) for value in block.values if value is not None), default=0.0) or 1.0
    table = _empty_table(show_header=False)
    for justify in ("left", "right", "left", "right", "left"):
        table.add_column(justify="right" if justify == "right" else "left")
    for i, label in enumerate(block.labels):
        value, ends = block.values[i], block.intervals[i]
        length = 0 if value is None else round(WIDTH * abs(value) / most)
        bar = Text("█" * length, style="red" if (value or 0) < 0 else "blue")
        number = NOTHING if value is None else plain(value)
        both = "" if ends is None else f"[{plain(ends[0])}, {plain(ends[1])}]"
        remark = block.remarks[i] if block.remarks else ""
        table.add_row(escape(label), number, bar, escape(both), escape(remark))
    what, _, unit = block.unit.partition(", ")
    shown = f"{what} is in {unit}." if unit else f"Unit: {what}."
    yield from _captioned(table, f"{block.caption} {shown}")


def _lines(block: blocks.Lines) -> Drawn:
    drawn = {**block.series, **block.references}
    values = [point[1] for series in drawn.values() for point in series]
    if not values:
        return
    low, high = min(values), max(values)
    largest = max(abs(low), abs(high))
    digits = places(*values)
    if 0 < largest < 1:  # small losses and rates keep three digits that count
        digits = max(digits, 2 - math.floor(math.log10(largest)))
    table = _empty_table(show_header=False)
    for justify in ("left", "right", "left", "right"):
        table.add_column(justify="right" if justify == "right" else "left")
    for name, series in drawn.items():
        if not series:
            continue
        step = -(-len(series) // WIDTH)
        sparks = "".join(
            SPARKS[round((point[1] - low) / ((high - low) or 1) * (len(SPARKS) - 1))]
            for point in series[::step]
        )
        first, last = (plain(series[place][1], digits) for place in (0, -1))
        table.add_row(escape(name), first, sparks, last)
    yield from _captioned(table, f"{block.caption} Lines: {block.y_title} over {block.x_title}.")


def _scatter(block: blocks.Scatter) -> Drawn:
    table = _empty_table()
    for title in ("", block.x_title, block.y_title):
        table.add_column(escape(title), justify="right" if title else "left")
    for x, y, name in block.points:
        table.add_row(escape(name), f"{x:.3g}", plain(y))
    yield from _captioned(table, block.caption)


def _tree(block: blocks.Tree) -> Drawn:
    joins = [
        (f"{', '.join(step['left'])} + {', '.join(step['right'])}", f"at {step['distance']:.3g}")
        for step in block.joins[:JOINS]
    ]
    yield from _items(blocks.Items(joins, "Tasks in the order they join (average linkage)"))


def _atlas(block: blocks.Atlas) -> Drawn:
    """Draw a shaded grid per task, layers from top to bottom; the top heads are bold green."""
    for name, scores in block.maps.items():
        if len(block.maps) > 1:
            yield Text(name, style="bold")
        yield Columns([_head_map(scores, task, block.alpha) for task in scores.tasks])
    yield Text(
        "Head importance: darker cells matter more, layer 0 is at the bottom; green marks the top "
        f"{percentage(block.alpha)}",
        style="dim",
    )


def _head_map(scores: HeadScores, task: str, alpha: float) -> Panel:
    values, chosen = scores.of(task), set(scores.top(alpha, task))
    most = float(values.max())
    most = most if most > 0 else 1.0  # leave-one-out may find no head that helps
    text = Text()
    for layer in reversed(range(scores.shape[0])):
        text.append(f"{layer:>2} ", style="dim")
        for head in range(scores.shape[1]):
            shade = _shade(float(values[layer, head]) / most)
            text.append(shade * 2, style="bold green" if (layer, head) in chosen else "")
        text.append("\n" if layer else "")
    return Panel(text, title=escape(task), expand=False, padding=(0, 1))


def _shade(share: float) -> str:
    """Shade by the square root, since a few heads often outweigh the rest."""
    place = int(np.sqrt(min(max(share, 0.0), 1.0)) * (len(SHADES) - 1) + 0.5)
    return SHADES[place]


def _cases(block: blocks.Cases) -> Drawn:
    for case in block.cases:
        parts: list[Any] = [case.truth]
        parts += [("  right", "dim")] if case.is_right else [" → ", (case.answer, "red")]
        where = "  ".join(part for part in (case.measure, case.where) if part)
        yield Bullet(Text.assemble(*parts, (f"  {where}", "dim")))
        if case.text:
            yield Padding(Text(case.text, style="dim"), (0, 0, 0, 4))


def _code(block: blocks.Code) -> Drawn:
    yield Text(block.title, style="bold")
    yield Padding(Text(block.text, style="dim"), (0, 0, 0, 2))


def _fold(block: blocks.Fold) -> Drawn:
    yield Text(block.title, style="bold")
    yield from drawn_blocks(block.blocks)


def _empty_table(**options: Any) -> Table:
    return Table(**{"box": None, "header_style": "bold", "padding": (0, 2, 0, 0), **options})


def _captioned(table: Table, caption: str) -> Drawn:
    yield table
    if caption:
        yield Text(caption, style="dim")


DRAW: dict[type, Callable[[Any], Drawn]] = {
    blocks.Words: _words,
    blocks.Items: _items,
    blocks.Table: _table,
    blocks.Matrix: _matrix,
    blocks.Bars: _bars,
    blocks.Lines: _lines,
    blocks.Scatter: _scatter,
    blocks.Tree: _tree,
    blocks.Atlas: _atlas,
    blocks.Cases: _cases,
    blocks.Code: _code,
    blocks.Fold: _fold,
}
