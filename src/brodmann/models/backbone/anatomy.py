"""The inside of transformers' models: where their layers, attention heads and projections are.

Methods that reach inside (gates, importance, removal, freezing) are written once against an
`Anatomy`. It is discovered by one small pass through the model (`discovery.py`) and remembered for
all models of the same class and configuration; no family is listed anywhere.

Heads are numbered (layer, head). The layers of a model with several stacks (encoder, decoder and
cross-attention, or a text and a vision tower) are numbered one stack after the other.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from torch import nn

from brodmann.errors import InputError
from brodmann.files import Array

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class Projection:
    """A parameter whose indices along one dimension belong to heads."""

    path: str
    dimension: int
    reach: Array  # (index, head): whether the index is part of the head

    def kept(self, heads: Sequence[int]) -> Array:
        """(index,) whether it stays when only these heads do; what belongs to no head stays."""
        nobody = ~self.reach.any(axis=1)
        return np.asarray(nobody | self.reach[:, list(heads)].any(axis=1))


@dataclass(frozen=True)
class Attention:
    """One module that attends: its heads, and where their outputs meet."""

    path: str
    output: str  # W^O, whose input is the concatenated outputs of the heads
    gate: str  # the module whose input is gated: W^O, or a norm that lies before it
    layers: tuple[int, ...]  # several if layers share their weights, in the order of the calls
    stack: str
    heads: int
    group: int  # query heads that share one key-value head
    projections: tuple[Projection, ...]
    whole: str | None  # why single heads cannot be removed; None if they can
    returns: tuple[str, int] | None  # "tensor", or "tuple" or "list" with its length


@dataclass(frozen=True)
class Anatomy:
    """Paths from a bare model (as AutoModel returns it) to its parts."""

    attentions: tuple[Attention, ...]  # by the first layer that each serves
    stacks: Mapping[str, range]  # name → layers
    embeddings: tuple[str, ...]  # everything with weights before the first layer
    layers: str | None  # the list of layers; None if there are several lists
    classes: Mapping[str, str]  # path → class: another class means another anatomy
    inputs: Mapping[str, Any]  # what the pass that showed it read

    @property
    def shape(self) -> tuple[int, int]:
        """(layers, heads per layer); a layer with fewer heads lacks the last ones."""
        return sum(map(len, self.stacks.values())), max(one.heads for one in self.attentions)

    @property
    def shares_layers(self) -> bool:
        return any(len(one.layers) > 1 for one in self.attentions)

    @property
    def group(self) -> int:
        return max(one.group for one in self.attentions)

    def __str__(self) -> str:
        layers, heads = self.shape
        lines = [f"{layers} layers of up to {heads} attention heads"]
        for name, of_stack in self.stacks.items():
            one = next(a for a in self.attentions if a.layers[0] in of_stack)
            shared = f", {one.group} per key-value head" if one.group > 1 else ""
            first, last = of_stack[0], of_stack[-1]
            lines.append(
                f"{name}: layers {first} to {last}, {one.heads} heads{shared}; "
                f"{one.path} → {one.output}"
            )
        reason = next((one.whole for one in self.attentions if one.whole), None)
        return "\n".join(lines + ([f"heads cannot be removed: {reason}"] if reason else []))


_of_model: "WeakKeyDictionary[Any, Anatomy]" = WeakKeyDictionary()
_of_configuration: dict[tuple[str, str], Anatomy] = {}


def anatomy(model: nn.Module, inputs: Mapping[str, object] | None = None) -> Anatomy:
    """Where the layers and attention heads of any transformers model are.

    `inputs` is what its forward pass needs, if a short text, a picture or a sound is not enough.
    Raises HeadsNotFoundError, with what was found and what is missing, if they cannot be located.
    """
    return anatomy_of(bare_models(model)[0], inputs)


def anatomy_of(model: Any, inputs: Mapping[str, object] | None = None) -> Anatomy:
    """The anatomy of a bare model, from memory if its class and configuration are known."""
    found = _of_model.get(model)
    if found is None:
        key = configuration_key(model)
        found = _of_configuration.get(key)
        if found is None or not _fits(model, found):
            from brodmann.models.backbone.discovery import discover

            found = discover(model, inputs)
            if not next(model.parameters()).is_meta:  # without values, only the structure shows
                _of_configuration[key] = found
        _of_model[model] = found
    return found


def renew_inputs(model: Any, known: Anatomy) -> None:
    """Keep a bare model's anatomy, but for its inputs: the vocabulary has changed."""
    from brodmann.models.backbone.probe_inputs import probe_inputs

    _of_model[model] = replace(known, inputs=probe_inputs(model)[0])


