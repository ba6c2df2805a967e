"""Evaluation: a model and an encoded split → outputs of every item → predictions and scores.

With several processes, each reads its share of the batches and all get the whole result.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from brodmann.data.batches import Batch, evaluation_order, make_batch, without_padding
from brodmann.data.encoding import Encoded
from brodmann.data.kinds import KINDS, every_score, lower_is_better
from brodmann.data.tasks import Example, Task
from brodmann.errors import InputError, did_you_mean
from brodmann.files import Array
from brodmann.models.backbone.precision import autocast
from brodmann.models.model_settings import EVALUATION_BATCH
from brodmann.models.multitask import MultiTaskModel

Progress = Callable[[int], None]  # called with the number of examples just read


@dataclass
class Evaluation:
    """One task on one split: scores as fractions, one prediction per example."""

    scores: dict[str, float]
    predictions: list[dict[str, Any]] = field(repr=False)
    examples: int
    truncated: float  # share of the examples that lost text


def evaluate(
    model: MultiTaskModel,
    tasks: Sequence[Task],
    *,
    split: str = "validation",
    batch_size: int = EVALUATION_BATCH,
    precision: str = "float32",
    encoded: Mapping[str, Encoded] | None = None,
    progress: Progress | None = None,
) -> dict[str, Evaluation]:
    """Score every task that has the split; the model's mode is restored."""
    for task in tasks:
        model.spec(task.name)  # raises if the model has no such task
    if not any(split in task.splits for task in tasks):
        known = dict.fromkeys(name for task in tasks for name in task.splits)
        raise InputError(f"no task has a split '{split}'{did_you_mean(split, known)}")
    results = {}
    for task in tasks:
        if split not in task.splits:
            continue
        ready = (encoded or {}).get(task.name) or model.encode(task.spec, task.splits[split])
        results[task.name] = evaluate_task(
            model,
            task.name,
            ready,
            task.splits[split],
            batch_size=batch_size,
            precision=precision,
            progress=progress,
        )
    return results


def evaluate_task(
    model: MultiTaskModel,
    task: str,
    encoded: Encoded,
    examples: Sequence[Example],
    *,
    batch_size: int = EVALUATION_BATCH,
    precision: str = "float32",
    progress: Progress | None = None,
) -> Evaluation:
    outputs = item_outputs(
        model, task, encoded, batch_size=batch_size, precision=precision, progress=progress
    )
    spec = model.spec(task)
    predictions = KINDS[spec.kind].predict(outputs, encoded, examples, spec)
    scores = every_score(predictions, examples, spec)
    return Evaluation(scores, predictions, len(examples), encoded.truncated / len(examples))


def mean_primary(model: MultiTaskModel, results: Mapping[str, Evaluation]) -> float:
    """The number that decides which checkpoint is best; an error counts negatively."""
    values = []
    for name, result in results.items():
        metric = model.spec(name).metric
        value = result.scores[metric]
        values.append(-value if lower_is_better(metric) else value)
    return sum(values) / len(values)


@contextlib.contextmanager
def evaluating(model: MultiTaskModel) -> Iterator[None]:
    """Switch dropout off inside the block; restore the model's mode afterwards."""
    if not any(module.training for module in model.modules()):  # setting the mode takes longer
        yield
        return
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def unlabelled(model: MultiTaskModel, task: str, encoded: Encoded, items: Array) -> Batch:
    """A batch without labels, so without losses, on the model's device."""
    pad_id = int(model.tokenizer.pad_token_id)
    batch = make_batch([(task, encoded, items)], pad_id=pad_id).to(model.device)
    batch.parts[0].labels = {}
    return batch


@torch.inference_mode()
def item_outputs(
    model: MultiTaskModel,
    task: str,
    encoded: Encoded,
    *,
    batch_size: int = EVALUATION_BATCH,
    precision: str = "float32",
    progress: Progress | None = None,
) -> list[Array]:
    """The logits of every item, without padding, in the order of the items."""
    if batch_size < 1:
        raise InputError(f"batch_size = {batch_size}: expected at least 1")
    rank, world = share_of_processes()
    form = KINDS[model.spec(task).kind].HEAD
    found: dict[int, Array] = {}
    first = first_items(encoded)
    with evaluating(model):
        for number, items in enumerate(evaluation_order(encoded, batch_size)):
            if number % world != rank:
                continue
            batch = unlabelled(model, task, encoded, items)
            with autocast(model.device, precision):
                logits = model(batch).logits[0]
            values = logits.float().cpu().numpy()
            for place, item in enumerate(items):
                found[int(item)] = without_padding(values[place], form, encoded, int(item))
            if progress is not None:
                progress(int(first[items].sum()))
    if world > 1:
        found = _everything(found, world)
    return [found[item] for item in range(encoded.items)]


def share_of_processes() -> tuple[int, int]:
    from torch import distributed

    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def _everything(found: dict[int, Array], world: int) -> dict[int, Array]:
    from torch import distributed

    gathered: list[Any] = [None] * world
    distributed.all_gather_object(gathered, found)
    return {item: output for part in gathered for item, output in part.items()}


def first_items(encoded: Encoded) -> Array:
    """Which items begin an example: a long text is several items, but one example."""
    first = np.zeros(encoded.items, dtype=bool)
    first[np.unique(encoded.item_example, return_index=True)[1]] = True
    return first
