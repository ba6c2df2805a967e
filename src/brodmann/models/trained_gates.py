r"""Gates that belong to a model: learnt with it, saved with it, and a mask of heads that are off.

$$\xi_h = P_h \cdot \sigma(g_h), \qquad g_h \in \mathbb{R},\; P_h \in \{0, 1\}$$

The free parameters $g$ train like any other (`gates = "trained"`, near 1 at the start) or are not
there at all (`gates = "mask"`: $\xi = P$). Where the gates act, and what acts besides, is in
`gates.py`: temporary gates multiply with these.

Reference: Gupta et al., "MESH - Multi-head Efficiency in XTREME with Multilingual Specialization
and Pruning Heuristics", §III-C ("trainable gating weights g", "binary mask function P"). Departure:
the paper does not say how g is kept in [0, 1]; here by the sigmoid.
"""

import contextlib
import copy
import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from brodmann.errors import InputError, did_you_mean
from brodmann.models.families import bare_models, head_shape, head_slots, kept_heads, removed_heads
from brodmann.models.gates import checked_heads, head_gates
from brodmann.models.head_slices import is_transposed
from brodmann.results import Head

KINDS_OF_GATES = ("", "mask", "trained")
START = 0.98  # of a trained gate: nearly open, and not so near that it has no slope


class ModelGates(nn.Module):
    """ξ = P · σ(g) of every head, (layer, head)."""

    mask: Tensor

    def __init__(self, shape: tuple[int, int], *, trained: bool) -> None:
        super().__init__()
        self.shape = shape
        self.register_buffer("mask", torch.ones(shape))
        # One dimension, like a bias: weight decay leaves it alone (0 would mean a gate of 1/2).
        start = torch.full((shape[0] * shape[1],), math.log(START / (1 - START)))
        self.free = nn.Parameter(start) if trained else None

    def forward(self) -> Tensor:
        if self.free is None:
            return self.mask
        return torch.sigmoid(self.free).view(self.shape) * self.mask

    def switch_off(self, heads: Iterable[Head]) -> None:
        """These too; what is off stays off."""
        for layer, head in checked_heads(heads, self.shape):
            self.mask[layer, head] = 0.0

    def off(self) -> list[Head]:
        return [(int(layer), int(head)) for layer, head in (self.mask == 0).nonzero()]


def check_gates(kind: str) -> None:
    if kind not in KINDS_OF_GATES:
        raise InputError(f"gates = '{kind}'{did_you_mean(kind, KINDS_OF_GATES[1:])}")


def gates_for(encoder: Any, kind: str) -> ModelGates | None:
    """What a model with `gates = kind` holds; encoders of several sizes cannot share gates."""
    check_gates(kind)
    if not kind:
        return None
    shapes = {head_shape(bare) for bare in bare_models(encoder)}
    if len(shapes) > 1:
        raise InputError("gates: the model holds encoders of different sizes")
    return ModelGates(shapes.pop(), trained=kind == "trained")


def through(encoder: Any, gates: ModelGates | None) -> contextlib.AbstractContextManager[None]:
    """Inside, the encoder reads through the model's own gates."""
    return contextlib.nullcontext() if gates is None else head_gates(encoder, gates())


def gone_heads(model: Any) -> list[Head]:
    """Heads that were cut out for good or are switched off in the model: never chosen again."""
    removed = removed_heads(bare_models(model)[0].config)
    gone = {(layer, head) for layer, heads in removed.items() for head in heads}
    own = getattr(model, "gates", None)
    return sorted(gone | set(own.off() if isinstance(own, ModelGates) else ()))


def folded(bare: Any, gates: ModelGates | None) -> Any:
    """A copy of a bare model with the gates inside its output projections: the same answers."""
    if gates is None:
        return bare
    bare = copy.deepcopy(bare)
    kept = kept_heads(bare)
    with torch.no_grad():
        values = gates().to(next(bare.parameters()).device)
        for slot in head_slots(bare):
            if len(slot.layers) > 1:
                raise InputError("gates: layers that share their weights cannot hold them")
            layer = slot.layers[0]
            if not kept[layer]:
                continue
            weight: Any = slot.output.weight
            width = weight.shape[0 if is_transposed(slot.output) else 1] // len(kept[layer])
            by_column = values[layer, kept[layer]].repeat_interleave(width)
            weight.mul_(by_column[:, None] if is_transposed(slot.output) else by_column)
    return bare