def configuration_key(model: Any) -> tuple[str, str]:
    """The class and the configuration of a bare model, as it was before anything was cut."""
    settings = model.config.to_dict()
    for cut in (REMOVED, NEURONS):
        settings.pop(cut, None)
    return type(model).__qualname__, json.dumps(settings, sort_keys=True, default=str)


def _fits(model: Any, known: Anatomy) -> bool:
    """Whether a remembered anatomy describes this model, which others may have changed."""
    kept = kept_in(known, model.config)
    emptied = {one.path for one in known.attentions if not kept[one.layers[0]]}
    try:
        return all(
            type(unadapted(model.get_submodule(path))).__name__ == name
            for path, name in known.classes.items()
            if not any(path == gone or path.startswith(f"{gone}.") for gone in emptied)
        )
    except AttributeError:
        return False


def unadapted(module: nn.Module) -> nn.Module:
    """The pretrained module inside one that peft put in its place."""
    inner = getattr(module, "base_layer", None)
    return inner if isinstance(inner, nn.Module) else module


def layers_of(model: Any) -> list[nn.Module]:
    """The layers of a bare model with one stack, from the input to the output."""
    found = anatomy_of(model)
    if found.shares_layers:
        raise InputError(
            f"{type(model).__name__}: its layers share one set of weights, so some of them "
            "cannot be treated separately"
        )
    if found.layers is None:
        stacks = ", ".join(found.stacks)
        raise InputError(f"{type(model).__name__}: has several stacks of layers ({stacks})")
    return list(model.get_submodule(found.layers))


class AroundBackbones(nn.Module):
    """A module that lists the transformers models inside it: encoders, and models around them."""

    def paths(self) -> "list[PreTrainedModel]":
        """Every transformers model inside, one per path; paths may share layers."""
        raise NotImplementedError


def bare_models(module: Any) -> list[Any]:
    """The bare transformers models inside any module: its own, or those it is built around."""
    from transformers import PreTrainedModel

    module = unwrapped(module)
    if isinstance(module, AroundBackbones):
        return [path.base_model for path in module.paths()]
    found: list[Any] = []
    seen: set[int] = set()

    def walk(inner: nn.Module) -> None:  # do not descend into a transformers model
        if id(inner) in seen:
            return
        seen.add(id(inner))
        if isinstance(inner, PreTrainedModel):
            found.append(inner)
            return
        for child in inner.children():
            walk(child)

    walk(module)
    if not found:
        raise InputError(f"{type(module).__name__}: contains no transformers model")
    return [model.base_model for model in found]


def unwrapped(module: nn.Module) -> Any:
    """The module inside torch.compile's or a data-parallel wrapper."""
    while True:
        inner = getattr(module, "_orig_mod", None)
        if inner is None and type(module).__name__.endswith("DataParallel"):
            inner = getattr(module, "module", None)
        if not isinstance(inner, nn.Module):
            return module
        module = inner


@dataclass(frozen=True)
class HeadSlot:
    """The modules of one attention in a model, and the layers it serves."""

    attention: nn.Module
    output: nn.Module
    gate: nn.Module
    layers: tuple[int, ...]  # in the order of the calls
    part: Attention


def head_shape(model: Any) -> tuple[int, int]:
    """(layers, heads per layer) as the model was created; removed heads still count."""
    return anatomy_of(model).shape


