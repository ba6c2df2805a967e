"""Progress as the command line shows it, for calls in Python."""

from collections.abc import Iterator
from contextlib import contextmanager

from brodmann.training.events import Report, silent


@contextmanager
def watched(progress: bool | None, report: Report | None) -> Iterator[Report]:
    """Yield the given report function, one that shows progress, or a silent one."""
    if report is not None or not _is_watched(progress):
        yield report or silent
        return
    from brodmann.terminal.view import RunView
    from brodmann.terminal.width import LastingConsole

    view = RunView(LastingConsole())
    try:
        yield view
    finally:
        view.close()


def _is_watched(progress: bool | None) -> bool:
    if progress is not None:
        return progress
    from rich.console import Console

    console = Console()
    return console.is_terminal or console.is_jupyter
