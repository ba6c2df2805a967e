"""Live output: one progress bar with the time left, or a table of the running cells.

Neither is drawn if the output goes to a file or a pipe.
"""

from typing import Any

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.progress_bar import ProgressBar

from brodmann.terminal.width import Table
from brodmann.text import time_left

FOR_A_BAR, FOR_FACTS = 75, 60  # columns needed for a bar and for the facts beside it


class LiveView:
    """A progress bar or a table of cells: at most one of them at a time."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.bar: Progress | None = None
        self.bar_task: TaskID | None = None
        self.table: Live | None = None

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None
        if self.table is not None:
            self.table.stop()
            self.table = None

    def open_bar(self, name: str, total: int | None, done: int = 0) -> None:
        """Open a bar with the time left; without a known total, show only its name."""
        self.close()
        columns: list[Any] = [
            TextColumn("{task.description}"),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
            TextColumn("{task.fields[facts]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
        ]
        if total is None:
            del columns[1:]
        elif self.console.width >= FOR_A_BAR:
            columns.insert(1, BarColumn(bar_width=min(30, self.console.width - FOR_A_BAR + 5)))
        else:  # better to leave facts out than to cut them
            del columns[2 if self.console.width < FOR_FACTS else 3 :]
        self.bar = Progress(
            *columns,
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        self.bar_task = self.bar.add_task(escape(name), total=total, completed=done, facts="")
        self.bar.start()

    def advance(self, items: int) -> None:
        if self.bar is not None and self.bar_task is not None:
            self.bar.advance(self.bar_task, items)

    def update(self, facts: str, done: int | None = None) -> None:
        """Update the facts beside the bar and, if given, its position."""
        if self.bar is not None and self.bar_task is not None:
            self.bar.update(self.bar_task, completed=done, facts=facts)

    def show_cells(self, facts: dict[str, Any]) -> None:
        """Redraw the table of cells that run elsewhere."""
        if not self.console.is_terminal:
            return
        if self.table is None:
            self.close()
            self.table = Live(console=self.console, transient=True)
            self.table.start()
        self.table.update(cells_table(facts))


def cells_table(facts: dict[str, Any]) -> Table:
    """A table of the running cells, their progress, and the time left for all."""
    table = Table(box=None, header_style="bold")
    left = f", {time_left(facts['left'])}" if facts["left"] is not None else ""
    table.add_column(f"{facts['done']} done, {facts['waiting']} waiting{left}")
    table.add_column("step", justify="right")
    table.add_column("")
    for label, (step, steps) in facts["running"]:
        bar = ProgressBar(total=max(steps, 1), completed=step, width=30)
        table.add_row(escape(label), f"{step:,}/{steps:,}", bar)
    return table
