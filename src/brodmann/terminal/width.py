"""Tables and lines for terminals of any width: text wraps at words, a number is never cut.

A table that is too wide first wraps its texts. Where its numbers still do not fit beside each
other, each row becomes a block of its own, one line per column. Output that goes into a file or a
pipe has no width: tables keep one line per row there, and lines are not broken (a path stays one).
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

UNLIMITED = 10_000  # letters of a line


class LastingConsole(Console):
    """When nobody reads the output any more (`| head`), the run goes on unseen.

    Text from files (labels, columns, paths) cannot send commands to the terminal.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment  # rich's own: where a bar is drawn
            else:
                yield Segment(visible(segment.text), segment.style)

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
    """Whether output goes where lines may be of any length; COLUMNS sets one even there."""
    somewhere = console.is_terminal or console.is_jupyter
    return not somewhere and "COLUMNS" not in os.environ


class Table(rich.table.Table):
    """A table that wraps its texts, or stacks its rows, before it would shorten a number."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Any]:
        width = UNLIMITED if has_no_width(console) else options.max_width
        widths = self._widths(console, options, width)
        if widths is None:
            yield from self._stacked(console, width)
            return
        fitted = copy.copy(self)
        fitted.columns = [
            replace(column, width=given, no_wrap=False, overflow="fold")
            for column, given in zip(self.columns, widths, strict=True)
        ]
        yield from rich.table.Table.__rich_console__(fitted, console, options.update(width=width))

    def _widths(self, console: Console, options: ConsoleOptions, width: int) -> list[int] | None:
        """The width of every column, or None where the numbers do not fit beside each other."""
        wide = options.update(width=UNLIMITED)
        whole = self.__rich_measure__(console, wide).maximum
        natural, least = [], []
        for column in self.columns:
            header = Measurement.get(console, wide, column.header if self.show_header else "")
            cells = [Measurement.get(console, wide, cell) for cell in column.cells]
            longest = max((cell.maximum for cell in cells), default=0)
            number = column.justify == "right"
            words = longest if number else max((cell.minimum for cell in cells), default=0)
            natural.append(max(header.maximum, longest, 1))
            least.append(max(header.minimum, words, 1))
        room = width - (whole - sum(natural))  # without frames and padding
        if sum(least) > room:
            return None
        while (excess := sum(natural) - room) > 0:
            spare = [given - needed for given, needed in zip(natural, least, strict=True)]
            widest = max(range(len(natural)), key=lambda i: (spare[i] > 0, natural[i], spare[i]))
            natural[widest] -= min(excess, spare[widest], max(1, natural[widest] // 4))
        return natural

    def _stacked(self, console: Console, width: int) -> Iterator[RenderableType]:
        """One block per row: the first column names it, the others follow, one per line."""
        if self.title:
            yield _text(console, self.title, "table.title")
        labels = [_text(console, c.header).plain if self.show_header else "" for c in self.columns]
        for cells in zip(*(column.cells for column in self.columns), strict=True):
            first, *others = cells
            if not _is_empty(console, first):
                yield first if not isinstance(first, str) else _text(console, first, "bold")
            for label, cell in zip(labels[1:], others, strict=True):
                if not _is_empty(console, cell):
                    yield from _labelled(console, label, max(map(len, labels[1:])), cell, width)


def _labelled(
    console: Console, label: str, widest: int, cell: RenderableType, width: int
) -> Iterator[RenderableType]:
    """`  label  value` where that fits, otherwise the value below its label."""
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
