"""Plan a study of many short trainings from some steps of one of them and the tokens of all."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from brodmann.config import Config
from brodmann.data.tasks import Task
from brodmann.studies.plan.estimate import Sized, Tokens, Trainings
from brodmann.studies.plan.measuring_run import costs_of, measured_with
from brodmann.training.events import Report


def plan_trainings(
    config: Config,
    report: Report,
    model: Any,
    tasks: Sequence[Task],
    trained: list[Task],
    batch: int,
    count: Callable[[list[Sized], Tokens], Trainings],
) -> dict[str, Any]:
    """Plan training on `trained` in batches of this size; `count` gives all trainings' tokens."""
    from brodmann.training.meta.unseen import nearest
    from brodmann.training.step_costs import padded_tokens, split_tokens

    whole = copy.deepcopy(model)
    for task in tasks:
        if task.name not in whole.specs:
            whole.add_task(task, like=nearest(whole, task))
    splits = ("train", "validation")
    encoded = {
        task.name: {split: whole.encode(task.spec, task.splits[split]) for split in splits}
        for task in tasks
    }

    def tokens(task: Sized, size: int) -> float:
        """Tokens per example, in batches drawn at random and padded to their longest."""
        texts = encoded[task.name]["train"]
        generator = np.random.default_rng(0)
        draws = [generator.choice(texts.items, min(size, texts.items), False) for _ in range(64)]
        return float(np.mean([padded_tokens(texts, items) / len(items) for items in draws]))

    evaluated = config.training.evaluation_batch_size
    sizes = []
    for task in tasks:
        own = encoded[task.name]
        judged = len(task.splits["validation"])
        read = split_tokens(own["validation"], evaluated) / max(judged, 1)
        spec, size = task.spec, len(task.splits["train"])
        sizes.append(Sized(task.name, spec.kind, spec.group or "", size, judged, read, False))
    trainings = count(sizes, tokens)
    counts = model.parameter_counts()
    changes = {"batch_size": batch, "gradient_checkpointing": False}  # never used in these
    found = costs_of(config, model, trained, report, **changes)
    return {
        "name": config.name,
        "parameters": counts,
        "trainings": trainings.count,
        "tokens": {
            "training": sum(trainings.learnt.values()),
            "read": sum(trainings.read.values()),
        },
        "operations": trainings.cost(
            found.operations_of_training / found.tokens, found.operations_per_token_read
        ),
        "seconds": trainings.cost(
            found.seconds_of_training / found.tokens, found.seconds_per_token_read
        ),
        **measured_with(found),
    }
