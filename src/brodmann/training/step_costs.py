"""Estimate what a training run will take from a few of its steps.

Every batch of the run is drawn beforehand (indices and lengths only, no text), so the padded tokens
of all steps are known exactly. A few steps of different sizes, the largest among them, are then
executed; time is proportional to tokens, so

    seconds of the run = Σ seconds measured / Σ tokens measured · Σ tokens of all steps.

Memory is the peak of the process at the largest batch; operations are counted by torch.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from brodmann.data.batches import Batch
from brodmann.data.encoding import Encoded
from brodmann.data.sampling.samplers import SAMPLERS
from brodmann.data.sampling.stream import Draw, Feedback, no_feedback
from brodmann.files import Array
from brodmann.models.backbone.devices import wait_for
from brodmann.models.backbone.precision import autocast
from brodmann.models.evaluation import item_outputs
from brodmann.models.heads.measure import importance
from brodmann.models.heads.probes import example_probes
from brodmann.provenance import peak_of_process
from brodmann.training.checkpoints.keeper import Keeper
from brodmann.training.loop import Loop

SAMPLES = 8  # steps that are timed
READ = 64  # examples per task to time reading and mapping


@dataclass
class Costs:
    """Costs of one configuration, measured on this machine."""

    steps: int
    steps_per_epoch: float
    tokens: int  # padded tokens of all training steps
    seconds_of_training: float
    seconds_per_token_read: float  # forward pass only
    seconds_per_token_mapped: float  # head importance
    operations_of_training: float
    operations_per_token_read: float
    bytes_of_weights: int  # weights, gradients, moments
    bytes_of_activations: int  # kept for the backward pass of the largest batch
    bytes_of_process: int  # peak resident memory after the largest batch
    measured_steps: int
    threads: int


def measure_costs(loop: Loop, progress: Callable[[int], None] | None = None) -> Costs:
    """Time some steps of this run; they change the model, so discard it afterwards."""
    tick = progress or (lambda items: None)
    keeper = Keeper(None, keep=1, fingerprint="", main=True, say=lambda text: None)
    mixed = SAMPLERS[loop.options.sampling].by_example
    draws = [] if mixed else _every_draw(loop)
    steps_per_epoch = loop.stream.batches_per_epoch / loop.options.accumulation
    names = [task.name for task in loop.tasks]
    sizes = np.array([_tokens_of(loop, draw) for draw in draws])
    if mixed:
        chosen: list[Draw] = []
        largest = _share(loop, {names[0]: np.arange(min(loop.options.batch_size, 8))})
    else:
        order = np.argsort(sizes, kind="stable")
        places = np.linspace(0, len(order) - 1, min(SAMPLES, len(order))).round().astype(int)
        chosen = [draws[order[place]] for place in places]
        largest = _share(loop, {names[t]: items for t, items in chosen[-1].items.items()})
        stream = _Chosen([chosen[len(chosen) // 2], *chosen])  # the first one warms up
        loop.stream = loop.source.stream = stream  # type: ignore[assignment]
        loop.options = loop.options.model_copy(update={"accumulation": 1})  # one batch per step
    kept, operations = _of_one_batch(loop, largest)
    took: list[float] = []
    for number in range(1 + (SAMPLES if mixed else len(chosen))):
        began = time.perf_counter()
        loop.one_step(keeper, lambda *_: None)
        wait_for(loop.device)
        took.append(time.perf_counter() - began)
        tick(1)
        if number == 0:
            took.clear()
    if mixed:
        rows = loop.options.batch_size * loop.steps
        tokens = int(rows * np.mean([np.mean(e.lengths()) for e in loop.train_sets.values()]))
        seconds = float(np.mean(took)) * loop.steps
    else:
        measured = sum(_tokens_of(loop, draw) for draw in chosen)
        tokens = int(sizes.sum())
        seconds = sum(took) / measured * tokens
    read, mapped, read_operations = _reading(loop)
    _read_longest(loop)
    trained = sum(p.numel() for p in loop.model.parameters() if p.requires_grad)
    total = sum(p.numel() for p in loop.model.parameters())
    return Costs(
        steps=loop.steps,
        steps_per_epoch=steps_per_epoch,
        tokens=tokens,
        seconds_of_training=seconds,
        seconds_per_token_read=read,
        seconds_per_token_mapped=mapped,
        operations_of_training=operations * tokens,
        operations_per_token_read=read_operations,
        bytes_of_weights=4 * total + 12 * trained,
        bytes_of_activations=kept,
        bytes_of_process=peak_of_process(),
        measured_steps=len(took),
        threads=torch.get_num_threads(),
    )


def padded_tokens(encoded: Encoded, items: Array) -> int:
    """Number of rows times the length of the longest."""
    counts = encoded.item_rows[items + 1] - encoded.item_rows[items]
    return int(counts.sum() * encoded.lengths()[items].max())


def split_tokens(encoded: Encoded, batch_size: int) -> int:
    """Padded tokens of a whole split, read in order of length."""
    order = np.argsort(-encoded.lengths(), kind="stable")
    return sum(
        padded_tokens(encoded, order[begin : begin + batch_size])
        for begin in range(0, len(order), batch_size)
    )


class _Chosen:
    """A stream that yields given batches."""

    def __init__(self, draws: Sequence[Draw]) -> None:
        self.draws, self.drawn = list(draws), 0
        self.batches_per_epoch = len(self.draws)

    def __len__(self) -> int:
        return len(self.draws)

    def next(self, feedback: Feedback = no_feedback) -> Draw:
        self.drawn += 1
        return self.draws[self.drawn - 1]

    def log_facts(self, names: Sequence[str]) -> dict[str, Any]:
        """Return nothing: these steps keep no log."""
        return {}


def _every_draw(loop: Loop) -> list[Draw]:
    stream: Any = loop.stream
    count = min(len(stream), loop.steps * loop.options.accumulation)
    return [stream.next() for _ in range(count)]


def _tokens_of(loop: Loop, draw: Draw) -> int:
    """Padded tokens of a batch."""
    sets = list(loop.train_sets.values())
    return sum(padded_tokens(sets[task], items) for task, items in draw.items.items())


def _share(loop: Loop, items: dict[str, Array]) -> Batch:
    return loop.source.share(items, list(items)).to(loop.device)


def _of_one_batch(loop: Loop, batch: Batch) -> tuple[int, float]:
    """(bytes kept for the backward pass, operations per padded token, forward and backward)."""
    own = {p.untyped_storage().data_ptr() for p in loop.model.parameters()}
    kept: dict[int, int] = {}

    def pack(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    loop.model.train()
    with (
        FlopCounterMode(display=False) as counter,
        torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor),
    ):
        with autocast(loop.device, loop.options.precision):
            outputs = loop.model(batch)
        torch.stack([losses.float().mean() for losses in outputs.losses]).sum().backward()  # type: ignore[no-untyped-call]
    loop.model.zero_grad(set_to_none=True)
    return sum(kept.values()), counter.get_total_flops() / batch.inputs["input_ids"].numel()


def _read_longest(loop: Loop) -> None:
    """Read the largest batch of an evaluation, for its memory."""
    size = loop.options.evaluation_batch_size
    for task in loop.tasks:
        encoded = loop.train_sets[task.name]
        items = np.argsort(-encoded.lengths(), kind="stable")[:size]
        longest = encoded.only(np.unique(encoded.item_example[items]))
        item_outputs(
            loop.model, task.name, longest, batch_size=size, precision=loop.options.precision
        )


def _reading(loop: Loop) -> tuple[float, float, float]:
    """Seconds per padded token read and mapped, and operations per token read, over all tasks."""
    tokens, read, mapped, operations = 0, 0.0, 0.0, 0.0
    options = loop.options
    for task in loop.tasks:
        count = min(READ, len(task.splits["train"]))
        encoded = loop.train_sets[task.name].only(np.arange(count))
        batch_size = options.evaluation_batch_size
        size = split_tokens(encoded, batch_size)
        with FlopCounterMode(display=False) as counter:
            item_outputs(loop.model, task.name, encoded, batch_size=batch_size)
        operations += counter.get_total_flops()
        began = time.perf_counter()
        item_outputs(
            loop.model, task.name, encoded, batch_size=batch_size, precision=options.precision
        )
        read += time.perf_counter() - began
        probes = example_probes(
            loop.model, task, "train", count, 0, batch_size=32, precision=options.precision
        )
        began = time.perf_counter()
        importance(loop.model, probes)
        mapped += time.perf_counter() - began
        tokens += size
    return read / tokens, mapped / tokens, operations / tokens
