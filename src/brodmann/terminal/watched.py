"""Progress as the command line shows it, for calls in Python; `bm.fit` is one of them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from brodmann.data.tasks import Task
from brodmann.models.multitask import MultiTaskModel
from brodmann.training import fit as trainer
from brodmann.training.checkpoints.progress import Progress
from brodmann.training.events import Report, silent


def fit(
    model: MultiTaskModel,
    tasks: Sequence[Task],
    *,
    progress: bool | None = None,
    report: Report | None = None,
    **options: Any,
) -> Progress:
    with watched(progress, report) as shown:
        return trainer.fit(model, tasks, report=shown, **options)


fit.__doc__ = f"""{trainer.fit.__doc__}
    `progress` shows progress as the command line does: by default in a terminal or a notebook,
    never when the output goes to a file or a pipe; True and False override this. If you pass
    your own `report`, nothing is shown.
    """


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
