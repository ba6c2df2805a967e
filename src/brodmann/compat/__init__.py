"""Names that code for transformers 4 expects: `head_mask`, `prune_heads` and their helpers.

transformers 5 dropped them. Replace the import (or wrap the model once), and the code runs again;
`docs/head_mask.md` shows each case before and after. The functions follow the documented behaviour
of transformers 4, on top of `brodmann.head_gates` and `brodmann.prune_heads`.
"""

import contextlib
import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from brodmann.errors import InputError
from brodmann.models.backbone.anatomy import anatomy, bare_models, removed_heads
from brodmann.models.heads import removal
from brodmann.models.heads.gates import head_gates

# Arguments of transformers 4 → the stack that they address; None is the model's first stack.
_ARGUMENTS = {"head_mask": None, "decoder_head_mask": "decoder", "cross_attn_head_mask": "cross"}


@contextlib.contextmanager
def head_mask(
    model: nn.Module,
    mask: Any = None,
    *,
    decoder_head_mask: Any = None,
    cross_attn_head_mask: Any = None,
) -> Iterator[None]:
    """Apply a mask of transformers 4 to every forward pass of `model` inside the block.

    A mask is (heads,) for all layers alike or (layers, heads): 1 keeps a head, 0 switches it off.
    As in transformers 4, `mask` addresses the encoder of an encoder-decoder, and the other two its
    decoder; a mask of None changes nothing.
    """
    given = {
        "head_mask": mask,
        "decoder_head_mask": decoder_head_mask,
        "cross_attn_head_mask": cross_attn_head_mask,
    }
    gates = _gates(model, given)
    with head_gates(model, gates) if gates else contextlib.nullcontext():
        yield


def accepts_head_mask(model: Any) -> Any:
    """Let `model(..., head_mask=mask)` work again; the model itself is changed and returned.

    Encoder-decoders also take `decoder_head_mask` and `cross_attn_head_mask`.
    """
    forward = model.forward
    if getattr(forward, "takes_head_mask", False):
        return model

    @functools.wraps(forward)
    def with_mask(*args: Any, **kwargs: Any) -> Any:
        given = {name: kwargs.pop(name, None) for name in _ARGUMENTS}
        gates = _gates(model, given)
        with head_gates(model, gates) if gates else contextlib.nullcontext():
            return forward(*args, **kwargs)

    with_mask.takes_head_mask = True  # type: ignore[attr-defined]
    model.forward = with_mask
    return model


def _gates(model: Any, given: Mapping[str, Any]) -> dict[str, Tensor]:
    """Gates by stack; the masks that are None are left out."""
    if all(mask is None for mask in given.values()):
        return {}
    found = anatomy(model)
    gates = {}
    for argument, mask in given.items():
        if mask is None:
            continue
        name = _ARGUMENTS[argument] or next(iter(found.stacks))
        if name not in found.stacks:
            raise InputError(f"{argument}: {type(model).__name__} has no such attention")
        heads = max(one.heads for one in found.attentions if one.stack == name)
        expected = (len(found.stacks[name]), heads)
        tensor = torch.as_tensor(mask)
        if tensor.dim() == 1:
            tensor = tensor.expand(expected[0], -1)
        if tuple(tensor.shape) != expected:
            raise InputError(
                f"{argument} of shape {tuple(torch.as_tensor(mask).shape)}: expected ({heads},) "
                f"or {expected}"
            )
        gates[name] = tensor.to(torch.float32)
    return gates


def prune_heads(model: Any, heads_to_prune: Mapping[int, Iterable[int]]) -> None:
    """Remove heads, {layer: [heads]}, as `model.prune_heads` did; those already gone are skipped.

    Like there, `config.pruned_heads` records every head that was removed.
    """
    removal.prune_heads(model, {layer: list(heads) for layer, heads in heads_to_prune.items()})
    for bare in bare_models(model):
        gone = removed_heads(bare.config)
        bare.config.pruned_heads = {layer: list(heads) for layer, heads in gone.items()}


def find_pruneable_heads_and_indices(
    heads: Iterable[int], n_heads: int, head_size: int, already_pruned_heads: set[int]
) -> tuple[set[int], Tensor]:
    """(heads that are still to be pruned, indices of the rows or columns to keep).

    `heads` and `already_pruned_heads` have their original numbers; `n_heads` is how many are left.
    """
    asked = set(heads) - already_pruned_heads
    keep = torch.ones(n_heads, head_size, dtype=torch.bool)
    for head in asked:
        keep[head - sum(gone < head for gone in already_pruned_heads)] = False
    return asked, keep.flatten().nonzero().flatten()


def prune_linear_layer(layer: nn.Linear, index: Tensor, dim: int = 0) -> nn.Linear:
    """A new linear layer with the entries `index`: of its outputs (dim 0) or inputs (dim 1)."""
    index = index.to(layer.weight.device)
    weight = layer.weight.detach().index_select(dim, index).clone()
    bias = None if layer.bias is None else layer.bias.detach().clone()
    if bias is not None and dim == 0:
        bias = bias[index]
    outputs, inputs = weight.shape
    new = nn.Linear(inputs, outputs, bias=bias is not None).to(weight.device, weight.dtype)
    _fill(new, weight, bias)
    return new


def prune_conv1d_layer(layer: Any, index: Tensor, dim: int = 1) -> Any:
    """As `prune_linear_layer`, for GPT-2's Conv1D, whose weight is transposed: dim 1 is outputs."""
    from transformers.pytorch_utils import Conv1D

    index = index.to(layer.weight.device)
    weight = layer.weight.detach().index_select(dim, index).clone()
    bias = layer.bias.detach().clone()
    if dim == 1:
        bias = bias[index]
    new = Conv1D(weight.shape[1], weight.shape[0]).to(weight.device, weight.dtype)
    _fill(new, weight, bias)
    return new


def prune_layer(layer: Any, index: Tensor, dim: int | None = None) -> Any:
    """Prune a linear or Conv1D layer; by default its outputs."""
    if isinstance(layer, nn.Linear):
        return prune_linear_layer(layer, index, dim=0 if dim is None else dim)
    if type(layer).__name__ == "Conv1D":
        return prune_conv1d_layer(layer, index, dim=1 if dim is None else dim)
    raise InputError(
        f"cannot prune a layer of class {type(layer).__name__}: only Linear and Conv1D"
    )


def _fill(layer: Any, weight: Tensor, bias: Tensor | None) -> None:
    with torch.no_grad():
        layer.weight.copy_(weight.contiguous())
        if bias is not None:
            layer.bias.copy_(bias.contiguous())
