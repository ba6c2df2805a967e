"""What can be cut from a model: attention heads and feed-forward neurons, block by block.

A *block* is one attention or one feed-forward network of one layer. Its *units* are heads (those
that share keys and values are one unit) or neurons; each unit owns `width` inputs of the block's
last linear map. Where a model holds several encoders of one shape, as `single` does, a unit is cut
from all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from brodmann.errors import InputError
from brodmann.files import Array
from brodmann.models.backbone.anatomy import bare_models, head_shape, head_slots, kept_heads
from brodmann.models.backbone.feed_forward import feed_forwards, neurons_left, sizes_of
from brodmann.models.heads.removal import check_apart, check_removable, prune_heads
from brodmann.models.smaller.neurons import cut_neurons
from brodmann.results import Head

ATTENTION, FEED_FORWARD = "attention", "feed_forward"


@dataclass(frozen=True)
class Block:
    """One block of a bare model with the units that it still has."""

    kind: str  # ATTENTION or FEED_FORWARD
    layer: int
    output: str  # path of the last linear map
    units: int
    width: int  # inputs of that map per unit
    heads: tuple[tuple[int, ...], ...] = ()  # of an attention: the heads of each unit

    @property
    def name(self) -> str:
        what = "attention" if self.kind == ATTENTION else "feed-forward"
        return f"{what} of layer {self.layer}"

    def inputs(self, kept: Array) -> Array:
        """(input,) whether an input of the last map belongs to a kept unit."""
        return np.repeat(kept, self.width)


def blocks_of(model: nn.Module) -> tuple[Block, ...]:
    """Every block with units that can be cut, by layer; none if all of them went."""
    inner = bare_models(model)
    check_apart(inner)
    found = [_blocks(bare) for bare in inner]
    if any(other != found[0] for other in found):
        raise InputError("the model holds encoders of different shapes: compress them one by one")
    return found[0]


def _blocks(bare: Any) -> tuple[Block, ...]:
    found = []
    kept, (_, _most) = kept_heads(bare), head_shape(bare)
    for slot in head_slots(bare):
        heads, group = kept[slot.layers[0]], slot.part.group
        if not heads or not _removable(bare, [(slot.layers[0], head) for head in heads]):
            continue
        units = tuple(tuple(heads[at : at + group]) for at in range(0, len(heads), group))
        width = getattr(slot.output, sizes_of(slot.output)[0]) // len(units)
        found.append(Block(ATTENTION, slot.layers[0], slot.part.output, len(units), width, units))
    left = neurons_left(bare)
    found += [
        Block(FEED_FORWARD, one.layer, one.output, left[one.output], 1)
        for one in feed_forwards(bare)
        if left[one.output]
    ]
    return tuple(sorted(found, key=lambda block: (block.layer, block.kind)))


def _removable(bare: Any, heads: list[Head]) -> bool:
    try:
        check_removable(bare, heads)
    except InputError:
        return False
    return True


def cut(model: nn.Module, blocks: Sequence[Block], kept: Sequence[Array]) -> None:
    """Remove the units that `kept`, one mask per block, leaves out."""
    count = len(bare_models(model))
    neurons = {
        block.output: [mask] * count
        for block, mask in zip(blocks, kept, strict=True)
        if block.kind == FEED_FORWARD and not mask.all()
    }
    if neurons:
        cut_neurons(model, neurons)
    if heads := heads_without(blocks, kept):
        prune_heads(model, heads)


def heads_without(blocks: Sequence[Block], kept: Sequence[Array]) -> list[Head]:
    """The heads that the masks leave out."""
    return [
        (block.layer, head)
        for block, mask in zip(blocks, kept, strict=True)
        for unit, stays in zip(block.heads, mask, strict=False)
        if not stays
        for head in unit
    ]