def head_slots(model: Any) -> list[HeadSlot]:
    """The attentions of a bare model, with the output projections where their heads meet."""
    return [
        HeadSlot(
            model.get_submodule(one.path),
            model.get_submodule(one.output),
            model.get_submodule(one.gate),
            one.layers,
            one,
        )
        for one in anatomy_of(model).attentions
    ]


def every_slot(models: Sequence[Any]) -> list[tuple[Any, HeadSlot]]:
    """(model, slot) of several bare models, each projection once: paths may share layers."""
    found: dict[int, tuple[Any, HeadSlot]] = {}
    for model in models:
        for slot in head_slots(model):
            found.setdefault(id(slot.output), (model, slot))
    return list(found.values())


@dataclass(frozen=True)
class ResidualSlot:
    """A residual of one layer: the module whose output is added, and the norm of the sum."""

    added: nn.Module
    norm: nn.Module


# The two residuals of a layer that normalises after adding: (added module, norm) after the
# attention and after the feed-forward block.
_POST_NORM = (
    (
        ("attention.output.dropout", "attention.output.LayerNorm"),
        ("output.dropout", "output.LayerNorm"),
    ),
    (("attention.dropout", "attention.LayerNorm"), ("output.dropout", "output.LayerNorm")),
)


def residual_slots(model: Any, architecture: str) -> list[tuple[ResidualSlot, ResidualSlot]]:
    """(after attention, after the feed-forward) of every layer of a BERT-like encoder."""
    layers = layers_of(model)
    for form in _POST_NORM:
        if all(has_module(layer, path) for layer in layers for pair in form for path in pair):
            break
    else:
        form = None
    attends = head_slots(model)[0].attention
    if form is None or "rel_embeddings" in signature(attends.forward).parameters:
        raise InputError(
            f"architecture '{architecture}': the layers of {model.config.model_type} are not "
            "built like BERT's (a norm after each residual, masks that are added): use an encoder "
            "such as BERT, RoBERTa, XLM-R, ELECTRA or MPNet"
        )
    return [
        (
            ResidualSlot(*(layer.get_submodule(path) for path in form[0])),
            ResidualSlot(*(layer.get_submodule(path) for path in form[1])),
        )
        for layer in layers
    ]


def has_module(model: nn.Module, path: str) -> bool:
    try:
        model.get_submodule(path)
    except AttributeError:
        return False
    return True


def is_transposed(module: nn.Module) -> bool:
    return type(module).__name__ == "Conv1D"  # GPT-2's linear map, its weight transposed


REMOVED = "removed_heads"  # in a configuration: layer (as text) → heads that were removed
NEURONS = "feed_forward_sizes"  # path of a feed-forward block's last linear map → neurons left


def removed_heads(config: Any) -> dict[int, list[int]]:
    return {int(layer): heads for layer, heads in getattr(config, REMOVED, {}).items()}


def neuron_sizes(config: Any) -> dict[str, int]:
    """The number of neurons left in every feed-forward block that was cut."""
    return dict(getattr(config, NEURONS, None) or {})


def is_cut(config: Any) -> bool:
    """Whether heads or neurons were removed, so that no stock class has the model's shape."""
    return bool(removed_heads(config) or neuron_sizes(config))


def forget_cuts(config: Any) -> None:
    """Turn a configuration into that of the whole model."""
    for key in (REMOVED, NEURONS):
        if hasattr(config, key):
            delattr(config, key)


def kept_heads(model: Any) -> list[list[int]]:
    """The heads that each layer still has, by their original numbers."""
    return kept_in(anatomy_of(model), model.config)


def kept_in(known: Anatomy, config: Any) -> list[list[int]]:
    gone = removed_heads(config)
    heads = {layer: one.heads for one in known.attentions for layer in one.layers}
    return [
        [head for head in range(heads[layer]) if head not in gone.get(layer, ())]
        for layer in sorted(heads)
    ]
