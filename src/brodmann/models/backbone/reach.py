"""Find out which attention heads an index of a tensor reaches, from gradients of two passes.

The second pass weights head h by 2^h. Multiplying by a power of two is exact in floating point, and
a gradient is linear in its weights. So an index that reaches one head only has exactly 2^h times
its first gradient in the second, whatever lies in between (rotary positions, norms inside a head,
reshapes), and an index that reaches none has two exact zeros. Anything else reaches several heads;
those, and only those, need one pass per head.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from brodmann.files import Array

MOST_CODED = 200  # powers of two of more heads do not fit float32


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
    found = [
        np.zeros((leaf.shape[axis], heads), dtype=bool)
        for leaf, axis in zip(leaves, axes, strict=True)
    ]
    weights = [_random_weights(output.tensor) for output in outputs]
    plain = _gradients(outputs, weights, leaves, torch.ones(heads))
    if all(gradient is None for gradient in plain):
        return found
    middle = heads // 2
    coded = _gradients(outputs, weights, leaves, 2.0 ** (torch.arange(heads) - middle))
    exact = heads <= MOST_CODED and all(o.tensor.dtype != torch.float16 for o in outputs)
    several = []
    for matrix, first, second, axis in zip(found, plain, coded, axes, strict=True):
        head, touched = _single_head(first, second, axis, len(matrix))
        single = touched & (head + middle >= 0) & (head + middle < heads) & exact
        matrix[np.flatnonzero(single), (head + middle)[single].astype(int)] = True
        several.append(touched & ~single)
    if any(each.any() for each in several):
        for number in range(heads):
            alone = torch.zeros(heads)
            alone[number] = 1.0
            gradients = _gradients(outputs, weights, leaves, alone)
            for matrix, each, gradient, axis in zip(found, several, gradients, axes, strict=True):
                if gradient is not None:
                    matrix[each, number] = np.asarray(_by_index(gradient != 0, axis).any(axis=1))[
                        each
                    ]
    return found


def keeps_apart(
    source: HeadTensor, states: Tensor, others: Sequence[Tensor] = (), axes: Sequence[int] = ()
) -> tuple[bool | None, list[Array]]:
    """Whether the last dimension of `states` is the heads of `source` side by side, unmixed.

    None if `states` was not computed from them. The matrices say which heads `others` reach there.
    """
    heads = source.heads
    if states.shape[-1] % heads:
        return (False if depends(states, source.tensor) else None), []
    by_head = HeadTensor(states.reshape(*states.shape[:-1], heads, -1), states.dim() - 1)
    found, *matrices = reach([by_head], [source.tensor, *others], [source.axis, *axes])
    if not found.any():
        return None, []
    return bool(np.array_equal(found, np.eye(heads, dtype=bool))), matrices


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


def _single_head(
    first: Tensor | None, second: Tensor | None, axis: int, size: int
) -> tuple[Array, Array]:
    """(exponent that all ratios of an index share, or nan), (whether the index is touched)."""
    if first is None or second is None:
        return np.full(size, np.nan), np.zeros(size, dtype=bool)
    mantissa, exponent = torch.frexp((second.float() / first.float()).cpu())  # 2^k is 0.5 · 2^(k+1)
    power = torch.where(mantissa == 0.5, exponent.float() - 1, torch.nan)
    here = _by_index((first != 0) | (second != 0), axis)
    powers = _by_index(power, axis)
    touched = np.asarray(here.any(axis=1))
    low = np.where(here, powers, np.inf).min(axis=1)
    high = np.where(here, powers, -np.inf).max(axis=1)
    return np.where(low == high, low, np.nan), touched


def _random_weights(tensor: Tensor) -> Tensor:
    """Random weights of both signs, so that gradients of different tokens cannot cancel."""
    return torch.randn_like(tensor, requires_grad=False)


def _gradients(
    outputs: Sequence[HeadTensor],
    weights: Sequence[Tensor],
    leaves: Sequence[Tensor],
    by_head: Tensor,
) -> tuple[Tensor | None, ...]:
    """Gradients at the leaves of the weighted outputs, each head times its own number."""
    scaled = []
    for output, own in zip(outputs, weights, strict=True):
        shape = [1] * own.dim()
        shape[output.axis] = -1
        scaled.append(own * by_head.to(own.device, own.dtype).view(shape))
    return torch.autograd.grad(
        [output.tensor for output in outputs], leaves, scaled, retain_graph=True, allow_unused=True
    )


def _by_index(values: Tensor, axis: int) -> Array:
    """(index along the axis, everything else)."""
    return np.asarray(values.detach().movedim(axis, 0).reshape(values.shape[axis], -1).cpu())
