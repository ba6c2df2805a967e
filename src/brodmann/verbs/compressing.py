"""The verb that makes a model smaller, within what its tasks may lose."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from brodmann.config import Changes
from brodmann.data.tasks import Task
from brodmann.errors import InputError
from brodmann.training.events import Report
from brodmann.verbs.asking import Asked, settle
from brodmann.verbs.following import followed
from brodmann.verbs.outcomes import Outcome, Run
from brodmann.verbs.rows import rows_of_compression

if TYPE_CHECKING:
    from brodmann.models.multitask import MultiTaskModel


def compress(
    model: "Asked | Run | MultiTaskModel",
    tasks: Sequence[Task] | None = None,
    *,
    lose: float = 1.0,
    latency: float | None = None,
    size: float | None = None,
    recover: int = 0,
    vocabulary: str = "keep",
    drop: Sequence[str] = (),
    out: str | os.PathLike[str] | None = None,
    seed: int = 0,
    changes: Changes | None = None,
    progress: bool | None = None,
    report: Report | None = None,
) -> Outcome:
    """Make the fastest model in which no task loses more than `lose` points, at 95 % confidence.

    Attention heads, feed-forward neurons and whole blocks are cut, and what is left is repaired;
    with `recover`, it then learns from the whole model for this many epochs per step. `latency` and
    `size` ask for one share of the time or of the parameters instead of the fastest. `vocabulary`
    is "keep", "data" (pieces that the tasks' texts use) or a text file whose pieces stay, too.
    `drop` leaves tasks out. `model` is a run; with a model in memory, pass its `tasks` (with
    training, validation and, best, test examples) and a folder `out`. The outcome's `verdict` says
    whether examples that the search never saw confirm it; without `folder`, nothing was within what
    is allowed, and the trials show the trade-offs.
    """
    from brodmann.models.multitask import MultiTaskModel
    from brodmann.pipeline.compress import checked_wishes, compress_in_memory
    from brodmann.pipeline.compress import compress as make_smaller

    wishes = checked_wishes(
        lose=lose, latency=latency, size=size, recover=recover, vocabulary=vocabulary, drop=drop
    )
    target = None if out is None else Path(out)
    with followed(progress, report) as shown:
        if isinstance(model, MultiTaskModel):
            if tasks is None or target is None:
                raise InputError("compress: a model in memory needs tasks=[...] and out='FOLDER'")
            found = compress_in_memory(model, tasks, shown, wishes=wishes, to=target, seed=seed)
        else:
            if tasks is not None:
                raise InputError("tasks: a run knows its own: pass them with a model in memory")
            settings, base = settle(model.folder if isinstance(model, Run) else model, changes)
            found = make_smaller(settings, base, shown, wishes=wishes, to=target)
    place = Path(found["folder"]) if "folder" in found else None
    return Outcome("compress", found, rows_of_compression(found), place, shown.blocks)
