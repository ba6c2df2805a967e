"""Probes: batches of examples with their losses, created when they are needed."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from brodmann.data.batches import make_batch
from brodmann.data.encoding import Encoded
from brodmann.data.tasks import Task
from brodmann.errors import InputError
from brodmann.files import Array
from brodmann.models.backbone.precision import autocast
from brodmann.models.heads.part_sums import part_of_each


@dataclass
class Probe:
    """One batch to measure on."""

    losses: Callable[[], Tensor]  # a forward pass: one loss per example
    examples: int
    example_of_row: Tensor | None  # None: row i is example i
    real: Tensor | None  # (row, token): 1 for tokens that are not padding
    parts: Array  # (example,): the part that each example is added to


def task_probes(
    model: Any,
    task: str,
    encoded: Encoded,
    *,
    batch_size: int,
    precision: str = "float32",
) -> list[Callable[[], Probe]]:
    """Batches of examples of similar length, each created when needed.

    An example's loss is the mean over its items (a long text has several windows), and all of them
    are in one batch, so that they share the example's gate.
    """
    order = np.argsort(encoded.item_example, kind="stable")
    begins = np.searchsorted(encoded.item_example[order], np.arange(encoded.examples + 1))
    lengths = encoded.lengths()
    every = range(encoded.examples)
    longest = np.array([lengths[order[begins[e] : begins[e + 1]]].max() for e in every])
    by_length = np.argsort(-longest, kind="stable")
    pad_id = int(model.tokenizer.pad_token_id)
    parts = part_of_each(encoded.examples)

    def make(group: Array) -> Probe:
        items = np.concatenate([order[begins[e] : begins[e + 1]] for e in group])
        place = {int(example): number for number, example in enumerate(group)}
        owner = torch.tensor([place[int(e)] for e in encoded.item_example[items]])
        batch = make_batch([(task, encoded, items)], pad_id=pad_id).to(model.device)
        rows = torch.repeat_interleave(owner, torch.as_tensor(batch.parts[0].rows_per_item))
        counts = torch.bincount(owner, minlength=len(group)).to(model.device)
        owner = owner.to(model.device)

        def losses() -> Tensor:
            with autocast(model.device, precision):
                each = model(batch).losses[0]
            total: Tensor = each.new_zeros(len(group)).index_add(0, owner, each)
            return total / counts

        single = len(rows) == len(group)
        of_row = None if single else rows.to(model.device)
        return Probe(losses, len(group), of_row, batch.inputs["attention_mask"], parts[group])

    groups = [by_length[start : start + batch_size] for start in range(0, len(every), batch_size)]
    return [lambda group=group: make(group) for group in groups]  # type: ignore[misc]


def example_probes(
    model: Any,
    task: Task,
    split: str,
    examples: int | Sequence[int] | None,
    seed: int,
    *,
    batch_size: int,
    precision: str,
) -> list[Callable[[], Probe]]:
    """Batches over a seeded sample of a task's examples (all if None; a list gives indices)."""
    places = drawn(len(task.splits[split]), examples, seed)
    subset = [task.splits[split][int(place)] for place in places]
    encoded = model.encode(task.spec, subset)
    return task_probes(model, task.name, encoded, batch_size=batch_size, precision=precision)


def drawn(available: int, wanted: int | Sequence[int] | None, seed: int) -> Array:
    """Indices of examples: those given, or `wanted` drawn without replacement, in order."""
    if wanted is not None and not isinstance(wanted, int):
        places = np.asarray(wanted, dtype=int)
        if not len(places) or places.min() < 0 or places.max() >= available:
            raise InputError(f"examples: expected indices from 0 to {available - 1}")
        return places
    if wanted is not None and wanted < 1:
        raise InputError(f"examples = {wanted}: expected at least 1")
    if wanted is None or wanted >= available:
        return np.arange(available)
    return np.sort(np.random.default_rng(seed).choice(available, wanted, replace=False))


def plain_probes(
    model: nn.Module, batches: Iterable[Any], loss: Callable[[Any, Any], Tensor]
) -> list[Callable[[], Probe]]:
    """Batches of inputs for any transformers model; `loss(outputs, batch)` returns one per row."""

    listed = list(batches)
    ends = np.cumsum([rows_of_batch(batch) for batch in listed], dtype=int)
    parts = part_of_each(int(ends[-1]) if len(ends) else 0)

    def make(batch: Any, end: int) -> Probe:
        rows = rows_of_batch(batch)

        def losses() -> Tensor:
            each = loss(model(**batch), batch)
            if each.shape != (rows,):
                raise InputError(
                    f"loss returned shape {tuple(each.shape)} for {rows} rows: expected one loss "
                    "per row, for example cross_entropy(..., reduction='none')"
                )
            return each

        mask, of_row = batch.get("attention_mask"), None
        ids = batch.get("input_ids")
        if (
            ids is not None and ids.dim() == 3
        ):  # multiple choice: the encoder reads one row per choice
            choices = ids.shape[1]
            of_row = torch.arange(rows, device=ids.device)
            of_row = of_row.repeat_interleave(choices)
            mask = None if mask is None else mask.flatten(0, 1)
        return Probe(losses, rows, of_row, mask, parts[end - rows : end])

    return [
        lambda batch=batch, end=int(end): make(batch, end)  # type: ignore[misc]
        for batch, end in zip(listed, ends, strict=True)
    ]


def rows_of_batch(batch: Any) -> int:
    """Number of rows: texts, pictures or sounds, whatever its first tensor holds."""
    return len(next(value for value in batch.values() if isinstance(value, Tensor)))
