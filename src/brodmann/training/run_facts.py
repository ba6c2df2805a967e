"""The identity of a training run, and the facts reported when it starts."""

from typing import Any

import torch

from brodmann.files import digest
from brodmann.models.backbone.precision import computed_in
from brodmann.models.pooling import describe_pooling
from brodmann.training.checkpoints import checkpoint


def fingerprint(loop: Any, *, shared_steps: bool = False) -> str:
    """Digest of everything that decides the steps: runs with the same one can resume each other.

    With `shared_steps`, the digest covers only the steps before methods begin.
    """
    data = [task.fingerprint() for task in loop.tasks]
    shapes = [[n, list(p.shape), p.requires_grad] for n, p in loop.trained.named_parameters()]
    options = loop.options.plain()
    if loop.model.settings.parameters:  # clusters may come from a file that has changed
        options |= {"architecture": loop.model.settings.parameters}
    if len(set(loop.rates.values())) > 1:
        options |= {"rates": loop.rates}
    for method in loop.methods:
        options |= method.identity(shared_steps=shared_steps)
    return digest(checkpoint.STATE_FORMAT, options, data, shapes, loop.world)


def start_facts(loop: Any) -> dict[str, Any]:
    """Facts about the run for the log and the terminal."""
    return {
        "steps": loop.steps,
        "step": loop.progress.step,
        "world": loop.world,
        "sharded": loop.options.sharding is not None,
        "device": str(loop.device),
        "precision": computed_in(loop.options.precision, loop.device),
        "threads": torch.get_num_threads(),
        "parameters": loop.parameters,
        "epochs": loop.options.epochs if loop.steps != loop.options.max_steps else None,
        "rates": loop.rates,
        "pooling": describe_pooling(loop.model.settings.pooling),
        "tasks": {
            task.name: {
                **task.sizes,
                "items": loop.train_sets[task.name].items,
                "truncated": loop.train_sets[task.name].truncated / task.sizes["train"],
            }
            for task in loop.tasks
        },
    }


def tracked_settings(loop: Any) -> dict[str, Any]:
    """What trackers store as the settings of a run: of training, of the model, and its tasks."""
    model = loop.model.settings
    return {
        **loop.options.model_dump(exclude_none=True),
        "backbone": model.backbone,
        "architecture": model.architecture,
        "parameters": model.parameters,
        "freeze": model.freeze,
        "max_length": model.max_length,
        "tasks": [task.name for task in loop.tasks],
    }
