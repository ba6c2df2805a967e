r"""Remove heads permanently: a smaller, faster model that equals the gated one.

A head owns its rows of $W^Q, W^K, W^V$ (and of its positions) and its columns of $W^O$; all of them
are removed. A layer may lose every head: its attention then adds only the output bias. The removed
heads are recorded in the model's configuration (`removed_heads`), so that a saved model can be
built, cut and loaded again (`load_pruned`; a multi-task model does so by itself).

Reference: Michel et al. 2019, "Are Sixteen Heads Really Better than One?", §4; transformers had
`prune_heads` until its fifth generation.
"""

import copy
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from brodmann.errors import BrodmannError, InputError
from brodmann.models.backbone import anatomy as families
from brodmann.models.backbone import load as backbones
from brodmann.models.backbone.anatomy import Family, HeadSlot
from brodmann.models.backbone.foreign import NO_CODE, asks_for_code, check_config, reason_of
from brodmann.models.heads.gates import checked_heads
from brodmann.models.heads.slices import group_size, is_transposed, owners
from brodmann.results import Head


def prune_heads(model: Any, heads: Iterable[Head]) -> Any:
    """Remove `heads`, (layer, head) pairs or {layer: [heads]}, from the model and return it.

    The model itself is changed. Heads keep their original numbers, however many are removed.
    """
    inner = families.bare_models(model)
    check_apart(inner)
    shape = families.head_shape(inner[0])
    if any(families.head_shape(bare) != shape for bare in inner):
        raise InputError("the model holds encoders of different sizes: prune them one by one")
    asked = checked_heads(heads, shape)
    for bare in inner:
        check_removable(bare, asked)
    before = families.removed_heads(inner[0].config)
    new = [(layer, head) for layer, head in asked if head not in before.get(layer, ())]
    for bare in inner:
        _cut(bare, new)
    gone = {layer: sorted(heads) for layer, heads in before.items()}
    for layer, head in new:
        gone[layer] = sorted([*gone.get(layer, []), head])
    written = {str(layer): gone[layer] for layer in sorted(gone)}
    _write_down(families.unwrapped(model), inner, written)
    return model


def _write_down(model: Any, inner: list[Any], removed: dict[str, list[int]]) -> None:
    """Record removals in the model's own configurations: other models may share the object."""
    outer = getattr(model, "config", None)
    old = {id(config): config for config in [outer, *(bare.config for bare in inner)] if config}
    own = {key: copy.deepcopy(config) for key, config in old.items()}
    for config in own.values():
        setattr(config, families.REMOVED, removed)
    for module in model.modules():
        if id(vars(module).get("config")) in own:
            module.config = own[id(module.config)]


def cut_as_configured(model: Any) -> None:
    """Cut a freshly built bare model to the shape that its configuration records."""
    gone = families.removed_heads(model.config)
    heads = [(layer, head) for layer, several in gone.items() for head in several]
    if heads:
        checked_heads(heads, families.head_shape(model))
        setattr(model.config, families.REMOVED, {})  # it still has all its heads
        try:
            check_removable(model, heads)
            _cut(model, heads)
        finally:
            setattr(model.config, families.REMOVED, {str(k): v for k, v in gone.items()})


def load_pruned(folder: str | Path, config: Any = None) -> Any:
    """Load a plain transformers model that was pruned and written by `save_pretrained`.

    `config` replaces the folder's own, for settings that change no shape.
    """
    folder = Path(folder)
    if not (folder / "config.json").is_file():
        raise InputError(f"{folder}: not a model folder (config.json is missing)")
    try:
        return _filled(folder, config)
    except BrodmannError:
        raise
    except Exception as error:  # transformers and safetensors share no error class
        reason = NO_CODE if asks_for_code(error) else f"damaged ({reason_of(error)})"
        raise InputError(f"{folder}: {reason}") from error


