r"""Head gates: temporarily scale or switch off attention heads of any transformers model.

$$\mathrm{MHAtt}(X) = [\xi_1 A_1(X), \dots, \xi_H A_H(X)]\, W^O$$

where $A_h(X)$ is the output of head $h$ and $\xi_h$ its gate: 1 leaves it unchanged, to the bit,
and 0 removes it. A gate acts on the input of the output projection $W^O$, where the outputs of the
heads are concatenated, so it works the same with eager, SDPA, flash and flex attention.

Reference: Michel et al. 2019, "Are Sixteen Heads Really Better than One?", §2.3.
"""

import contextlib
import functools
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ParamSpec, TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from brodmann.errors import InputError
from brodmann.files import Array
from brodmann.models.backbone.anatomy import (
    anatomy_of,
    bare_models,
    head_shape,
    head_slots,
    kept_heads,
)
from brodmann.models.backbone.checkpointing import is_checkpointing
from brodmann.results import Head

Values: TypeAlias = Tensor | Array | Sequence[Sequence[float]]
Gates: TypeAlias = Values | Mapping[str, Values]  # of the whole model, or by stack
HeadsOff: TypeAlias = (
    Iterable[Head] | Mapping[int, Iterable[int]] | Mapping[str, Iterable[Head]]
)  # pairs, by layer or by stack
Inputs = ParamSpec("Inputs")
Found = TypeVar("Found")

# The gates in force on every bare model, outermost first. Only `_through` writes here and restores
# what it found; hooks exist only while a model has an entry.
_in_force: "WeakKeyDictionary[Any, tuple[Tensor, ...]]" = WeakKeyDictionary()


def gates_in_force(model: Any) -> tuple[Tensor, ...]:
    """The gates that apply to the next forward pass of a bare model, outermost first."""
    return _in_force.get(model, ())


@contextlib.contextmanager
def head_gates(
    model: nn.Module, gates: Gates | None = None, *, off: HeadsOff | None = None
) -> Iterator[None]:
    """Apply these gates to every forward pass of `model` inside the block.

    `model` is a multi-task model or any transformers model (or a module built around one), compiled
    or not. `gates` is (layer, head), or (example, layer, head) with one entry per row of the batch;
    a tensor may require gradients. `off` names heads to switch off instead: (layer, head) pairs, or
    {layer: [heads]}. In a model with several stacks, both may be a dict from the name of a stack
    (`bm.anatomy(model).stacks`) to its own gates or heads: {"cross": [(0, 3)]}. Nested gates
    multiply.
    """
    inner = bare_models(model)
    if (gates is None) == (off is None):
        raise InputError("head_gates: pass either gates or off")
    tensors = [_checked(gates if off is None else mask_without(one, off), one) for one in inner]
    with contextlib.ExitStack() as stack:
        for one, tensor in zip(inner, tensors, strict=True):
            stack.enter_context(_through(one, (*gates_in_force(one), tensor)))
        stack.enter_context(without_compilation())
        yield


def gated(
    model: Callable[Inputs, Found], gates: Gates, *args: Inputs.args, **inputs: Inputs.kwargs
) -> Found:
    """Call `model(*args, **inputs)` with gates: the functional form of `head_gates`."""
    with head_gates(cast(nn.Module, model), gates):
        return model(*args, **inputs)


def mask_without(model: Any, heads: HeadsOff) -> Tensor:
    """Gates (layer, head) of a bare model that switch `heads` off and keep the rest."""
    shape = head_shape(model)
    mask = torch.ones(shape)
    for layer, head in checked_heads(heads_of_stacks(model, heads), shape):
        mask[layer, head] = 0.0
    return mask


