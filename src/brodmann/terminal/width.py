"""Tables and lines for terminals of any width: text wraps at words, a number is never cut.

A table that is too wide first wraps its texts, then moves its columns closer. If its numbers still
do not fit side by side, a table of similar columns shows some of them at a time; in any other, each
row becomes a block of its own, one line per column. Output that goes to a file or a pipe has no
width: tables keep one line per row, and lines are not broken (a path stays in one piece).
"""

import copy
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import rich.table
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.segment import Segment
from rich.text import Text

from brodmann.errors import visible

UNLIMITED = 10_000  # characters per line
CLOSE = (0, 1, 0, 0)  # padding of columns that otherwise would not fit


class LastingConsole(Console):
    """A console that keeps the run going when nobody reads the output any more (`| head`).

    Text from files (labels, columns, paths) cannot send commands to the terminal. A minus is
    printed as a hyphen, so that numbers can be searched for, copied and parsed.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment  # rich's own control codes, which position a bar
            else:
                yield Segment(visible(segment.text).replace("−", "-"), segment.style)

    def on_broken_pipe(self) -> None:
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def print(self, *objects: Any, **options: Any) -> None:
        if has_no_width(self):
            options.setdefault("crop", False)
            if all(isinstance(one, str | Text) for one in objects):
                options.setdefault("soft_wrap", True)
        super().print(*objects, **options)


def has_no_width(console: Console) -> bool:
    """Whether lines may have any length; COLUMNS sets a width even for files and pipes."""
    somewhere = console.is_terminal or console.is_jupyter
    return not somewhere and "COLUMNS" not in os.environ


class Table(rich.table.Table):
    """A table that wraps its texts, or stacks its rows, before it would shorten a number.

    `alike`: the columns hold the same kind of thing, so that they can be shown a few at a time.
    """

    def __init__(self, *, alike: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.alike = alike

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Any]:
        width = UNLIMITED if has_no_width(console) else options.max_width
        fitted = copy.copy(self)
        widths = fitted._widths(console, options, width)
        if widths is None:
            fitted.padding = CLOSE
            widths = fitted._widths(console, options, width)
        if widths is None:
            parts = self._parts(console, options, width) if self.alike else []
            yield from parts if len(parts) > 1 else self._stacked(console, width)
            return
        fitted.columns = [
            replace(column, width=given, no_wrap=False, overflow="fold")
            for column, given in zip(self.columns, widths, strict=True)
        ]
        yield from rich.table.Table.__rich_console__(fitted, console, options.update(width=width))

    def _widths(self, console: Console, options: ConsoleOptions, width: int) -> list[int] | None:
        """The width of every column, or None if the numbers do not fit side by side."""
        natural, least, frames = self._measured(console, options)
        room = width - frames
        if sum(least) > room:
            return None
        while (excess := sum(natural) - room) > 0:
            spare = [given - needed for given, needed in zip(natural, least, strict=True)]
            widest = max(range(len(natural)), key=lambda i: (spare[i] > 0, natural[i], spare[i]))
            natural[widest] -= min(excess, spare[widest], max(1, natural[widest] // 4))
        return natural

    def _measured(
        self, console: Console, options: ConsoleOptions
    ) -> tuple[list[int], list[int], int]:
        """The natural and the least width of every column, and the total width of the frames."""
        wide = options.update(width=UNLIMITED)
        natural, least = [], []
        for column in self.columns:
            header = Measurement.get(console, wide, column.header if self.show_header else "")
            cells = [Measurement.get(console, wide, cell) for cell in column.cells]
            longest = max((cell.maximum for cell in cells), default=0)
            number = column.justify == "right"
            words = longest if number else max((cell.minimum for cell in cells), default=0)
            natural.append(max(header.maximum, longest, 1))
            least.append(max(header.minimum, words, 1))
        return natural, least, self.__rich_measure__(console, wide).maximum - sum(natural)

    def _parts(self, console: Console, options: ConsoleOptions, width: int) -> list["Table"]:
        """Split into tables with the first column and as many others as fit beside it."""
        natural, least, frames = self._measured(console, options)
        each = -(-frames // len(natural))  # frame and padding of one column
        first = each + max(least[0], min(natural[0], width // 3))
        groups: list[list[int]] = []
        left = 0
        for place in range(1, len(natural)):
            if not groups or natural[place] + each > left:
                groups.append([])
                left = width - first
            groups[-1].append(place)
            left -= natural[place] + each
        parts = []
        for group in groups:
            part = copy.copy(self)
            part.title = self.title if group is groups[0] else None
            part.columns = [
                replace(self.columns[place], _index=number)
                for number, place in enumerate([0, *group])
            ]
            parts.append(part)
        return parts

    def _stacked(self, console: Console, width: int) -> Iterator[RenderableType]:
        """Draw one block per row: the first column names it, the others follow, one per line."""
        if self.title:
            yield _text(console, self.title, "table.title")
        labels = [_text(console, c.header).plain if self.show_header else "" for c in self.columns]
        for cells in zip(*(column.cells for column in self.columns), strict=True):
            first, *others = cells
            if not _is_empty(console, first):
                numbered = isinstance(first, str) and first.isdigit()
                first = f"{self.columns[0].header} {first}" if numbered else first
                yield first if not isinstance(first, str) else _text(console, first, "bold")
            for label, cell in zip(labels[1:], others, strict=True):
                if not _is_empty(console, cell):
                    yield from _labelled(console, label, max(map(len, labels[1:])), cell, width)


class Bullet:
    """A line of a list; if it is too long, it continues below its own beginning."""

    def __init__(self, text: Text) -> None:
        self.text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        width = UNLIMITED if has_no_width(console) else options.max_width
        for place, line in enumerate(self.text.wrap(console, max(width - 3, 1))):
            line.rstrip()
            yield Text.assemble("   " if place else " • ", line, no_wrap=True, overflow="ignore")


def _labelled(
    console: Console, label: str, widest: int, cell: RenderableType, width: int
) -> Iterator[RenderableType]:
    """Draw `  label  value` if it fits, otherwise the value below its label."""
    if not isinstance(cell, str | Text):
        yield Padding(cell, (0, 0, 0, 2))
        return
    value = _text(console, cell)
    for taken in (widest, len(label)):
        if 2 + taken + 2 + value.cell_len <= width:
            line = Text(f"  {label:<{taken}}  " if widest else "  ", style="dim")
            yield Text.assemble(line, value)
            return
    if label:
        yield Text(f"  {label}", style="dim")
    yield Padding(value, (0, 0, 0, 4 if label else 2))


def _text(console: Console, cell: Any, style: str = "") -> Text:
    return console.render_str(cell, style=style, highlight=False) if isinstance(cell, str) else cell


def _is_empty(console: Console, cell: Any) -> bool:
    return isinstance(cell, str | Text) and not _text(console, cell).plain.strip()
