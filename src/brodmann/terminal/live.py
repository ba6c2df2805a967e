"""What changes while it is seen: one bar with the time left, or a table of the cells that run.

Neither is drawn where the output goes into a file or a pipe.
"""

from typing import Any

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.progress_bar import ProgressBar

from brodmann.terminal.width import Table
from brodmann.text import time_left

FOR_A_BAR, FOR_FACTS = 75, 60  # letters of a line that a bar, and what stands beside it, need


class LiveView:
    """At most one of the two at a time."""

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
        """A bar with the time left; of what cannot be counted, its name alone."""
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
        else:  # what is left out is better than what is cut
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
        """What stands beside the bar and, where it is given, how far it is."""
        if self.bar is not None and self.bar_task is not None:
            self.bar.update(self.bar_task, completed=done, facts=facts)

    def show_cells(self, facts: dict[str, Any]) -> None:
        """The cells that run elsewhere now, drawn anew each time."""
        if not self.console.is_terminal:
            return
        if self.table is None:
            self.close()
            self.table = Live(console=self.console, transient=True)
            self.table.start()
        self.table.update(cells_table(facts))


def cells_table(facts: dict[str, Any]) -> Table:
    """The cells that run now, how far each is, and the time left for all."""
    table = Table(box=None, header_style="bold")
    left = f", {time_left(facts['left'])}" if facts["left"] is not None else ""
    table.add_column(f"{facts['done']} done, {facts['waiting']} waiting{left}")
    table.add_column("step", justify="right")
    table.add_column("")
    for label, (step, steps) in facts["running"]:
        bar = ProgressBar(total=max(steps, 1), completed=step, width=30)
        table.add_row(escape(label), f"{step:,}/{steps:,}", bar)
    return table