def checked_heads(heads: Iterable[Any], shape: tuple[int, int]) -> list[Head]:
    """Check (layer, head) pairs or {layer: [heads]} against the model; sort them."""
    if isinstance(heads, dict):
        if not all(isinstance(several, Iterable) for several in heads.values()):
            raise InputError("heads: expected {layer: [heads]}, each layer with a list")
        heads = [(layer, head) for layer, several in heads.items() for head in several]
    found = set()
    for entry in heads:
        try:
            layer, head = (operator.index(number) for number in entry)
        except (TypeError, ValueError):
            raise InputError(f"heads: expected (layer, head) pairs, found {entry!r:.60}") from None
        if not (0 <= layer < shape[0] and 0 <= head < shape[1]):
            raise InputError(
                f"heads: ({layer}, {head}) is outside the model's {shape[0]} layers × "
                f"{shape[1]} heads (counted from 0)"
            )
        found.add((layer, head))
    return sorted(found)


def heads_of_stacks(model: Any, heads: Any) -> Any:
    """Heads named by stack, {"decoder": [(layer, head)]}, with the model's own layer numbers."""
    if not isinstance(heads, dict) or not any(isinstance(name, str) for name in heads):
        return heads
    stacks, across = anatomy_of(model).stacks, head_shape(model)[1]
    found = []
    for name, several in heads.items():
        if name not in stacks:
            raise InputError(
                f"heads: {type(model).__name__} has no stack '{name}': {', '.join(stacks)}"
            )
        own = checked_heads(several, (len(stacks[name]), across))
        found += [(stacks[name][layer], head) for layer, head in own]
    return found


def _gates_of_stacks(model: Any, gates: dict[str, Any]) -> Tensor:
    """Gates of some stacks as gates of the whole model; the other stacks keep theirs at 1."""
    stacks, across = anatomy_of(model).stacks, head_shape(model)[1]
    rows: list[Tensor] = [torch.ones(len(layers), across) for layers in stacks.values()]
    for name, values in gates.items():
        if name not in stacks:
            raise InputError(
                f"gates: {type(model).__name__} has no stack '{name}': {', '.join(stacks)}"
            )
        own = values if isinstance(values, Tensor) else torch.from_numpy(np.asarray(values))
        heads = max(one.heads for one in anatomy_of(model).attentions if one.stack == name)
        if tuple(own.shape) != (len(stacks[name]), heads):
            raise InputError(
                f"gates of stack '{name}' have shape {tuple(own.shape)}: "
                f"expected ({len(stacks[name])}, {heads})"
            )
        rows[list(stacks).index(name)] = torch.nn.functional.pad(
            own.to(torch.float32), (0, across - heads), value=1.0
        )
    return torch.cat(rows)


def _checked(gates: Any, model: Any) -> Tensor:
    if isinstance(gates, dict):
        return _gates_of_stacks(model, gates)
    tensor = gates if isinstance(gates, Tensor) else torch.from_numpy(np.asarray(gates))
    if not tensor.is_floating_point():
        tensor = tensor.to(torch.float32)
    if tensor.dim() not in (2, 3) or tuple(tensor.shape[-2:]) != head_shape(model):
        layers, heads = head_shape(model)
        raise InputError(
            f"gates of shape {tuple(tensor.shape)}: expected ({layers}, {heads}) or "
            f"(examples, {layers}, {heads}) for {type(model).__name__}"
        )
    return tensor


@contextlib.contextmanager
def _through(model: Any, gates: tuple[Tensor, ...]) -> Iterator[None]:
    """Set exactly these gates on a bare model, whatever was in force before."""
    before = gates_in_force(model)
    restore = _nothing if before else _checkpoints_remember(model)
    handles = [] if before else _hooks(model)
    _in_force[model] = gates
    try:
        yield
    finally:
        restore()
        for handle in handles:
            handle.remove()
        if before:
            _in_force[model] = before
        else:
            _in_force.pop(model, None)


def _hooks(model: Any) -> list[Any]:
    kept = kept_heads(model)
    handles = []
    for slot in head_slots(model):
        if _has_gate(slot.gate):  # paths of one encoder share layers: one gate each
            continue
        place = _CallOfLayer(slot.layers)
        hook = functools.partial(_gate, model, kept, place)
        handles.append(slot.gate.register_forward_pre_hook(hook))
        if len(slot.layers) > 1:  # a shared layer counts its calls from the start of every forward
            handles.append(model.register_forward_pre_hook(place.begin))
    return handles


