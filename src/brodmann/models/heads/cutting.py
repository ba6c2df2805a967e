"""Cut heads out of a bare model's parameters, checked on the spot and undone if it does not hold.

The rows and columns to cut are known exactly (`models/backbone/discovery.py`). What cannot be read
off a model is which of its integers count heads (`num_heads`, `all_head_size`, `embed_dim`), since
every family names and uses them differently. Candidates are tried until the cut model gives what
the gated one gives on a short input; if none does, the model is left as it was.
"""

import contextlib
import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import signature
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from brodmann.errors import InputError
from brodmann.models.backbone.anatomy import (
    HeadSlot,
    anatomy_of,
    head_slots,
    is_transposed,
    kept_heads,
)
from brodmann.models.backbone.watched_pass import is_linear, without_hooks
from brodmann.models.heads.gates import head_gates
from brodmann.models.heads.slices import output_columns, output_weight
from brodmann.results import Head

_CLOSE = {torch.float32: 1e-4, torch.float64: 1e-8}  # of the largest output; others: 3e-2


def write_down(model: Any, inner: Sequence[Any], key: str, cut: Any) -> None:
    """Record what was cut in the model's own configurations: other models may share the object."""
    outer = getattr(model, "config", None)
    old = {id(config): config for config in [outer, *(bare.config for bare in inner)] if config}
    own = {number: copy.deepcopy(config) for number, config in old.items()}
    for config in own.values():
        setattr(config, key, cut)
    for module in model.modules():
        if id(vars(module).get("config")) in own:
            module.config = own[id(module.config)]


class Changes:
    """Changes to modules that can be undone."""

    def __init__(self) -> None:
        self.undoing: list[Callable[[], None]] = []

    def set(self, module: nn.Module, name: str, value: Any) -> None:
        before = getattr(module, name)
        self.undoing.append(lambda: setattr(module, name, before))
        setattr(module, name, value)

    def shrink(self, module: nn.Module, name: str, dimension: int, kept: Any) -> None:
        """Keep some indices of a parameter along one dimension."""
        old = getattr(module, name)
        places = torch.as_tensor(np.flatnonzero(kept), device=old.device)
        new = old.detach().index_select(dimension, places).contiguous()
        self.set(module, name, nn.Parameter(new, requires_grad=old.requires_grad))

    def undo(self) -> None:
        while self.undoing:
            self.undoing.pop()()


def cut_heads(model: Any, heads: Sequence[Head]) -> None:
    """Remove heads that the bare model still has; InputError, and no change, if that fails."""
    present = kept_heads(model)
    left = [
        [head for head in of_layer if (layer, head) not in heads]
        for layer, of_layer in enumerate(present)
    ]
    slots = [slot for slot in head_slots(model) if left[slot.layers[0]] != present[slot.layers[0]]]
    if not slots:
        return
    expected = answer_of_model(model, off=heads)
    changes = Changes()
    try:
        counted = []
        for slot in slots:
            before, after = present[slot.layers[0]], left[slot.layers[0]]
            _cut_slot(model, slot, before, after, changes)
            counted.append((slot, len(before), len(after)))
        _adjust_counts(model, counted, expected, changes)
    except BaseException:
        changes.undo()
        raise


def _cut_slot(
    model: Any, slot: HeadSlot, before: list[int], after: list[int], changes: Changes
) -> None:
    for projection in slot.part.projections:
        here = projection.kept(before)
        kept = projection.kept(after)[here]
        owner, _, name = projection.path.rpartition(".")
        module = model.get_submodule(owner)
        changes.shrink(module, name, projection.dimension, kept)
        if is_linear(module) and name == "weight":
            changes.set(module, _size(module, "outputs"), int(kept.sum()))
    _, dimension = output_weight(slot)
    places = [place for place, head in enumerate(before) if head in after]
    kept = np.asarray(output_columns(slot, len(before))[:, places].any(axis=1))
    changes.shrink(slot.output, "weight", dimension, kept)
    changes.set(slot.output, _size(slot.output, "inputs"), int(kept.sum()))
    if "position_bias" in signature(slot.attention.forward).parameters:
        _slice_position_bias(slot, after, changes)
    if not after:
        _empty(model, slot, changes)


def _size(module: nn.Module, which: str) -> str:
    if is_transposed(module):
        return "nf" if which == "outputs" else "nx"
    return "out_features" if which == "outputs" else "in_features"


def _adjust_counts(
    model: Any, counted: list[tuple[HeadSlot, int, int]], expected: Tensor, changes: Changes
) -> None:
    """Set the integers that count heads, by the first way that gives the expected answer."""
    failure = ""
    for choose in (_named_counts, _all_counts, _head_counts, _no_counts):
        tried = Changes()
        for slot, before, after in counted:
            if after:
                for name, value in choose(slot, before, after).items():
                    tried.set(slot.attention, name, value)
        try:
            if is_close(answer_of_model(model), expected):
                changes.undoing += tried.undoing
                return
        except Exception as error:  # shapes that do not fit raise whatever they like
            failure = failure or str(error).split("\n")[0]
        else:
            failure = failure or "its answers would differ from those with the heads switched off"
        tried.undo()
    raise InputError(
        f"{type(model).__name__}: these heads cannot be removed ({failure}): use head_gates"
    )


def _no_counts(_: HeadSlot, __: int, ___: int) -> dict[str, int]:
    return {}


def _head_counts(slot: HeadSlot, before: int, after: int) -> dict[str, int]:
    """Numbers of heads and of key-value heads."""
    found = {}
    group = slot.part.group
    for name, value in _integers(slot.attention).items():
        counts = ("head" in name or "kv" in name) and not any(
            word in name for word in ("dim", "size", "width", "group", "length")
        )
        if counts and value == before:
            found[name] = after
        elif counts and value == before // group:
            found[name] = after // group
    return found


