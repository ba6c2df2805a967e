"""Find the linear maps that make the queries and values of a model's attention heads.

One small pass is enough, and a model without weights will do: what counts is which map's output the
queries and values are computed from, not a name. Where transformers' attention interface shows
queries, keys and values apart, keys are left out; a map that makes all three at once is included. A
model that computes attention by itself (DeBERTa, MPNet) shows only a softmax over keys, which mixes
queries with keys: there, keys are included.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from brodmann.errors import InputError
from brodmann.models.backbone.probe_inputs import probe_inputs
from brodmann.models.backbone.reach import HeadTensor, depends
from brodmann.models.backbone.traced_attention import TracedAttention
from brodmann.models.backbone.watched_pass import Watcher, layer_of, untouched


def query_value_maps(model: Any) -> list[str]:
    """Paths of the linear maps of queries and values in a bare model, in the order of the pass."""
    failure: Exception | None = None
    for inputs in _inputs(model):
        for traced in (False, True):
            watcher = _Sources(model)
            try:
                # A model without weights is built where every new tensor is without values, too;
                # numbers that models compute in passing must have theirs.
                with (
                    torch.device("cpu"),
                    torch.inference_mode(False),
                    untouched(model),
                    watcher.hooks(),
                    _Softmax(watcher) if traced else watcher.interface(),
                    torch.enable_grad(),
                ):
                    model(**inputs)
            except Exception as error:  # models raise whatever they like about inputs
                failure = failure or error
            else:
                if watcher.found:
                    return list(watcher.found)
    raise InputError(
        f"{type(model).__name__}: no linear maps of queries and values were found: name the "
        "modules to adapt (targets)"
    ) from failure


def _inputs(model: Any) -> list[dict[str, Any]]:
    found = probe_inputs(model)
    first = next(model.parameters())
    if not first.is_meta or "input_ids" not in found[0]:
        return found
    # Without values no model can look for padding: it gets a mask, in the forms that they take.
    tokens = found[0]["input_ids"].shape[1]
    shapes = [(1, 1, tokens, tokens), (1, tokens)]
    masks = [torch.zeros(shape, device=first.device) for shape in shapes]
    return [{**found[0], "attention_mask": mask} for mask in masks]


class _Sources(Watcher):
    """Remembers which linear maps of a layer its queries and values are computed from."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.found: dict[str, None] = {}  # paths, each once

    def attended(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        result: Tensor,
        axis: int,
        extras: dict[str, Any],
    ) -> Tensor:
        self._remember(module, [query, value])
        return result

    def owned_by(self, outputs: list[HeadTensor]) -> list[Any]:
        self._remember(self.inside[-1], [output.tensor for output in outputs])
        return []

    def _remember(self, module: nn.Module, made: Sequence[Tensor]) -> None:
        layer = layer_of(self.paths[module])
        for leaf in self.leaves:
            path = leaf.parameters[0][0].rpartition(".")[0]
            if layer_of(path) == layer and any(depends(one, leaf.tensor) for one in made):
                self.found[path] = None


class _Softmax(TracedAttention):
    """Follows a softmax to its product with the values, without asking how heads are arranged."""

    def _multiplied(self, result: Any) -> Any:
        weights = self.weights
        assert weights is not None
        if isinstance(result, Tensor) and depends(result, weights.tensor):
            self.watcher.owned_by([HeadTensor(result, 0)])
            self.weights = None
        return result