def _has_gate(module: nn.Module) -> bool:
    hooks = module._forward_pre_hooks.values()
    return any(getattr(hook, "func", None) is _gate for hook in hooks)


class _CallOfLayer:
    """The layer of a slot's call: always the same one, or the next of a shared layer."""

    def __init__(self, layers: tuple[int, ...]) -> None:
        self.layers = layers
        self.call = 0

    def begin(self, *_: Any) -> None:
        self.call = 0

    def next(self) -> int:
        layer = self.layers[self.call % len(self.layers)]
        self.call += 1
        return layer


def _gate(
    model: Any, kept: list[list[int]], place: _CallOfLayer, _: nn.Module, args: tuple[Any, ...]
) -> tuple[Any, ...] | None:
    layer = place.next()
    if not kept[layer]:
        return None  # all its heads were removed: there is no output to scale
    states = args[0]
    for gates in gates_in_force(model):
        states = _scaled(states, gates[..., layer, :], kept[layer])
    return (states, *args[1:])


def _scaled(states: Tensor, gates: Tensor, kept: list[int]) -> Tensor:
    """States (..., heads · width) times the gates (head,) or (example, head) of one layer."""
    if len(kept) < gates.shape[-1]:
        gates = gates[..., kept]
    gates = gates.to(device=states.device, dtype=states.dtype)
    if gates.dim() == 2:
        if len(gates) != len(states):
            raise InputError(
                f"gates for {len(gates)} examples, but the batch has {len(states)} rows"
            )
        gates = gates.reshape(len(gates), *[1] * (states.dim() - 2), gates.shape[-1])
    by_head = states.reshape(*states.shape[:-1], len(kept), -1) * gates[..., None]
    return by_head.flatten(-2)


def without_compilation() -> contextlib.AbstractContextManager[Any]:
    """Run uncompiled code while gates are set: compiled code does not see hooks added later."""
    if "torch._dynamo" not in sys.modules:
        return contextlib.nullcontext()
    stance: contextlib.AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
    return stance


def _checkpoints_remember(model: Any) -> Any:
    """Give every checkpoint made now a context that restores the current gates: gradient
    checkpointing recomputes in the backward pass, perhaps after the gates are removed."""
    if not is_checkpointing(model):
        return _nothing
    changed: list[tuple[nn.Module, Any]] = []
    for module in model.modules():
        function = vars(module).get("_gradient_checkpointing_func")
        if function is None:
            continue
        options = dict(getattr(function, "keywords", {}))
        if options.get("use_reentrant", True):
            raise InputError(
                "gates with reentrant gradient checkpointing give wrong gradients: "
                'enable it with {"use_reentrant": False}'
            )
        options["context_fn"] = functools.partial(_contexts, model, options.get("context_fn"))
        inner = functools.partial(getattr(function, "func", function), **options)
        changed.append((module, function))
        module._gradient_checkpointing_func = inner

    def restore() -> None:
        for module, function in changed:
            module._gradient_checkpointing_func = function

    return restore


def _nothing() -> None:
    pass


def _contexts(model: Any, own: Any) -> tuple[Any, Any]:
    """Contexts of one checkpoint, for the first pass and for the recomputation."""
    forward, again = own() if own is not None else (contextlib.nullcontext(),) * 2
    return forward, _Both(again, model, _in_force.get(model, ()))


class _Both:
    """The user's own context for the recomputation, and the gates that were in force."""

    def __init__(self, own: Any, model: Any, gates: tuple[Tensor, ...]) -> None:
        self.own, self.model, self.gates = own, model, gates
        self.stack = contextlib.ExitStack()

    def __enter__(self) -> None:
        self.stack.enter_context(self.own)
        self.stack.enter_context(_through(self.model, self.gates))

    def __exit__(self, *_: object) -> None:
        self.stack.close()
