"""Transfers for `ahp`: each task's encoder learns every other task briefly, on equal terms.

Each transfer takes the source's encoder, a new output head and the same few steps, and yields the
loss of every held-out example. `analysis/ahp.py` evaluates the tournament. The function that trains
(`brodmann.fit`) is one of the inputs, because training is a room above this one.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from brodmann.analysis.ahp import ahp
from brodmann.data.batches import make_batch
from brodmann.data.tasks import Task
from brodmann.files import Array, without_nan
from brodmann.measuring.measuring_settings import TRANSFER_BATCH, TRANSFER_STEPS
from brodmann.measuring.relations import Inputs
from brodmann.models.backbone.precision import autocast
from brodmann.models.heads.probes import drawn
from brodmann.models.model_settings import EVALUATION_BATCH
from brodmann.models.multitask import MultiTaskModel


def measure_ahp(inputs: Inputs) -> dict[str, Any]:
    """The tournament of all transfers, evaluated by `analysis/ahp.py`."""
    assert inputs.fit is not None
    count = len(inputs.tasks)
    inputs.starts("transfers", count * (count - 1))
    losses = transfer_losses(
        inputs.model,
        inputs.tasks,
        inputs.fit,
        examples=inputs.examples,
        precision=inputs.precision,
        seed=inputs.seed,
        progress=inputs.progress,
    )
    transferable, alike = ahp(losses, inputs.names)
    return {
        "examples": inputs.examples,
        "transferability": without_nan(transferable),
        "matrix": without_nan(alike),
    }


def transfer_losses(
    model: MultiTaskModel,
    tasks: Sequence[Task],
    fit: Callable[..., Any],
    *,
    steps: int = TRANSFER_STEPS,
    batch_size: int = TRANSFER_BATCH,
    learning_rate: float = 1e-4,
    examples: int | None = 300,
    precision: str = "float32",
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Array]:
    """Losses by target, (source, example); a task's own row is nan: it is no source of itself."""
    found: dict[str, Array] = {}
    for target in tasks:
        places = drawn(len(target.splits["validation"]), examples, seed)
        held = [target.splits["validation"][int(place)] for place in places]
        rows = []
        for source in tasks:
            if source.name == target.name:
                rows.append(np.full(len(held), np.nan))
                continue
            learner = model.for_tasks([target], encoder_of=source.name, seed=seed)
            fit(
                learner,
                [target],
                epochs=1 + steps * batch_size // max(1, len(target.splits["train"])),
                max_steps=steps,
                batch_size=batch_size,
                learning_rate=learning_rate,
                precision=precision,
                evaluate_every=steps,
                keep="last",
                seed=seed,
            )
            rows.append(_losses(learner, target, held, precision))
            if progress is not None:
                progress(1)
        found[target.name] = np.array(rows)
    return found


@torch.inference_mode()
def _losses(model: MultiTaskModel, task: Task, examples: list[Any], precision: str) -> Array:
    """One loss per example: the mean over its items."""
    model.eval()
    encoded = model.encode(task.spec, examples)
    total, count = np.zeros(len(examples)), np.zeros(len(examples))
    pad_id = int(model.tokenizer.pad_token_id)
    for begin in range(0, encoded.items, EVALUATION_BATCH):
        items = np.arange(begin, min(begin + EVALUATION_BATCH, encoded.items))
        batch = make_batch([(task.name, encoded, items)], pad_id=pad_id).to(model.device)
        with autocast(model.device, precision):
            losses = model(batch).losses[0].float().cpu().numpy()
        np.add.at(total, encoded.item_example[items], losses)
        np.add.at(count, encoded.item_example[items], 1)
    return np.asarray(total / count)
