"""The rows and columns of the projections that each attention head owns.

A head owns its rows of the query, key and value projections (including biases) and its columns of
the output projection. The bias of the output projection belongs to no head. Keys and values that
several query heads share belong to all of them. If layers share their weights, a head's slices
belong to that head in every layer they serve.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from brodmann.files import Array
from brodmann.models.backbone.anatomy import (
    HeadSlot,
    anatomy_of,
    head_slots,
    is_transposed,
    kept_heads,
)


@dataclass(frozen=True)
class HeadSlices:
    """One parameter, and the heads that own each index along one dimension."""

    parameter: nn.Parameter
    dimension: int
    reach: Array  # (index, remaining head)
    layers: tuple[int, ...]  # the layers that the parameter serves
    heads: tuple[int, ...]  # the remaining heads, by their original numbers

    def chosen(self, mask: Array) -> Array:
        """(index,) whether an owner is in the mask (layer, head), in any layer it serves."""
        present = np.asarray(mask[list(self.layers)][:, list(self.heads)].any(axis=0))
        return np.asarray((self.reach & present).any(axis=1))


class _GateSlices(HeadSlices):
    """Every head of every layer owns one index."""

    def chosen(self, mask: Array) -> Array:
        return np.asarray(mask).ravel()


def gate_slices(free: nn.Parameter, shape: tuple[int, int]) -> HeadSlices:
    """Slices of the free parameters of a model's own gates (layer · heads)."""
    layers, heads = tuple(range(shape[0])), tuple(range(shape[1]))
    return _GateSlices(free, 0, np.ones((0, 0), dtype=bool), layers, heads)


def head_slices(model: Any, projections: str = "all") -> Iterator[HeadSlices]:
    """Every parameter of a bare model that heads own; `"qkv"` omits the output projection."""
    kept = kept_heads(model)
    for slot in head_slots(model):
        heads = tuple(kept[slot.layers[0]])
        if not heads:
            continue
        for projection in slot.part.projections:
            here = projection.reach[projection.kept(heads)][:, list(heads)]
            parameter = model.get_parameter(projection.path)
            yield HeadSlices(parameter, projection.dimension, here, slot.layers, heads)
        if projections == "all":
            columns = output_columns(slot, len(heads))
            yield HeadSlices(*output_weight(slot), columns, slot.layers, heads)


def output_weight(slot: HeadSlot) -> tuple[nn.Parameter, int]:
    """The weight of W^O, and the dimension along which heads own its columns."""
    weight: Any = slot.output.weight
    return weight, 0 if is_transposed(slot.output) else 1


def output_columns(slot: HeadSlot, heads: int) -> Array:
    """(column, head) of W^O with this many heads, side by side."""
    weight, dimension = output_weight(slot)
    width = weight.shape[dimension] // heads
    return np.repeat(np.eye(heads, dtype=bool), width, axis=0)


def group_size(model: Any) -> int:
    """Number of query heads that share one key-value head: 1 unless the model groups them."""
    return anatomy_of(model).group
