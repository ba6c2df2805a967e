r"""Remove heads permanently: a smaller, faster model that equals the gated one.

A head owns its rows of $W^Q, W^K, W^V$ (and of its positions) and its columns of $W^O$; all of them
are removed. A layer may lose every head: its attention then adds only the output bias. The removed
heads are recorded in the model's configuration (`removed_heads`), so that a saved model can be
built, cut and loaded again (`load_pruned`; a multi-task model does so by itself).

Reference: Michel et al. 2019, "Are Sixteen Heads Really Better than One?", §4; transformers had
`prune_heads` until its fifth generation.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from torch import Tensor, nn

from brodmann.errors import BrodmannError, InputError
from brodmann.models.backbone import load as backbones
from brodmann.models.backbone.anatomy import (
    REMOVED,
    anatomy_of,
    bare_models,
    every_slot,
    head_shape,
    head_slots,
    removed_heads,
    unwrapped,
)
from brodmann.models.backbone.foreign import NO_CODE, asks_for_code, check_config, reason_of
from brodmann.models.heads.cutting import cut_heads, write_down
from brodmann.models.heads.gates import checked_heads, heads_of_stacks
from brodmann.models.smaller.neurons import cut_neurons_as_configured
from brodmann.results import Head

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel


ModelType = TypeVar("ModelType", bound=nn.Module)


def prune_heads(
    model: ModelType,
    heads: Iterable[Head] | Mapping[int, Iterable[int]] | Mapping[str, Iterable[Head]],
) -> ModelType:
    """Remove `heads`, (layer, head) pairs or {layer: [heads]}, from the model and return it.

    The model itself is changed. Heads keep their original numbers, however many are removed. What
    is left is compared with the gated model on a short input; if the two differ, the model stays
    as it was and InputError says why.
    """
    inner = bare_models(model)
    check_apart(inner)
    shape = head_shape(inner[0])
    if any(head_shape(bare) != shape for bare in inner):
        raise InputError("the model holds encoders of different sizes: prune them one by one")
    asked = checked_heads(heads_of_stacks(inner[0], heads), shape)
    for bare in inner:
        check_removable(bare, asked)
    before = removed_heads(inner[0].config)
    new = [(layer, head) for layer, head in asked if head not in before.get(layer, ())]
    for bare in inner:
        cut_heads(bare, new)
    gone = {layer: sorted(heads) for layer, heads in before.items()}
    for layer, head in new:
        gone[layer] = sorted([*gone.get(layer, []), head])
    written = {str(layer): gone[layer] for layer in sorted(gone)}
    write_down(unwrapped(model), inner, REMOVED, written)
    vars(unwrapped(model)).get("rules", {}).clear()  # of a multi-task model: they no longer hold
    return model


def cut_as_configured(model: Any) -> None:
    """Cut a freshly built bare model to the shape that its configuration records."""
    cut_neurons_as_configured(model)
    gone = removed_heads(model.config)
    heads = [(layer, head) for layer, several in gone.items() for head in several]
    if heads:
        checked_heads(heads, head_shape(model))
        setattr(model.config, REMOVED, {})  # it still has all its heads
        try:
            check_removable(model, heads)
            cut_heads(model, heads)
        finally:
            setattr(model.config, REMOVED, {str(k): v for k, v in gone.items()})


def load_pruned(folder: str | Path, config: "PretrainedConfig | None" = None) -> "PreTrainedModel":
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
    before = getattr(config, "pruned_heads", None)  # as transformers 4 recorded them
    if before and not removed_heads(config):
        setattr(config, REMOVED, {str(layer): sorted(heads) for layer, heads in before.items()})
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
    if len(every_slot(models)) < sum(len(head_slots(one)) for one in models):
        raise InputError(
            "the tasks' paths share layers: heads cannot be removed from one path alone"
        )


def check_removable(model: Any, heads: list[Head]) -> None:
    """Raise InputError if these heads of a bare model cannot be removed."""
    found = anatomy_of(model)
    name = type(model).__name__
    if any(".lora_" in path for path, _ in model.named_parameters()):
        raise InputError(
            f"{name}: it has LoRA adapters, whose rows would stay: merge them first "
            "(`model.merged()`), or use head_gates"
        )
    if found.shares_layers:
        raise InputError(
            f"{name}: its layers share their weights, so a head of one layer "
            "cannot be removed: use head_gates"
        )
    part_of = {layer: one for one in found.attentions for layer in one.layers}
    chosen = set(heads)
    for layer, head in heads:
        part = part_of[layer]
        if part.whole is not None:
            raise InputError(f"{name}: heads cannot be removed ({part.whole}): use head_gates")
        size = part.group
        first = head - head % size
        group = [(layer, other) for other in range(first, first + size)]
        if not chosen.issuperset(group):
            raise InputError(
                f"{name}: {size} heads share their keys and values: remove "
                f"heads {first} to {first + size - 1} of layer {layer} together, or none"
            )