def _widths(slot: HeadSlot, before: int, after: int) -> dict[str, int]:
    """Total widths of all heads, and of all key-value heads."""
    weight, dimension = output_weight(slot)
    width = weight.shape[dimension] // after
    group = slot.part.group
    found = {}
    for name, value in _integers(slot.attention).items():
        if value == before * width:
            found[name] = after * width
        elif value == before // group * width:
            found[name] = after // group * width
    return found


def _named_counts(slot: HeadSlot, before: int, after: int) -> dict[str, int]:
    wide = _widths(slot, before, after)
    named = {name: value for name, value in wide.items() if name in ("all_head_size", "split_size")}
    return _head_counts(slot, before, after) | named


def _all_counts(slot: HeadSlot, before: int, after: int) -> dict[str, int]:
    return _widths(slot, before, after) | _head_counts(slot, before, after)


def _integers(module: nn.Module) -> dict[str, int]:
    return {
        name: value
        for name, value in vars(module).items()
        if type(value) is int and not name.startswith("_") and name != "layer_idx"
    }


def answer_of_model(model: Any, off: Sequence[Head] = ()) -> Tensor:
    """The model's answer to the input that its anatomy was read from, without foreign hooks."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    gates = head_gates(model, off=off) if off else contextlib.nullcontext()
    try:
        with (
            torch.random.fork_rng(),
            torch.inference_mode(False),
            torch.no_grad(),
            without_hooks(model, keep=lambda hook: isinstance(hook, PositionBias)),
            gates,
        ):
            torch.manual_seed(0)
            answer = model(**anatomy_of(model).inputs)
    finally:
        for module, mode in modes:
            module.training = mode
    return _first_tensor(answer)


def _first_tensor(answer: Any) -> Tensor:
    if isinstance(answer, Tensor):
        return answer
    values: Iterator[Any] = iter(answer.values() if isinstance(answer, Mapping) else answer)
    return _first_tensor(next(value for value in values if value is not None))


def is_close(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape:
        return False
    scale = max(float(other.abs().max()), 1e-30)
    tolerance = _CLOSE.get(other.dtype, 3e-2)
    apart = float((one.float() - other.float()).abs().max())
    return math.isfinite(apart) and apart <= tolerance * scale


class PositionBias:
    """Keeps the remaining heads of a position bias that another module computes for all."""

    def __init__(self, heads: int, kept: list[int]) -> None:
        self.heads, self.kept = heads, kept

    def __call__(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        bound = signature(module.forward).bind_partial(*args, **kwargs)
        bias = bound.arguments.get("position_bias")
        if not isinstance(bias, Tensor) or bias.dim() != 4 or bias.shape[1] != self.heads:
            return args, kwargs
        place = list(bound.arguments).index("position_bias")
        if place < len(args):
            return (*args[:place], bias[:, self.kept], *args[place + 1 :]), kwargs
        return args, {**kwargs, "position_bias": bias[:, self.kept]}


def _slice_position_bias(slot: HeadSlot, kept: list[int], changes: Changes) -> None:
    hooks = slot.attention._forward_pre_hooks
    for key, hook in list(hooks.items()):
        if isinstance(hook, PositionBias):  # of an earlier removal
            del hooks[key]
    handle = slot.attention.register_forward_pre_hook(
        PositionBias(slot.part.heads, kept), with_kwargs=True
    )
    changes.undoing.append(handle.remove)


class EmptiedAttention(nn.Module):
    """Replaces a layer's attention when all its heads are removed: only the bias is left."""

    def __init__(
        self, layer: int, output_name: str, output: nn.Module | None, returns: tuple[str, int]
    ) -> None:
        super().__init__()
        self.layer = layer
        self.returns = returns
        self.output_name = output_name
        if output is not None:  # the output projection is part of the attention module
            setattr(self, output_name, output)

    def forward(self, *args: Any, **inputs: Any) -> Any:
        given = [*args, *inputs.values()]
        states = next(value for value in given if isinstance(value, Tensor))
        for memory in given:
            if hasattr(memory, "get_seq_length"):  # a decoder counts the tokens it has read there
                nothing = states.new_zeros(len(states), 0, states.shape[1], 1)
                memory.update(nothing, nothing, self.layer)
        kind, length = self.returns
        answer = self._states(states)
        if kind == "tensor":
            return answer
        whole = [answer, *[None] * (length - 1)]
        return whole if kind == "list" else tuple(whole)

    def _states(self, states: Tensor) -> Tensor:
        output = getattr(self, self.output_name, None)
        if output is None:
            return states.new_zeros(*states.shape[:-1], 0)
        weight = output.weight
        size = weight.shape[1 if is_transposed(output) else 0]
        if output.bias is None:
            return states.new_zeros(*states.shape[:-1], size)
        bias: Tensor = output.bias.expand(*states.shape[:-1], -1)
        return bias


def _empty(model: Any, slot: HeadSlot, changes: Changes) -> None:
    part = slot.part
    if part.returns is None:
        raise InputError(
            f"'{part.path}': what it returns cannot be replaced: keep one of its heads"
        )
    within = part.output.startswith(f"{part.path}.")
    name = part.output.rpartition(".")[2]
    number = getattr(slot.attention, "layer_idx", None)
    layer = slot.layers[0] if number is None else int(number)
    parent, _, last = part.path.rpartition(".")
    emptied = EmptiedAttention(layer, name, slot.output if within else None, part.returns)
    changes.set(model.get_submodule(parent), last, emptied)
