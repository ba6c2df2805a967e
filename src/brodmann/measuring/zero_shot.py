"""Score a new task before any training on it, from each possible start.

Reference: Pilault et al. 2021, "Conditionally Adaptive Multi-Task Learning", Table 8.
"""

import copy

from brodmann.data.tasks import Task
from brodmann.errors import InputError
from brodmann.models.evaluation import evaluate
from brodmann.models.model_settings import EVALUATION_BATCH, STARTS, USUAL_HEAD
from brodmann.models.multitask import MultiTaskModel


def zero_shot(
    model: MultiTaskModel,
    task: Task,
    *,
    head: str = USUAL_HEAD,
    split: str = "validation",
    batch_size: int = EVALUATION_BATCH,
) -> dict[str, dict[str, float]]:
    """Scores of `task`, which the model has not seen, by start; the model is not changed.

    Starts are the model's own tasks, "random" and "xavier". With `head="new"`, all get the same new
    output head; with `head="like"`, each task's start brings that task's head, if it fits. Starts
    that give the same model (see `starts_alike`) are scored once.
    """
    if task.name in model.specs:
        raise InputError(f"the model already has a task '{task.name}': zero-shot needs a new one")
    found: dict[str, dict[str, float]] = {}
    starts = (*model.specs, *STARTS)
    alike = starts_alike(model, head)
    for start in starts[:1] if alike else starts:
        trial = copy.deepcopy(model)
        try:
            trial.add_task(task, like=start, head=head)
        except InputError:
            if head == "like" or start in STARTS:  # no such head, or an encoder that needs a task
                continue
            raise
        result = evaluate(trial, [task], split=split, batch_size=batch_size)
        found[start] = result[task.name].scores
    if alike:
        found = dict.fromkeys(starts, found[starts[0]])
    if not found:
        raise InputError(f"no task of the model has an output head of {task.name}'s form")
    return found


def starts_alike(model: MultiTaskModel, head: str) -> bool:
    """Whether every start gives the same model: nothing is copied if the output head is new and the
    encoder reads every task alike."""
    return head == "new" and model.architecture.one_pass
