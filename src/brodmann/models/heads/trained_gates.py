r"""Gates that belong to a model: trained and saved with it, and a mask of heads that are off.

$$\xi_h = P_h \cdot \min(1, \max(0, (\zeta - \gamma)\,\sigma(g_h) + \gamma)),
  \qquad g_h \in \mathbb{R},\; P_h \in \{0, 1\}$$

with $\gamma = -0.1$ and $\zeta = 1.1$: the sigmoid is stretched slightly beyond [0, 1] and clipped,
so that a gate can be exactly 0 or 1. The free parameters $g$ train (`gates = "trained"`) or do not
exist (`gates = "mask"`: $\xi = P$). `gates.py` applies the gates; temporary gates multiply with
these.

Nothing in a task's loss asks a gate to close. A sparsity term does (`training.sparsity`, λ):

$$\mathcal{L} + \lambda \cdot \frac{1}{H} \sum_h \sigma(g_h - \beta \log(-\gamma / \zeta)),$$

whose sum is the expected number of open gates under the hard concrete distribution, from which the
gates are drawn during training: $\sigma(g_h)$ becomes $\sigma((\log u - \log(1 - u) + g_h) /
\beta)$ with $u$ uniform and $\beta = 2/3$. A head stays open if it lowers the loss by more than
λ / H.

References: Gupta et al., "MESH - Multi-head Efficiency in XTREME with Multilingual Specialization
and Pruning Heuristics", §III-C (its trainable gating weights g and binary mask function P); Louizos
et al. 2018, "Learning Sparse Neural Networks through L0 Regularization"; Voita et al. 2019,
"Analyzing Multi-Head Self-Attention" (the same for heads). Departure: the first paper does not say
how g is kept in [0, 1], nor what makes gates close.
"""

import contextlib
import copy
import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from brodmann.errors import InputError, did_you_mean
from brodmann.models.backbone.anatomy import (
    bare_models,
    head_shape,
    head_slots,
    is_transposed,
    kept_heads,
)
from brodmann.models.heads.gates import checked_heads, head_gates
from brodmann.models.model_settings import GATES
from brodmann.results import Head

GATE_RATE = 500.0  # times the common learning rate: g moves in units, weights in thousandths
START = 2.0  # of g: a gate of 0.957, where the slope is steep enough to move
LOWEST, HIGHEST = -0.1, 1.1  # γ and ζ: how far the sigmoid is stretched
TEMPERATURE = 2 / 3  # β


class ModelGates(nn.Module):
    """Gates ξ of every head, (layer, head)."""

    mask: Tensor

    def __init__(self, shape: tuple[int, int], *, trained: bool) -> None:
        super().__init__()
        self.shape = shape
        self.noisy = False  # whether gates are random in training: only a sparsity term needs it
        self.register_buffer("mask", torch.ones(shape))
        # One-dimensional, like a bias, so that weight decay skips it (0 would mean a gate of 1/2).
        start = torch.full((shape[0] * shape[1],), START)
        self.free = nn.Parameter(start) if trained else None

    def forward(self) -> Tensor:
        if self.free is None:
            return self.mask
        odds: Tensor = self.free
        if self.noisy and self.training:
            uniform = torch.rand_like(odds).clamp(1e-6, 1 - 1e-6)
            odds = (torch.logit(uniform) + odds) / TEMPERATURE
        stretched = torch.sigmoid(odds) * (HIGHEST - LOWEST) + LOWEST
        return stretched.clamp(0.0, 1.0).view(self.shape) * self.mask

    def open_share(self) -> Tensor:
        """The expected share of open gates among those that are not switched off."""
        assert self.free is not None
        chance = torch.sigmoid(self.free - TEMPERATURE * math.log(-LOWEST / HIGHEST))
        kept = self.mask.flatten()
        return (chance * kept).sum() / kept.sum().clamp(min=1)

    def switch_off(self, heads: Iterable[Head]) -> None:
        """Switch off these heads, too; heads that are off stay off."""
        for layer, head in checked_heads(heads, self.shape):
            self.mask[layer, head] = 0.0

    def off(self) -> list[Head]:
        return [(int(layer), int(head)) for layer, head in (self.mask == 0).nonzero()]


def check_gates(kind: str) -> None:
    if kind and kind not in GATES:
        raise InputError(f"gates = '{kind}'{did_you_mean(kind, GATES)}")


def sparse_gates(model: Any) -> ModelGates:
    """The gates that a sparsity term closes; InputError if the model has no trained gates."""
    own = model.gates
    if not isinstance(own, ModelGates) or own.free is None:
        raise InputError('sparsity: the model has no trained gates: set gates = "trained"')
    return own


def gates_for(encoder: Any, kind: str) -> ModelGates | None:
    """The gates of a model with `gates = kind`; encoders of several sizes cannot share them."""
    check_gates(kind)
    if not kind:
        return None
    shapes = {head_shape(bare) for bare in bare_models(encoder)}
    if len(shapes) > 1:
        raise InputError("gates: the model contains encoders of different sizes")
    return ModelGates(shapes.pop(), trained=kind == "trained")


def through(encoder: Any, gates: ModelGates | None) -> contextlib.AbstractContextManager[None]:
    """Apply the model's own gates to the encoder inside the block."""
    return contextlib.nullcontext() if gates is None else head_gates(encoder, gates())


def gone_heads(model: Any) -> list[Head]:
    """Heads that were removed, are switched off or never existed: none of them can be chosen."""
    bare = bare_models(model)[0]
    across = head_shape(bare)[1]
    gone = {
        (layer, head)
        for layer, kept in enumerate(kept_heads(bare))
        for head in set(range(across)) - set(kept)
    }
    own = getattr(model, "gates", None)
    return sorted(gone | set(own.off() if isinstance(own, ModelGates) else ()))


def folded(bare: Any, gates: ModelGates | None) -> Any:
    """A copy of a bare model with the gates folded into its output projections: same answers."""
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
