"""Test whether conditioning is used: score every task as if it were another.

An encoder that knows its task may have learnt to ignore it. The test costs one more evaluation:
each task keeps its output head, but the encoder is told that the text belongs to another task, for
every rotation of the tasks (at most `ROTATIONS` of them). If the score does not fall, knowing the
task was worth nothing.
"""

from collections.abc import Sequence

from brodmann.data.tasks import Task
from brodmann.models.encoders.task_context import exchanged_tasks
from brodmann.models.evaluation import Evaluation, Progress, evaluate
from brodmann.models.model_settings import EVALUATION_BATCH
from brodmann.models.multitask import MultiTaskModel

ROTATIONS = 3


def knows_tasks(model: MultiTaskModel) -> bool:
    """Whether the encoder treats tasks differently, so that they can be swapped."""
    return model.architecture.knows_tasks and len(model.specs) > 1


def rotations(names: Sequence[str]) -> list[dict[str, str]]:
    """Map every task to the next, then to the one after it, and so on.

    >>> rotations(["a", "b", "c"])
    [{'a': 'b', 'b': 'c', 'c': 'a'}, {'a': 'c', 'b': 'a', 'c': 'b'}]
    """
    count = len(names)
    return [
        {name: names[(place + turn) % count] for place, name in enumerate(names)}
        for turn in range(1, min(count, ROTATIONS + 1))
    ]


def evaluate_exchanged(
    model: MultiTaskModel,
    tasks: Sequence[Task],
    *,
    split: str = "validation",
    batch_size: int = EVALUATION_BATCH,
    precision: str = "float32",
    progress: Progress | None = None,
) -> list[dict[str, Evaluation]]:
    """Evaluate every task as another, once for each rotation of the tasks."""
    found = []
    for instead in rotations([task.name for task in tasks]):
        with exchanged_tasks(instead):
            found.append(
                evaluate(
                    model,
                    tasks,
                    split=split,
                    batch_size=batch_size,
                    precision=precision,
                    progress=progress,
                )
            )
    return found
