r"""Remove neurons of feed-forward blocks for good, as `models/heads/removal.py` removes heads.

A neuron owns its rows of $W_1$ (of both maps, if the block is gated) and its column of $W_2$. A
block may lose all of them: it then adds only its bias. The number of neurons that are left is
recorded in the model's configuration (`feed_forward_sizes`), so that a saved model can be built,
cut and loaded again.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from brodmann.errors import InputError
from brodmann.files import Array
from brodmann.models.backbone.anatomy import NEURONS, bare_models, neuron_sizes, unwrapped
from brodmann.models.backbone.feed_forward import FeedForward, feed_forwards, sizes_of
from brodmann.models.heads.cutting import Changes, answer_of_model, is_close, write_down


class EmptiedFeedForward(nn.Module):
    """Replaces W_2 of a block without neurons: only the bias is left."""

    def __init__(self, bias: Tensor) -> None:
        super().__init__()
        self.bias = nn.Parameter(bias)

    def forward(self, states: Tensor) -> Tensor:
        return self.bias.to(states.dtype).expand(*states.shape[:-1], -1)


def cut_neurons(model: nn.Module, kept: Mapping[str, Sequence[Array]]) -> None:
    """Keep only these neurons, masks over those that are left, by the path of W_2.

    `model` is a multi-task model or any transformers model. Each bare model inside has masks of its
    own, which keep equally many. The result is compared with the model whose neurons were only
    silenced; if the two differ, InputError, and nothing is changed.
    """
    inner = bare_models(model)
    changes = Changes()
    try:
        for place, bare in enumerate(inner):
            _cut(bare, {path: masks[place] for path, masks in kept.items()}, changes)
    except BaseException:
        changes.undo()
        raise
    sizes = neuron_sizes(inner[0].config)
    sizes |= {path: int(masks[0].sum()) for path, masks in kept.items()}
    write_down(unwrapped(model), inner, NEURONS, dict(sorted(sizes.items())))
    vars(unwrapped(model)).get("rules", {}).clear()  # of a multi-task model: they no longer hold


def _cut(model: Any, kept: Mapping[str, Array], changes: Changes) -> None:
    blocks = {one.output: one for one in feed_forwards(model)}
    silenced = Changes()
    try:
        for path, mask in kept.items():
            _silence(model.get_submodule(path), mask, silenced)
        expected = answer_of_model(model)
    finally:
        silenced.undo()
    for path, mask in kept.items():
        _cut_block(model, blocks[path], mask, changes)
    if not is_close(answer_of_model(model), expected):
        raise InputError(
            f"{type(model).__name__}: neurons of '{next(iter(kept))}' cannot be removed: the "
            "answers would differ from those without the neurons"
        )


def _silence(output: nn.Module, kept: Array, changes: Changes) -> None:
    """Set the columns of W_2 that go to zero."""
    dimension = sizes_of(output)[2]
    weight = output.get_parameter("weight")
    mask = torch.as_tensor(kept, device=weight.device, dtype=weight.dtype)
    zeroed = weight.detach() * (mask[None, :] if dimension == 1 else mask[:, None])
    changes.set(output, "weight", nn.Parameter(zeroed, requires_grad=weight.requires_grad))


def _cut_block(model: Any, block: FeedForward, kept: Array, changes: Changes) -> None:
    output = model.get_submodule(block.output)
    if not kept.any():
        kept = np.arange(len(kept)) == 0  # a map without rows is no map: one neuron stays, unread
        parent, _, name = block.output.rpartition(".")
        changes.set(model.get_submodule(parent), name, emptied(output))
    else:
        inputs, _, dimension, _ = sizes_of(output)
        changes.shrink(output, "weight", dimension, kept)
        changes.set(output, inputs, int(kept.sum()))
    for path in block.inputs:
        module = model.get_submodule(path)
        _, outputs, _, dimension = sizes_of(module)
        rows = block.rows(kept)
        changes.shrink(module, "weight", dimension, rows)
        if getattr(module, "bias", None) is not None:
            changes.shrink(module, "bias", 0, rows)
        changes.set(module, outputs, int(rows.sum()))


def emptied(output: nn.Module) -> EmptiedFeedForward:
    weight = output.get_parameter("weight")
    bias = getattr(output, "bias", None)
    width = weight.shape[sizes_of(output)[3]]
    return EmptiedFeedForward(weight.new_zeros(width) if bias is None else bias.detach().clone())


def cut_neurons_as_configured(model: Any) -> None:
    """Cut a freshly built bare model to the sizes that its configuration records."""
    sizes = neuron_sizes(model.config)
    if not sizes:
        return
    blocks = {one.output: one for one in feed_forwards(model)}
    changes = Changes()  # never undone: random weights stay at whichever rows
    for path, size in sizes.items():
        if path not in blocks or not 0 <= size <= blocks[path].neurons:
            raise InputError(f"{NEURONS}: the model has no block '{path}' of {size} neurons")
        _cut_block(model, blocks[path], np.arange(blocks[path].neurons) < size, changes)
