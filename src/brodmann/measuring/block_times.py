"""How long a model takes, and how much of that each block takes at each number of units.

A copy of the model is cut step by step: all its attentions alike, then all its feed-forward blocks.
The time that goes with each step, divided by the number of blocks, is what the units of one block
take on this machine at this number of texts and tokens. What remains with every block empty is the
rest of the model. On a processor, time is what it spent computing, which other programs do not
change.
"""

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.isotonic import isotonic_regression
from torch import nn

from brodmann.data.batches import Part
from brodmann.files import Array
from brodmann.models.backbone.anatomy import bare_models
from brodmann.models.backbone.devices import wait_for
from brodmann.models.smaller.units import FEED_FORWARD, Block, blocks_of, cut

STEP = 32  # neurons between two measurements, and the multiples that are kept
SHARE = 0.04  # of the neurons: the least step in wider blocks
SECONDS = 0.15  # of each measurement
LEAST = 7  # passes of each measurement
TURNS = 9  # of two models


@dataclass(frozen=True)
class BlockTimes:
    """Milliseconds by block: with each number of units that was measured."""

    whole: float
    rest: float  # with every block empty
    options: tuple[Array, ...]  # per block: units kept, falling from all to none
    times: tuple[Array, ...]  # per block: what they take


def as_document(times: BlockTimes) -> dict[str, Any]:
    return {
        "whole": times.whole,
        "rest": times.rest,
        "options": [one.tolist() for one in times.options],
        "times": [one.tolist() for one in times.times],
    }


def times_of(stored: Mapping[str, Any]) -> BlockTimes:
    options, times = (tuple(map(np.asarray, stored[name])) for name in ("options", "times"))
    return BlockTimes(stored["whole"], stored["rest"], options, times)


def measure_block_times(
    model: nn.Module,
    blocks: Sequence[Block],
    *,
    texts: int = 1,
    tokens: int = 128,
) -> BlockTimes:
    """Time a copy of the model, as it reads texts of its first task."""
    small = copy.deepcopy(model).eval()
    read = reading(small, texts, tokens)
    whole = _milliseconds(small, read)
    levels = {shape: _levels(shape) for shape in dict.fromkeys(map(_shape, blocks))}
    found: dict[Any, Array] = {}
    before = whole
    for shape, kept in levels.items():
        alike = [number for number, block in enumerate(blocks) if _shape(block) == shape]
        readings = [before]
        for units in kept[1:]:
            _cut_to(small, blocks, dict.fromkeys(alike, int(units)))
            readings.append(_milliseconds(small, read))
        falling = isotonic_regression(readings, increasing=False)  # the rest is noise
        found[shape] = (falling - falling[-1]) / len(alike)
        before = float(falling[-1])
    return BlockTimes(
        whole,
        before,
        tuple(levels[_shape(block)] for block in blocks),
        tuple(found[_shape(block)] for block in blocks),
    )


def times_after(times: BlockTimes, before: Sequence[Block], now: Sequence[Block]) -> BlockTimes:
    """The times of a model that was cut to measured sizes, without measuring again."""
    place = {block.output: number for number, block in enumerate(before)}
    options, left = [], []
    for block in now:
        number = place[block.output]
        smaller = times.options[number] <= block.units
        options.append(times.options[number][smaller])
        left.append(times.times[number][smaller])
    whole = times.rest + sum(float(of_block[0]) for of_block in left)
    return BlockTimes(whole, times.rest, tuple(options), tuple(left))


def _shape(block: Block) -> tuple[str, int, int]:
    return block.kind, block.units, block.width


def _levels(shape: tuple[str, int, int]) -> Array:
    """The numbers of units to time: every head, neurons in steps."""
    kind, units, _ = shape
    if kind != FEED_FORWARD or units <= STEP:
        return np.arange(units, -1, -1)
    step = STEP * max(1, round(SHARE * units / STEP))
    return np.array([units, *range((units - 1) // step * step, -1, -step)])


def _cut_to(model: nn.Module, blocks: Sequence[Block], wanted: Mapping[int, int]) -> None:
    """Cut some blocks further; which units go does not matter for the time."""
    now = {block.output: block for block in blocks_of(model)}
    chosen = [now[blocks[number].output] for number in wanted]
    masks = [
        np.arange(block.units) < units for block, units in zip(chosen, wanted.values(), strict=True)
    ]
    cut(model, chosen, masks)


def _milliseconds(model: Any, read: Callable[[], object]) -> float:
    """The median time of a pass."""
    clocks: list[float] = []
    with torch.inference_mode():
        read()
        began = time.perf_counter()
        while len(clocks) < LEAST or time.perf_counter() - began < SECONDS:
            clocks.append(_timed(model, read))
    return 1000.0 * float(np.median(clocks))


def _timed(model: Any, read: Callable[[], object]) -> float:
    """Seconds of a pass: on a processor, those it computed, whatever else the machine does."""
    clock = time.process_time if model.device.type == "cpu" else time.perf_counter
    start = clock()
    read()
    wait_for(model.device)
    return clock() - start


def speed_ratio(whole: nn.Module, small: nn.Module, texts: int, tokens: int) -> float:
    """How many times faster a small model's encoder reads random texts of this length."""
    models = (whole.eval(), small.eval())
    return ratio_in_turn(models, [reading(model, texts, tokens) for model in models])


def ratio_in_turn(models: Sequence[Any], reads: Sequence[Callable[[], object]]) -> float:
    """The median time of the first model's pass over that of the second, taken in turn."""
    clocks: list[list[float]] = [[], []]
    with torch.inference_mode():
        for turn in range(TURNS + 1):
            for model, clock, read in zip(models, clocks, reads, strict=True):
                seconds = _timed(model, read)
                if turn:  # the first turn warms up
                    clock.append(seconds)
    return float(np.median(clocks[0]) / np.median(clocks[1]))


def reading(model: Any, texts: int, tokens: int) -> Callable[[], object]:
    """A pass through the encoder of the first task, over random texts of this length."""
    bare = bare_models(model)[0]
    vocabulary = int(bare.get_input_embeddings().weight.shape[0])
    ids = torch.randint(0, vocabulary, (texts, tokens), generator=torch.Generator().manual_seed(0))
    ids = ids.to(bare.device)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    every = np.arange(texts)
    part = Part(next(iter(model.specs)), slice(0, texts), every, {}, np.ones_like(every), texts)

    def read() -> None:
        model.states(dict(inputs), [part])

    return read