def _filled(folder: Path, config: Any) -> Any:
    """The class that the configuration names, cut to shape, with the stored weights."""
    import transformers
    from safetensors.torch import load_file

    if config is None:
        with backbones.quiet():
            config = transformers.AutoConfig.from_pretrained(str(folder), trust_remote_code=False)
    check_config(config, str(folder))
    names = config.architectures or []
    model_class = getattr(transformers, names[0], None) if names else None
    if not isinstance(model_class, type) or not issubclass(
        model_class, transformers.PreTrainedModel
    ):
        raise InputError(
            f"{folder}: config.json names no transformers class: write it with save_pretrained"
        )
    weights: dict[str, Tensor] = {}
    files = sorted(folder.glob("model*.safetensors"))
    if not files:
        raise InputError(f"{folder}: model.safetensors is missing")
    for file in files:
        weights |= load_file(file)
    with backbones.quiet():
        model = model_class(config)
    cut_as_configured(model.base_model)
    # The stored tensors themselves become the parameters, in the number format they were saved in.
    missing, unexpected = model.load_state_dict(weights, strict=False, assign=True)
    model.tie_weights()
    if (folder / "generation_config.json").is_file():
        # Not `from_pretrained`: it would store an option such as trust_remote_code in the result.
        text = (folder / "generation_config.json").read_text(encoding="utf-8")
        model.generation_config = transformers.GenerationConfig.from_dict(json.loads(text))
    unknown = set(missing) - set(getattr(model, "all_tied_weights_keys", {}) or {})
    if unknown or unexpected:
        name = sorted([*unknown, *unexpected])[0]
        raise InputError(f"{folder}: its weights do not fit {names[0]} ({name})")
    return model.eval()


def check_apart(models: list[Any]) -> None:
    """Raise InputError if tasks' paths share layers: a head cannot be removed from one path."""
    if len(families.every_slot(models)) < sum(len(families.head_slots(one)) for one in models):
        raise InputError(
            "the tasks' paths share layers ('hmnet'): heads cannot be removed from one of them"
        )


def check_removable(model: Any, heads: list[Head]) -> None:
    family = families.family_of(model)
    if family.shared_layers:
        raise InputError(
            f"{type(model).__name__}: its layers share their weights, so a head of one layer "
            "cannot be removed: use head_gates"
        )
    if getattr(model.config, "talking_head", False):
        raise InputError(
            f"{type(model).__name__}: heads that exchange information cannot be removed"
        )
    if family.grouped:
        size = group_size(model)
        chosen = set(heads)
        for layer, head in heads:
            first = head - head % size
            group = [(layer, other) for other in range(first, first + size)]
            if not chosen.issuperset(group):
                raise InputError(
                    f"{type(model).__name__}: {size} heads share their keys and values: remove "
                    f"heads {first} to {first + size - 1} of layer {layer} together, or none"
                )


def _cut(model: Any, heads: list[Head]) -> None:
    family = families.family_of(model)
    present = families.kept_heads(model)
    group = group_size(model)
    for layer, slot in enumerate(families.head_slots(model)):
        gone = {head for place, head in heads if place == layer}
        if not gone:
            continue
        kept = [place for place, head in enumerate(present[layer]) if head not in gone]
        _cut_layer(slot, family, kept, len(present[layer]), group)
        if model.config.model_type == "mpnet":
            left = [head for head in present[layer] if head not in gone]
            _slice_position_bias(slot.attention, left)
        if not kept:
            _empty(model, family, layer)


