"""`bm.fit`: training that shows its progress."""

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
    `progress` shows progress as the command line does: by default in a terminal or a notebook,
    never when the output goes to a file or a pipe; True and False override this. If you pass
    your own `report`, nothing is shown.
    """


def _is_watched(progress: bool | None) -> bool:
    if progress is not None:
        return progress
    from rich.console import Console

    console = Console()
    return console.is_terminal or console.is_jupyter
