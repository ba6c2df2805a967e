r"""Where the feed-forward blocks of a transformers model are, and which rows compute each neuron.

$$\mathrm{FF}(x) = f(W_1 x + b_1)\, W_2 + b_2$$

Its *neurons* are the inputs of $W_2$. Gated blocks compute a neuron from two rows, of two linear
maps or of one whose halves are multiplied. As for attention heads, nothing is taken from names: the
linear maps of a layer are watched in one pass, and gradients show which rows a neuron reads.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from brodmann.files import Array
from brodmann.models.backbone.anatomy import (
    anatomy_of,
    configuration_key,
    is_transposed,
    neuron_sizes,
)
from brodmann.models.backbone.watched_pass import is_linear, layer_of, untouched

WATCHED = 16  # neurons whose rows are looked for


@dataclass(frozen=True)
class FeedForward:
    """One feed-forward block of a bare model."""

    output: str  # W_2, whose inputs are the neurons
    inputs: tuple[str, ...]  # the linear maps that compute them
    layer: int
    neurons: int  # as the model was created
    order: str  # of an input's rows: "each" one per neuron, "halves" or "pairs" two

    def rows(self, kept: Array, order: str | None = None) -> Array:
        """(row,) whether a row of an input map belongs to a kept neuron; `kept` is a mask."""
        order = order or self.order
        if order == "halves":
            return np.concatenate([kept, kept])
        return np.repeat(kept, 2) if order == "pairs" else kept


_of_model: "WeakKeyDictionary[Any, tuple[FeedForward, ...]]" = WeakKeyDictionary()
_of_configuration: dict[tuple[str, str], tuple[FeedForward, ...]] = {}


def feed_forwards(model: Any) -> tuple[FeedForward, ...]:
    """The feed-forward blocks of a bare model, layer by layer; those not recognised are left out.

    A cut model is described as it was created.
    """
    found = _of_model.get(model)
    if found is None:
        key = configuration_key(model)
        found = _of_configuration.get(key)
        if found is None:
            found = _discover(model)
            if not (next(model.parameters()).is_meta or neuron_sizes(model.config)):
                _of_configuration[key] = found
        _of_model[model] = found
    return found


def neurons_left(model: Any) -> dict[str, int]:
    """The number of neurons of every block, by the path of W_2."""
    return {one.output: one.neurons for one in feed_forwards(model)} | neuron_sizes(model.config)


def _discover(model: Any) -> tuple[FeedForward, ...]:
    known = anatomy_of(model)
    if known.shares_layers or next(model.parameters()).is_meta:
        return ()
    owned = {p.path.rpartition(".")[0] for one in known.attentions for p in one.projections}
    owned |= {one.output for one in known.attentions}
    layers: dict[str, int] = {}
    for one in known.attentions:
        layers.setdefault(layer_of(one.path), one.layers[0])
    layers.pop("", None)  # attention outside of any list of layers
    calls = _watch(model, known.inputs, owned, layers)
    return tuple(
        block
        for path, layer in sorted(layers.items(), key=lambda item: item[1])
        if (block := _block_of(calls.get(path, []), layer)) is not None
    )


@dataclass
class _Call:
    path: str
    read: Tensor
    answer: Tensor


def _watch(
    model: Any, inputs: Mapping[str, Any], owned: set[str], layers: Mapping[str, int]
) -> dict[str, list[_Call]]:
    """The calls of all linear maps of a layer that no attention owns, in their order."""
    calls: dict[str, list[_Call]] = {}
    handles = []

    def watch(path: str, layer: str) -> Any:
        def seen(_: nn.Module, args: Any, answer: Any) -> Any:
            if not args or not isinstance(answer, Tensor):
                return None
            leaf = answer.detach().requires_grad_()  # gradients reach the last maps only
            calls.setdefault(layer, []).append(_Call(path, args[0], leaf))
            return leaf.clone()

        return seen

    with torch.inference_mode(False), untouched(model), torch.enable_grad():
        for path, module in model.named_modules():
            layer = layer_of(path)
            if layer in layers and path not in owned and is_linear(module):
                handles.append(module.register_forward_hook(watch(path, layer)))
        try:
            model(**inputs)
        finally:
            for handle in handles:
                handle.remove()
    return calls


def _block_of(calls: list[_Call], layer: int) -> FeedForward | None:
    """The only block of a layer: the last map that reads what earlier ones computed for it."""
    found = []
    for place, last in enumerate(calls):
        neurons, width = last.read.shape[-1], last.answer.shape[-1]
        earlier = [
            call
            for call in calls[:place]
            if call.read.shape[-1] == width and call.answer.shape[-1] in (neurons, 2 * neurons)
        ]
        orders = [_order(last.read, call.answer) for call in earlier]
        used = [(c.path, o) for c, o in zip(earlier, orders, strict=True) if o is not None]
        if used and len({order for _, order in used}) == 1:
            paths = tuple(path for path, _ in used)
            found.append(FeedForward(last.path, paths, layer, neurons, used[0][1]))
    paths_called = [call.path for call in calls]
    if len(found) != 1 or any(paths_called.count(p) > 1 for p in found[0].inputs):
        return None  # none, or experts, of which a text uses some
    return found[0]


def _order(read: Tensor, rows: Tensor) -> str | None:
    """How rows belong to neurons; None if a neuron reads none of them, or rows of others."""
    if not read.requires_grad:
        return None
    neurons = read.shape[-1]
    chosen = np.random.default_rng(0).permutation(neurons)[: min(WATCHED, neurons // 2 or 1)]
    gradient = torch.autograd.grad(
        read[..., chosen].sum(), rows, retain_graph=True, allow_unused=True
    )[0]
    if gradient is None:
        return None
    reached = set(np.flatnonzero(gradient.flatten(0, -2).abs().sum(dim=0).cpu().numpy()).tolist())
    owners = {
        "each": set(chosen.tolist()),
        "halves": set(itertools.chain(chosen.tolist(), (chosen + neurons).tolist())),
        "pairs": set(itertools.chain((2 * chosen).tolist(), (2 * chosen + 1).tolist())),
    }
    double = rows.shape[-1] == 2 * neurons
    able = ("halves", "pairs") if double else ("each",)
    return next((name for name in able if reached and reached <= owners[name]), None)


def sizes_of(module: nn.Module) -> tuple[str, str, int, int]:
    """Names of a linear map's counts of inputs and outputs, and the dimensions they are along."""
    if is_transposed(module):
        return "nx", "nf", 0, 1
    return "in_features", "out_features", 1, 0
