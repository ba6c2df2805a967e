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
from brodmann.models.backbone import anatomy as families


@dataclass(frozen=True)
class HeadSlices:
    """One parameter, and the head (or group of heads) that owns each index along one dimension."""

    parameter: nn.Parameter
    dimension: int
    owner: Array  # (index,) among the remaining heads, or their groups
    layers: tuple[int, ...]  # the layers that the parameter serves
    heads: tuple[int, ...]  # the remaining heads, by their original numbers
    group: int  # heads that share one owner

    def chosen(self, mask: Array) -> Array:
        """(index,) whether its owner is in the mask (layer, head), in any layer it serves."""
        present = np.asarray(mask[list(self.layers)][:, list(self.heads)].any(axis=0))
        units = np.asarray(present.reshape(-1, self.group).any(axis=1))
        return np.asarray(units[self.owner])


class _GateSlices(HeadSlices):
    """Every head of every layer owns one index."""

    def chosen(self, mask: Array) -> Array:
        return np.asarray(mask).ravel()


def gate_slices(free: nn.Parameter, shape: tuple[int, int]) -> HeadSlices:
    """Slices of the free parameters of a model's own gates (layer · heads)."""
    owner = np.arange(shape[0] * shape[1])
    layers, heads = tuple(range(shape[0])), tuple(range(shape[1]))
    return _GateSlices(free, 0, owner, layers, heads, 1)


def head_slices(model: Any, projections: str = "all") -> Iterator[HeadSlices]:
    """Every parameter of a bare model that heads own; `"qkv"` omits the output projection."""
    family = families.family_of(model)
    kept = families.kept_heads(model)
    shared = group_size(model)
    for slot in families.head_slots(model):
        heads = tuple(kept[slot.layers[0]])
        if not heads:
            continue

        def slices(
            parameter: nn.Parameter,
            dimension: int,
            layout: str,
            slot: families.HeadSlot = slot,
            heads: tuple[int, ...] = heads,
        ) -> HeadSlices:
            group = shared if layout == "groups" else 1
            owner = owners(layout, len(heads) // group, parameter.shape[dimension])
            return HeadSlices(parameter, dimension, owner, slot.layers, heads, group)

        for name, layout in family.projections.items():
            part = getattr(slot.attention, name, None)
            if part is None:  # DeBERTa without relative positions
                continue
            if isinstance(part, nn.Parameter):
                yield slices(part, 0, layout)
                continue
            yield slices(part.weight, 1 if is_transposed(part) else 0, layout)
            if part.bias is not None:
                yield slices(part.bias, 0, layout)
        if projections == "all":
            weight: Any = slot.output.weight
            yield slices(weight, 0 if is_transposed(slot.output) else 1, "heads")


def owners(layout: str, heads: int, size: int) -> Array:
    """(index,) which of `heads` owns each of `size` indices of a projection with this layout."""
    places = np.arange(size)
    if layout == "thirds":
        return (places % (size // 3)) // (size // 3 // heads)
    return places // (size // heads)  # "heads", "groups", or "triples": one head's are adjacent


def group_size(model: Any) -> int:
    """Number of query heads that share one key-value head: 1 unless the family groups them."""
    if not families.family_of(model).grouped:
        return 1
    return int(model.config.num_attention_heads // model.config.num_key_value_heads)


def is_transposed(module: nn.Module) -> bool:
    return type(module).__name__ == "Conv1D"  # GPT-2's linear map, its weight transposed