def _cut_layer(slot: HeadSlot, family: Family, kept: list[int], heads: int, group: int) -> None:
    _keep_inputs(slot.output, _owned("heads", kept, heads, _inputs(slot.output), 1))
    for name, layout in family.projections.items():
        part = getattr(slot.attention, name, None)
        if part is None:  # DeBERTa without relative positions
            continue
        owned = _owned(layout, kept, heads, _rows(part), group)
        if isinstance(part, nn.Parameter):
            _replace(slot.attention, name, part.detach()[owned])
        else:
            _keep_outputs(part, owned)
    if family.counts:
        count, width = family.counts
        whole = getattr(slot.attention, width)
        setattr(slot.attention, count, len(kept))
        setattr(slot.attention, width, whole // heads * len(kept))


def _owned(layout: str, kept: list[int], heads: int, size: int, group: int) -> list[int]:
    """Indices of a projection that belong to the kept heads."""
    shared = group if layout == "groups" else 1
    staying = {head // shared for head in kept}
    owner = owners(layout, heads // shared, size).tolist()
    return [place for place, head in enumerate(owner) if head in staying]


def _rows(part: Any) -> int:
    if isinstance(part, nn.Parameter):
        return len(part)
    return int(part.weight.shape[1 if is_transposed(part) else 0])


def _inputs(module: Any) -> int:
    return int(module.weight.shape[0 if is_transposed(module) else 1])


def _keep_outputs(module: Any, rows: list[int]) -> None:
    conv = is_transposed(module)
    weight = module.weight.detach()
    _replace(module, "weight", weight[:, rows] if conv else weight[rows])
    if module.bias is not None:
        _replace(module, "bias", module.bias.detach()[rows])
    setattr(module, "nf" if conv else "out_features", len(rows))


def _keep_inputs(module: Any, columns: list[int]) -> None:
    conv = is_transposed(module)
    weight = module.weight.detach()
    _replace(module, "weight", weight[columns] if conv else weight[:, columns])
    setattr(module, "nx" if conv else "in_features", len(columns))


def _replace(module: Any, name: str, value: Tensor) -> None:
    asked = getattr(module, name).requires_grad
    setattr(module, name, nn.Parameter(value.clone().contiguous(), requires_grad=asked))


class _PositionBias:
    """MPNet computes one position bias for all heads and passes it to every layer."""

    def __init__(self, kept: list[int]) -> None:
        self.kept = kept

    def __call__(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if len(args) > 2 and args[2] is not None:
            args = (*args[:2], args[2][:, self.kept], *args[3:])
        elif kwargs.get("position_bias") is not None:
            kwargs = {**kwargs, "position_bias": kwargs["position_bias"][:, self.kept]}
        return args, kwargs


def _slice_position_bias(attention: nn.Module, kept: list[int]) -> None:
    for key, hook in list(attention._forward_pre_hooks.items()):
        if isinstance(hook, _PositionBias):
            del attention._forward_pre_hooks[key]
    attention.register_forward_pre_hook(_PositionBias(kept), with_kwargs=True)


class EmptiedAttention(nn.Module):
    """Replaces a layer's attention when all its heads are removed: only the bias is left."""

    def __init__(
        self, layer: int, output_name: str, output: nn.Module | None, returns: type = tuple
    ) -> None:
        super().__init__()
        self.layer = layer
        self.returns = returns
        self.output_name = output_name
        if output is not None:  # the output projection is part of the attention module
            setattr(self, output_name, output)

    def forward(
        self, hidden_states: Tensor, past_key_values: Any = None, *_: Any, **__: Any
    ) -> Any:
        states = hidden_states  # the keyword that families use
        if hasattr(past_key_values, "update"):  # a decoder counts the tokens it has read there
            nothing = states.new_zeros(len(states), 0, states.shape[1], 1)
            past_key_values.update(nothing, nothing, self.layer)
        output = getattr(self, self.output_name, None)
        if output is None:
            return self.returns((states.new_zeros(*states.shape[:-1], 0), None))
        if output.bias is None:
            return self.returns((torch.zeros_like(states), None))
        return self.returns((output.bias.expand(*states.shape[:-1], -1), None))


def _empty(model: Any, family: Family, layer: int) -> None:
    module = families.layers_of(model)[layer]
    inside, _, name = family.output.rpartition(".")
    within = module.get_submodule(family.output) if inside == family.attention else None
    parent, _, last = family.attention.rpartition(".")
    returns = list if model.config.model_type == "openai-gpt" else tuple
    setattr(module.get_submodule(parent), last, EmptiedAttention(layer, name, within, returns))


def with_zeroed_heads(model: Any) -> Any:
    """A copy of a pruned bare model at full size, with zeros in place of the removed heads."""
    config = copy.deepcopy(model.config)
    delattr(config, families.REMOVED)
    full = backbones.build_bare(config, None, seed=0)
    whole, cut = full.state_dict(), model.state_dict()
    for name, value in cut.items():
        if whole[name].shape == value.shape:
            whole[name] = value.clone()
    family, group = families.family_of(full), group_size(full)
    heads = families.head_shape(full)[1]
    names = {module: name for name, module in full.named_modules()}
    for layer, slot in enumerate(families.head_slots(full)):
        kept = families.kept_heads(model)[layer]
        if len(kept) == heads:
            continue
        output = f"{names[slot.output]}.weight"
        columns = _owned("heads", kept, heads, _inputs(slot.output), 1)
        whole[output] = torch.zeros_like(whole[output])
        if is_transposed(slot.output):
            whole[output][columns] = cut[output]
        else:
            whole[output][:, columns] = cut[output]
        for part, layout in family.projections.items():
            module = getattr(slot.attention, part, None)
            if module is None:
                continue
            rows = _owned(layout, kept, heads, _rows(module), group)
            prefix = f"{names[slot.attention]}.{part}"
            for name in (prefix, f"{prefix}.weight", f"{prefix}.bias"):
                if name not in whole:
                    continue
                whole[name] = torch.zeros_like(whole[name])
                if name in cut and is_transposed(module) and name.endswith("weight"):
                    whole[name][:, rows] = cut[name]
                elif name in cut:
                    whole[name][rows] = cut[name]
    full.load_state_dict(whole)
    return full.eval()
