"""Recognise attention by what is computed: a softmax over keys, then a product with values.

For models whose attention does not go through transformers' interface (DeBERTa, MPNet, T5, BLOOM,
XLNet and others). Torch's own calls are watched while the model runs.
"""

from typing import Any

import numpy as np
from torch import Tensor
from torch.overrides import TorchFunctionMode

from brodmann.files import Array
from brodmann.models.backbone.reach import HeadTensor, depends, join_owned, reach

_SOFTMAX = {"softmax", "_softmax"}
_PRODUCTS = {"matmul", "bmm", "einsum", "__matmul__", "baddbmm"}
MOST_HEADS = 256  # a longer dimension counts tokens (Longformer's windows)
_WHOLE = "scaled_dot_product_attention"


class TracedAttention(TorchFunctionMode):
    """Reports to the watcher of a pass whatever attends inside the block."""

    def __init__(self, watcher: Any) -> None:
        super().__init__()
        self.watcher = watcher
        self.weights: HeadTensor | None = None  # attention weights that no values have met yet
        self.owned: list[Any] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if name == _WHOLE:
            return self._whole(args, kwargs, result)
        if name in _SOFTMAX and isinstance(result, Tensor):
            return self._weighted(result)
        if name in _PRODUCTS and self.weights is not None:
            return self._multiplied(result)
        return result

    def _whole(self, args: Any, kwargs: Any, result: Tensor) -> Tensor:
        names = ("query", "key", "value")
        given = dict(zip(names, args, strict=False)) | kwargs
        query, key, value = (given[name] for name in names)
        if query.dim() != 4 or not self.watcher.inside:
            return result
        module = self.watcher.inside[-1]
        seen: Tensor = self.watcher.attended(module, query, key, value, result, 1, {})
        return seen

    def _weighted(self, result: Tensor) -> Tensor:
        """A softmax over keys: (head, query, key) or (text, head, query, key), of one text."""
        if result.dim() < 3 or not result.requires_grad:
            return result
        if not 1 < result.shape[-3] <= MOST_HEADS:
            return result
        if result.shape[:-3].numel() != 1:
            return result
        axis = result.dim() - 3
        self.owned = self.watcher.owned_by([HeadTensor(result, axis)])
        leaf = result.detach().clone().requires_grad_()
        self.weights = HeadTensor(leaf, axis)
        self.crosses = result.shape[-1] != result.shape[-2]
        return leaf.clone()

    def _multiplied(self, result: Any) -> Any:
        """A product with the weights: the results of the heads, along one of its dimensions."""
        weights = self.weights
        assert weights is not None
        if not isinstance(result, Tensor) or not depends(result, weights.tensor):
            return result
        for axis, size in enumerate(result.shape):
            if size != weights.heads:
                continue
            (found,) = reach([HeadTensor(result, axis)], [weights.tensor], [weights.axis])
            if np.array_equal(found, np.eye(size, dtype=bool)):
                break
        else:
            return result
        own = self.watcher.owned_by([HeadTensor(result, axis)])
        self.weights = None
        module = self.watcher.inside[-1]
        owned = join_owned(self.owned, own)
        group = _group(owned, weights.heads)
        heads = HeadTensor(result, axis)
        call = self.watcher.call(module, heads, group, self.crosses, owned)
        return self.watcher.note(call)


def _group(owned: list[tuple[str, int, Array]], heads: int) -> int:
    """Neighbouring heads that share keys and values: what whole projections reach."""
    for size in range(2, heads):
        if heads % size:
            continue
        blocks = np.repeat(np.eye(heads // size, dtype=bool), size, axis=1)
        alike = [{row.tobytes() for row in matrix} for _, _, matrix in owned]
        if any(rows == {block.tobytes() for block in blocks} for rows in alike):
            return size
    return 1
