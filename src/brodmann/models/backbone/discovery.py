r"""Discover where a model's attention heads are: one small pass, watched from inside.

transformers' attention interface shows which module attends with which queries, keys and values.
Models that compute attention by themselves are recognised by what they compute: a softmax over
keys, whose result is multiplied with values. From there,

- $W^O$ is the linear map that consumes the result, and the heads must arrive there side by side;
- a projection's rows belong to the head whose queries, keys or values they reach (`reach.py`).

Everything is established from exact gradients; nothing is taken from names. What cannot be
established is an error that says what was found and what is missing.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from brodmann.errors import HeadsNotFoundError
from brodmann.files import Array
from brodmann.models.backbone.anatomy import Anatomy, Attention, Projection
from brodmann.models.backbone.probe_inputs import probe_inputs
from brodmann.models.backbone.reach import join_owned
from brodmann.models.backbone.watched_pass import Call, Seen, layer_of, watch_pass


def discover(model: Any, inputs: Mapping[str, Any] | None = None) -> Anatomy:
    """The anatomy of a bare model, from one pass over `inputs` or over the smallest it reads."""
    with torch.inference_mode(False):
        seen, read = _watch_first_that_runs(model, inputs)
    check_found(model, seen)
    return _assemble(model, seen, read)


def _watch_first_that_runs(
    model: Any, inputs: Mapping[str, Any] | None
) -> tuple[Seen, dict[str, Any]]:
    candidates = probe_inputs(model) if inputs is None else [dict(inputs)]
    first: Exception | None = None
    for candidate in candidates:
        try:
            return watch_pass(model, candidate), candidate
        except Exception as error:  # models raise whatever they like about inputs
            first = first or error
    read = ", ".join(name for name in candidates[-1] if name != "use_cache")
    raise HeadsNotFoundError(
        f"{type(model).__name__}: its forward pass fails on the smallest input ({read}): "
        f"{first}; pass what it reads: anatomy(model, inputs)"
    ) from first


def check_found(model: Any, seen: Seen) -> None:
    """Raise HeadsNotFoundError, with what was found and what is missing, for heads not located."""
    name = type(model).__name__
    if not seen.calls:
        raise HeadsNotFoundError(
            f"{name}: no attention heads were found: its forward pass neither goes through "
            "transformers' attention interface nor multiplies values with a softmax over keys"
        )
    for call in seen.calls:
        where = f"{name}: attention of {call.heads} heads was found in '{call.module}'"
        if call.output is None:
            raise HeadsNotFoundError(f"{where}, but no linear map takes its result")
        if call.gate is None:
            raise HeadsNotFoundError(
                f"{where}, but '{call.mixed}' mixes the heads before any other module"
            )


def _assemble(model: Any, seen: Seen, inputs: dict[str, Any]) -> Anatomy:
    by_stack: dict[tuple[str, bool], list[Call]] = {}
    for call in seen.calls:
        by_stack.setdefault((_list_of(call.module), call.crosses), []).append(call)
    stacks: dict[str, range] = {}
    layers: dict[str, list[int]] = {}
    stack_of: dict[str, str] = {}
    for key, calls in by_stack.items():
        name = _name_of(key, list(by_stack))
        first = sum(map(len, stacks.values()))
        stacks[name] = range(first, first + len(calls))
        for layer, call in zip(stacks[name], calls, strict=True):
            layers.setdefault(call.module, []).append(layer)
            stack_of.setdefault(call.module, name)
    matrices: dict[bytes, Array] = {}  # layers are alike: each matrix is held once
    calls_of = {call.module: call for call in reversed(seen.calls)}
    attentions = [
        _attention(call, stack_of[path], tuple(layers[path]), seen, matrices)
        for path, call in sorted(calls_of.items(), key=lambda item: layers[item[0]][0])
    ]
    lists = {path for path, _ in by_stack}
    only = lists.pop() if len(lists) == 1 else None
    inner = None if only is None else model.get_submodule(only)
    return Anatomy(
        tuple(attentions),
        stacks,
        _before_layers(model, seen, [path for path, _ in by_stack]),
        only if isinstance(inner, nn.ModuleList) else None,
        _classes(model, attentions),
        inputs,
    )


def _attention(
    call: Call, stack: str, layers: tuple[int, ...], seen: Seen, matrices: dict[bytes, Array]
) -> Attention:
    assert call.output is not None and call.gate is not None
    whole = None
    if call.gate != call.output:
        whole = f"heads are mixed between '{call.gate}' and '{call.output}'"
    projections = tuple(
        Projection(path, dimension, matrices.setdefault(_key(matrix), matrix))
        for path, dimension, matrix in join_owned(call.owned, [])
    )
    return Attention(
        call.module,
        call.output,
        call.gate,
        layers,
        stack,
        call.heads,
        call.group,
        projections,
        whole,
        seen.returns[call.module],
    )


def _key(matrix: Array) -> bytes:
    return repr(matrix.shape).encode() + np.packbits(matrix).tobytes()


def _list_of(path: str) -> str:
    """The list of layers that a module is in, or the module itself if it is in none."""
    return layer_of(path).rpartition(".")[0] or path


def _name_of(key: tuple[str, bool], every: list[tuple[str, bool]]) -> str:
    """A short name of a stack: "encoder", "decoder", "cross", "vision_model"."""

    def short(path: str, crosses: bool) -> str:
        return "cross" if crosses else path.split(".")[0]

    alike = [other for other in every if short(*other) == short(*key)]
    if len(alike) == 1:
        return short(*key)
    return f"{key[0]}.cross" if key[1] else key[0]


def _before_layers(model: Any, seen: Seen, lists: list[str]) -> tuple[str, ...]:
    """The largest modules with weights that run before the first layer and contain none."""
    found: list[str] = []
    for path in seen.order:
        if any(path.startswith(f"{one}.") for one in lists):
            break
        holds_layers = any(one == path or one.startswith(f"{path}.") for one in lists)
        if not path or holds_layers or any(path.startswith(f"{one}.") for one in found):
            continue
        if next(model.get_submodule(path).parameters(), None) is not None:
            found.append(path)
    return tuple(found)


def _classes(model: Any, attentions: list[Attention]) -> dict[str, str]:
    paths = {path for one in attentions for path in (one.path, one.output, one.gate)}
    paths |= {p.path.rpartition(".")[0] for one in attentions for p in one.projections}
    return {path: type(model.get_submodule(path)).__name__ for path in sorted(paths)}
