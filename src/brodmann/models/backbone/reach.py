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
    sizes = [len(matrix) for matrix in found]
    by_leaf = _single_heads(plain, coded, axes, sizes)
    for matrix, (head, touched) in zip(found, by_leaf, strict=True):
        if touched.any():
            single = touched & (head + middle >= 0) & (head + middle < heads) & exact
            matrix[np.flatnonzero(single), (head + middle)[single].astype(int)] = True
            touched = touched & ~single
        several.append(touched)
    if any(each.any() for each in several):
        for number in range(heads):
            alone = torch.zeros(heads)
            alone[number] = 1.0
            gradients = _gradients(outputs, weights, leaves, alone)
            for matrix, each, gradient, axis in zip(found, several, gradients, axes, strict=True):
                if gradient is not None:
                    reached = _by_index(gradient != 0, axis).any(dim=1).cpu().numpy()
                    matrix[each, number] = reached[each]
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


def lies_side_by_side(given: Tensor, axis: int, states: Tensor) -> bool:
    """Whether `states` is the very memory of `given`, unchanged, with the heads side by side.

    Then no gradient is needed to know that nothing has mixed them.
    """
    heads, width = given.shape[axis], given.shape[-1]
    return (
        axis == given.dim() - 2
        and states.shape[-1] == heads * width
        and states.numel() == given.numel()
        and states.data_ptr() == given.data_ptr()
        and states.is_contiguous()
        and given.is_contiguous()
        and given._version == 0  # views share it: nothing was written in place
    )


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


def _single_heads(
    plain: Sequence[Tensor | None],
    coded: Sequence[Tensor | None],
    axes: Sequence[int],
    sizes: Sequence[int],
) -> list[tuple[Array, Array]]:
    """For every leaf: the exponent that all ratios of an index share, or nan; what is touched.

    Leaves of one size, such as queries, keys and values, are compared together.
    """
    found: list[tuple[Array, Array]]
    found = [(np.empty(0), np.zeros(size, dtype=bool)) for size in sizes]  # nothing is touched
    alike: dict[tuple[int, int], list[tuple[int, Tensor, Tensor]]] = {}
    for place, (one, other, axis) in enumerate(zip(plain, coded, axes, strict=True)):
        if one is not None and other is not None:
            before, after = _by_index(one, axis).float(), _by_index(other, axis).float()
            alike.setdefault((before.shape[0], before.shape[1]), []).append((place, before, after))
    for members in alike.values():
        first = torch.stack([before for _, before, _ in members])
        second = torch.stack([after for _, _, after in members])
        mantissa, exponent = torch.frexp((second / first).cpu())  # 2^k is 0.5 · 2^(k+1)
        power = torch.where(mantissa == 0.5, exponent.float() - 1, torch.nan)
        here = ((first != 0) | (second != 0)).cpu()
        low = torch.where(here, power, torch.inf).amin(dim=2)
        high = torch.where(here, power, -torch.inf).amax(dim=2)
        heads = torch.where(low == high, low, torch.nan).numpy()
        touched = here.any(dim=2).numpy()
        for row, (place, _, _) in enumerate(members):
            found[place] = (heads[row], touched[row])
    return found


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


def _by_index(values: Tensor, axis: int) -> Tensor:
    """(index along the axis, everything else)."""
    return values.detach().movedim(axis, 0).reshape(values.shape[axis], -1)
