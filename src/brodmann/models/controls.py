"""Is the conditioning used? Scores with every task read as if it were another.

An encoder that knows its task may have learnt to ignore it. The check costs one more evaluation:
each task keeps its output head, but the encoder is told that the text belongs to another task, for
every rotation of the tasks (at most `ROTATIONS` of them). A score that does not fall says that
knowing the task was worth nothing.
"""

from collections.abc import Sequence
from typing import Any

from brodmann.data.tasks import Task
from brodmann.models.evaluate import Progress, evaluate
from brodmann.models.multitask import MultiTaskModel
from brodmann.models.task_context import exchanged_tasks
from brodmann.results import LOWER_IS_BETTER

ROTATIONS = 3


def knows_tasks(model: MultiTaskModel) -> bool:
    """Whether the encoder treats tasks differently, so that they can be exchanged."""
    return bool(model.encoder.knows_tasks) and len(model.specs) > 1


def rotations(names: Sequence[str]) -> list[dict[str, str]]:
    """Every task as the next, as the one after it, and so on.

    >>> rotations(["a", "b", "c"])
    [{'a': 'b', 'b': 'c', 'c': 'a'}, {'a': 'c', 'b': 'a', 'c': 'b'}]
    """
    count = len(names)
    return [
        {name: names[(place + turn) % count] for place, name in enumerate(names)}
        for turn in range(1, min(count, ROTATIONS + 1))
    ]


def exchanged_scores(
    model: MultiTaskModel,
    tasks: Sequence[Task],
    *,
    split: str = "validation",
    batch_size: int = 64,
    precision: str = "float32",
    progress: Progress | None = None,
) -> dict[str, list[float]]:
    """Each task's primary metric under every rotation of the tasks."""
    found: dict[str, list[float]] = {}
    for instead in rotations([task.name for task in tasks]):
        with exchanged_tasks(instead):
            results = evaluate(
                model,
                tasks,
                split=split,
                batch_size=batch_size,
                precision=precision,
                progress=progress,
            )
        for name, result in results.items():
            found.setdefault(name, []).append(result.scores[model.spec(name).metric])
    return found


def worth_of_knowing(
    own: dict[str, float], exchanged: dict[str, list[float]], metrics: dict[str, str]
) -> dict[str, Any]:
    """What each task loses when it is exchanged (own score minus the mean), and the mean loss."""
    lost = {}
    for name, values in exchanged.items():
        sign = -1 if metrics[name] in LOWER_IS_BETTER else 1
        lost[name] = sign * (own[name] - sum(values) / len(values))
    return {"exchanged": exchanged, "lost": lost, "mean_lost": sum(lost.values()) / len(lost)}
