"""The loss of a batch, task by task."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import Tensor

from brodmann.data.batches import Batch
from brodmann.data.tasks import TaskSpec
from brodmann.errors import RunError

Losses = list[tuple[str, float]]  # (task, loss) of each batch of a step


def task_losses(
    batch: Batch, losses: Sequence[Tensor], specs: Mapping[str, TaskSpec]
) -> dict[str, Tensor]:
    """This process's share of each task's mean loss, times the task's weight."""
    found = {}
    for part, values in zip(batch.parts, losses, strict=True):
        share = values.sum() / part.total if part.total else 0.0 * values.sum()
        found[part.task] = specs[part.task].weight * share
    return found


def not_finite(losses: Losses, norm: float) -> tuple[str, str] | None:
    """("loss" or "gradient", task) of the first number that is not finite."""
    for task, value in losses:
        if not math.isfinite(value):
            return "loss", task
    return None if math.isfinite(norm) else ("gradient", losses[-1][0])


def diverged(
    wrong: tuple[str, str] | None, losses: Losses, step: int, newest: Path | None
) -> RunError:
    """The error of a step with a non-finite number, which another process may have found."""
    what, task = wrong or ("gradient", losses[-1][0])
    kept = f"; {newest.name} is kept" if newest else ""
    return RunError(
        f"the {what} of task '{task}' is not a finite number at step {step}{kept}: try a lower "
        'learning_rate, a smaller clip or precision = "float32"'
    )
