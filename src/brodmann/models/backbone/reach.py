"""Find out which attention heads an index of a tensor reaches, by gradients that are exactly zero.

A mask over the heads selects half of them. The gradient of the selected heads' tensors is nonzero
at an index if and only if the index reaches one of them, whatever lies in between (rotary
positions, norms inside a head, reshapes). One mask and its complement per binary digit of the
heads' numbers identify the head in 2·log₂(heads) small backward passes. Only indices that reach
several heads need one pass per head.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from brodmann.files import Array


@dataclass(frozen=True)
class HeadTensor:
    """A tensor of one text whose axis `axis` numbers the heads."""

    tensor: Tensor
    axis: int

    @property
    def heads(self) -> int:
        return int(self.tensor.shape[self.axis])


def reach(
    outputs: Sequence[HeadTensor], leaves: Sequence[Tensor], axes: Sequence[int]
) -> list[Array]:
    """For every leaf, (index along its axis, head): whether the index reaches the head.

    All `outputs` have the same number of heads.
    """
    heads = outputs[0].heads
    sizes = [leaf.shape[axis] for leaf, axis in zip(leaves, axes, strict=True)]
    alone = [np.zeros(size, dtype=int) for size in sizes]
    several = [np.zeros(size, dtype=bool) for size in sizes]
    touched = _touched(outputs, np.ones(heads, dtype=bool), leaves, axes)
    if not any(each.any() for each in touched):
        return [np.zeros((size, heads), dtype=bool) for size in sizes]
    numbers = np.arange(heads)
    for bit in range((heads - 1).bit_length()):
        set_here = (numbers >> bit & 1).astype(bool)
        with_bit = _touched(outputs, set_here, leaves, axes)
        without = _touched(outputs, ~set_here, leaves, axes)
        for place in range(len(leaves)):
            alone[place] |= with_bit[place].astype(int) << bit
            several[place] |= with_bit[place] & without[place]
    found = [np.zeros((size, heads), dtype=bool) for size in sizes]
    for place, matrix in enumerate(found):
        single = touched[place] & ~several[place]
        matrix[np.flatnonzero(single), alone[place][single]] = True
    if any(each.any() for each in several):
        for head in range(heads):
            for place, each in enumerate(_touched(outputs, numbers == head, leaves, axes)):
                found[place][several[place], head] = each[several[place]]
    return found


def keeps_apart(source: HeadTensor, states: Tensor) -> bool:
    """Whether the last dimension of `states` is the heads of `source` side by side, unmixed."""
    heads = source.heads
    if states.shape[-1] % heads:
        return False
    owner = np.arange(states.shape[-1]) // (states.shape[-1] // heads)
    numbers = np.arange(heads)
    sides = [np.ones(heads, dtype=bool)]
    for bit in range((heads - 1).bit_length()):
        set_here = (numbers >> bit & 1).astype(bool)
        sides += [set_here, ~set_here]
    for chosen in sides:
        weights = torch.rand(states.shape, dtype=states.dtype, device=states.device) + 0.5
        weights = weights * torch.as_tensor(chosen[owner], dtype=states.dtype, device=states.device)
        (gradient,) = torch.autograd.grad(
            states, source.tensor, weights, retain_graph=True, allow_unused=True
        )
        if gradient is None or not np.array_equal(_nonzero(gradient, source.axis), chosen):
            return False
    return True


def depends(states: Tensor, leaf: Tensor) -> bool:
    """Whether `states` was computed from `leaf`."""
    if not states.requires_grad:
        return False
    weights = torch.ones_like(states)
    found = torch.autograd.grad(states, leaf, weights, retain_graph=True, allow_unused=True)
    return found[0] is not None


def join_owned(
    first: list[tuple[str, int, Array]], second: list[tuple[str, int, Array]]
) -> list[tuple[str, int, Array]]:
    """Both lists, with the rows of a parameter in both (a fused projection) joined."""
    found = {(path, dimension): matrix for path, dimension, matrix in first}
    for path, dimension, matrix in second:
        before = found.get((path, dimension))
        found[path, dimension] = matrix if before is None else before | matrix
    return [(path, dimension, matrix) for (path, dimension), matrix in found.items()]


def _touched(
    outputs: Sequence[HeadTensor], chosen: Array, leaves: Sequence[Tensor], axes: Sequence[int]
) -> list[Array]:
    """(index,) of every leaf: whether it reaches one of the chosen heads."""
    weights = []
    for output in outputs:
        shape = [1] * output.tensor.dim()
        shape[output.axis] = -1
        tensor = output.tensor
        # Random weights, so that gradients of different tokens cannot cancel.
        own = torch.rand(tensor.shape, dtype=tensor.dtype, device=tensor.device) + 0.5
        own = own * torch.sign(torch.rand(tensor.shape, device=tensor.device) - 0.5).to(own.dtype)
        weights.append(
            own * torch.as_tensor(chosen, dtype=own.dtype, device=own.device).view(shape)
        )
    gradients = torch.autograd.grad(
        [output.tensor for output in outputs],
        leaves,
        weights,
        retain_graph=True,
        allow_unused=True,
    )
    return [
        np.zeros(leaf.shape[axis], dtype=bool) if gradient is None else _nonzero(gradient, axis)
        for leaf, axis, gradient in zip(leaves, axes, gradients, strict=True)
    ]


def _nonzero(gradient: Tensor, axis: int) -> Array:
    """(index,) whether anything along the other dimensions is nonzero."""
    flat = (
        gradient.detach().movedim(axis, 0).flatten(1) if gradient.dim() > 1 else gradient[:, None]
    )
    return np.asarray((flat != 0).any(dim=1).cpu().numpy())
