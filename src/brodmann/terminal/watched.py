"""`bm.fit`: training that shows where it is, to whoever watches it."""

from collections.abc import Sequence
from typing import Any

from brodmann.data.tasks import Task
from brodmann.models.multitask import MultiTaskModel
from brodmann.training import fit as trainer
from brodmann.training.checkpoints.progress import Progress
from brodmann.training.events import Report


def fit(
    model: MultiTaskModel,
    tasks: Sequence[Task],
    *,
    progress: bool | None = None,
    report: Report | None = None,
    **options: Any,
) -> Progress:
    if report is not None or not _is_watched(progress):
        return trainer.fit(model, tasks, report=report, **options)
    from brodmann.terminal.view import RunView
    from brodmann.terminal.width import LastingConsole

    view = RunView(LastingConsole())
    try:
        return trainer.fit(model, tasks, report=view, **options)
    finally:
        view.close()


fit.__doc__ = f"""{trainer.fit.__doc__}
    `progress` shows how far training is, as the command line does: by default in a terminal or a
    notebook, never where the output goes into a file or a pipe; True and False decide it. With a
    `report` of your own nothing is shown.
    """


def _is_watched(progress: bool | None) -> bool:
    if progress is not None:
        return progress
    from rich.console import Console

    console = Console()
    return console.is_terminal or console.is_jupyter
