"""Watch one pass through a model from inside: every call of attention, and where its result goes.

Each linear map's output is cut from what came before, so that gradients reach back to the last
projections only, and those of one attention cost little more than its own operations.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from brodmann.files import Array
from brodmann.models.backbone.anatomy import is_transposed
from brodmann.models.backbone.reach import (
    HeadTensor,
    depends,
    join_owned,
    keeps_apart,
    lies_side_by_side,
    reach,
)
from brodmann.models.backbone.traced_attention import TracedAttention


@dataclass
class Leaf:
    """The output of a linear map, or a parameter: what heads own indices of."""

    parameters: tuple[tuple[str, int], ...]  # (path, dimension that `axis` of the tensor indexes)
    tensor: Tensor
    axis: int
    shared_by_nature: bool = False  # one for all heads is nobody's: the weight of a norm


@dataclass
class Call:
    """One call of attention, as seen from inside."""

    module: str  # path of the module that attends
    result: HeadTensor
    heads: int
    group: int  # query heads per key-value head
    crosses: bool  # reads keys of another sequence
    owned: list[tuple[str, int, Array]]  # (path, dimension, (index, head)) of every projection
    gate: str | None = None  # the module whose input holds the heads side by side
    output: str | None = None  # W^O
    mixed: str | None = None  # a module before W^O that mixes the heads
    before: list[Leaf] = field(default_factory=list)  # computed in the same layer before it
    given: Tensor | None = None  # the result as the model got it


@dataclass
class Seen:
    """What one pass showed."""

    calls: list[Call] = field(default_factory=list)
    order: list[str] = field(default_factory=list)  # paths of modules, as they were first called
    returns: dict[str, Any] = field(
        default_factory=dict
    )  # form of what an attending module returns


def watch_pass(model: Any, inputs: dict[str, Any]) -> Seen:
    """Run `model(**inputs)` once and report every call of attention; leave the model unchanged."""
    for traced in (False, True):
        watcher = Watcher(model)
        with untouched(model), watcher.hooks():
            seeing = TracedAttention(watcher) if traced else watcher.interface()
            with seeing, torch.enable_grad():
                model(**inputs)
        if watcher.seen.calls:
            return watcher.seen
    return watcher.seen


@contextlib.contextmanager
def untouched(model: Any) -> Iterator[None]:
    """Eval mode, no hooks, and no random number taken; everything is put back afterwards."""
    modules = list(model.modules())
    training = [module for module in modules if module.training]
    own = (parameter for module in modules for parameter in module._parameters.values())
    frozen = [p for p in own if p is not None and not p.requires_grad and p.is_floating_point()]
    for module in training:
        module.training = False
    for parameter in frozen:
        parameter.requires_grad_(True)
    try:
        with torch.random.fork_rng(), without_hooks(model):
            torch.manual_seed(0)
            yield
    finally:
        for parameter in frozen:
            parameter.requires_grad_(False)
        for module in training:
            module.training = True


@contextlib.contextmanager
def without_hooks(
    model: nn.Module, keep: Callable[[Any], bool] = lambda hook: False
) -> Iterator[None]:
    """Set aside the forward hooks of every module inside the block, except those to `keep`."""
    names = ("_forward_hooks", "_forward_pre_hooks")
    set_aside = []
    for module in model.modules():
        for name in names:
            before = getattr(module, name)
            if before and not all(keep(hook) for hook in before.values()):
                set_aside.append((module, name, before))
                kept = type(before)((key, hook) for key, hook in before.items() if keep(hook))
                setattr(module, name, kept)
    try:
        yield
    finally:
        for module, name, before in set_aside:
            setattr(module, name, before)


class Watcher:
    """Follows one pass: the leaves since the last attention, and results on their way to W^O."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.paths = {module: path for path, module in model.named_modules()}
        self.seen = Seen()
        self.leaves: list[Leaf] = []
        self.waiting: list[Call] = []  # results that no linear map has consumed yet
        self.inside: list[nn.Module] = []  # modules that are running, outermost first
        self.without_values = next(model.parameters()).is_meta  # only structure can be seen

    @contextlib.contextmanager
    def hooks(self) -> Iterator[None]:
        handles = []
        for module in self.paths:
            handles.append(module.register_forward_pre_hook(self._enter, with_kwargs=True))
            handles.append(module.register_forward_hook(self._leave))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    @contextlib.contextmanager
    def interface(self) -> Iterator[None]:
        """See what goes through transformers' attention interface, whatever the implementation."""
        from transformers.modeling_utils import AttentionInterface

        original = AttentionInterface.get_interface

        def watched(interface: Any, implementation: Any, default: Any) -> Any:
            function = original(interface, implementation, default)

            def attend(
                module: nn.Module, query: Any, key: Any, value: Any, *a: Any, **k: Any
            ) -> Any:
                if module not in self.paths:  # another model, in another thread
                    return function(module, query, key, value, *a, **k)
                with torch.no_grad():
                    result, weights = function(module, query, key, value, *a, **k)
                return self.attended(module, query, key, value, result, 2, k), weights

            return attend

        AttentionInterface.get_interface = watched
        try:
            yield
        finally:
            AttentionInterface.get_interface = original

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
        """Note one attention with (text, head, token, width) tensors; the result to go on with."""
        heads = query.shape[1]
        sinks = [t for t in extras.values() if isinstance(t, Tensor) and t.shape == (heads,)]
        by_head = [HeadTensor(query, 1), *(HeadTensor(sink, 0) for sink in sinks)]
        by_group = [HeadTensor(key, 1), HeadTensor(value, 1)]
        if key.shape[1] == heads:
            by_head, by_group = [*by_head, *by_group], []
        owned = self._owned(module, by_head, 1)
        if by_group:
            owned = join_owned(owned, self._owned(module, by_group, heads // key.shape[1]))
        crosses = key.shape[2] != query.shape[2]
        group = heads // key.shape[1]
        return self.note(self.call(module, HeadTensor(result, axis), group, crosses, owned))

    def note(self, call: Call) -> Tensor:
        """Remember a call, and cut the graph there; the result for the model to go on with."""
        leaf = call.result.tensor.detach().clone().requires_grad_()
        call.result = HeadTensor(leaf, call.result.axis)
        self.seen.calls.append(call)
        self.waiting.append(call)
        call.before, self.leaves = self.leaves, []
        call.given = leaf.clone()
        return call.given

    def call(
        self, module: nn.Module, result: HeadTensor, group: int, crosses: bool, owned: Any
    ) -> Call:
        return Call(self.paths[module], result, result.heads, group, crosses, owned)

    def owned_by(self, outputs: list[HeadTensor]) -> list[tuple[str, int, Array]]:
        return self._owned(self.inside[-1], outputs, 1)

    def _owned(
        self, module: nn.Module, outputs: list[HeadTensor], group: int
    ) -> list[tuple[str, int, Array]]:
        """(path, dimension, (index, head)) of every parameter that reaches the heads."""
        outputs = [output for output in outputs if output.tensor.requires_grad]
        layer = layer_of(self.paths[module])
        leaves = [leaf for leaf in self.leaves if layer_of(leaf.parameters[0][0]) == layer]
        leaves += self._own_parameters(module)
        if not outputs or not leaves or self.without_values:
            return []
        found = reach(outputs, [leaf.tensor for leaf in leaves], [leaf.axis for leaf in leaves])
        return _owned_indices(leaves, found, group)

    def _own_parameters(self, module: nn.Module) -> list[Leaf]:
        """Vectors and tables that the attending module adds or multiplies by itself."""
        prefix = self.paths[module]
        return [
            Leaf(((f"{prefix}.{name}" if prefix else name, axis),), parameter, axis, True)
            for name, parameter in module.named_parameters()
            if parameter.is_floating_point() and not _in_linear(module, name)
            for axis in [_longest_axis(parameter)]
        ]

    def _enter(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        path = self.paths[module]
        self.inside.append(module)
        if path not in self.seen.returns:
            self.seen.order.append(path)
            self.seen.returns[path] = None
        if self.waiting and (not module._modules or is_linear(module)):
            states = args[0] if args else next(iter(kwargs.values()), None)
            if isinstance(states, Tensor) and states.requires_grad:
                for call in list(self.waiting):
                    self._consume(call, module, states, by_position=bool(args))

    def _consume(self, call: Call, module: nn.Module, states: Tensor, by_position: bool) -> None:
        """A module takes the result of an attention: is it W^O, and are the heads side by side?"""
        leaves = self._in_layer(call) if is_linear(module) and not self.without_values else []
        matrices: list[Array] = []
        apart: bool | None
        if self.without_values:
            apart = depends(states, call.result.tensor) or None
        elif call.given is not None and lies_side_by_side(call.given, call.result.axis, states):
            apart, matrices = True, [np.zeros(1, dtype=bool)] * len(leaves)  # reach nothing
        else:
            tensors, axes = [leaf.tensor for leaf in leaves], [leaf.axis for leaf in leaves]
            apart, matrices = keeps_apart(call.result, states, tensors, axes)
        if apart is None:
            return
        apart = apart and by_position
        path = self.paths[module]
        if is_linear(module):
            call.output = path
            call.gate = path if apart else call.gate
            self.waiting.remove(call)
            call.before, call.given = [], None
            if apart:  # projections that multiply the results on their way are the heads', too
                call.owned = join_owned(call.owned, _owned_indices(leaves, matrices, 1))
        elif apart and call.gate is None:
            call.gate = path
        if not apart and call.mixed is None:
            call.mixed = path

    def _in_layer(self, call: Call) -> list[Leaf]:
        """What was computed in the layer of a call, before and after it."""
        layer = layer_of(call.module)
        return [
            leaf
            for leaf in (*call.before, *self.leaves)
            if layer_of(leaf.parameters[0][0]) == layer
        ]

    def _leave(self, module: nn.Module, _: Any, output: Any) -> Any:
        while self.inside and self.inside.pop() is not module:
            pass
        path = self.paths[module]
        if self.seen.calls and self.seen.calls[-1].module == path:
            self.seen.returns[path] = _form_of(output)
        if not is_linear(module) or not isinstance(output, Tensor):
            return None
        leaf = output.detach().requires_grad_()
        parameters = [(f"{path}.weight", 1 if is_transposed(module) else 0)]
        if getattr(module, "bias", None) is not None:
            parameters.append((f"{path}.bias", 0))
        self.leaves.append(Leaf(tuple(parameters), leaf, output.dim() - 1))
        return leaf.clone()  # a model may change it in place


def _owned_indices(
    leaves: list[Leaf], matrices: list[Array], group: int
) -> list[tuple[str, int, Array]]:
    """(path, dimension, (index, head)) of every leaf that reaches some heads."""
    return [
        (path, dimension, np.repeat(matrix, group, axis=1))
        for leaf, matrix in zip(leaves, matrices, strict=True)
        if matrix.any() and not (leaf.shared_by_nature and matrix.all())
        for path, dimension in leaf.parameters
    ]


def is_linear(module: nn.Module) -> bool:
    """Whether a module is one linear map of the last dimension: Linear, or GPT-2's Conv1D."""
    weight = module._parameters.get("weight")
    return weight is not None and weight.dim() == 2 and not isinstance(module, nn.Embedding)


def _in_linear(module: nn.Module, name: str) -> bool:
    inner = module.get_submodule(name.rpartition(".")[0])
    return inner is not module and (is_linear(inner) or isinstance(inner, nn.Embedding))


def _longest_axis(parameter: Tensor) -> int:
    """The first dimension that can hold something of every head."""
    sizes = list(parameter.shape)
    return next((axis for axis, size in enumerate(sizes) if size > 1), 0)


@functools.cache
def layer_of(path: str) -> str:
    """The layer that a module or parameter is in: its path up to the first number."""
    parts = path.split(".")
    numbers = [place for place, part in enumerate(parts) if part.isdigit()]
    return ".".join(parts[: numbers[0] + 1]) if numbers else ""


def _form_of(output: Any) -> Any:
    """How a module returns its states: alone (0), or first in a tuple or list of some length."""
    if isinstance(output, Tensor):
        return "tensor", 1
    if isinstance(output, tuple | list) and type(output) in (tuple, list):
        return type(output).__name__, len(output)
    return None
