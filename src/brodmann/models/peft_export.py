"""Export one task of a LoRA model in peft's own format: the adapter and the task's output head.

The folder (`adapter_model.safetensors`, `adapter_config.json`) is what `PeftModel.from_pretrained`
reads on top of the backbone in its family's `AutoModelFor...` class; no Brodmann is needed. The
backbone itself is not in it, so it is a few megabytes.
"""

import warnings
from pathlib import Path
from typing import Any

import torch

from brodmann.errors import InputError
from brodmann.files import whole_folder, write_json
from brodmann.models.backbone.load import quiet
from brodmann.models.encoders import names_with
from brodmann.models.encoders.lora import peft_options
from brodmann.models.exports import answer_key, own_tokenizer, refuse_foreign, stock_model
from brodmann.models.saving import system_errors

CHANGED = "pooler"  # a part of the backbone that an output head may read in its own way


def export_peft(model: Any, task: str, folder: Path) -> None:
    """Write a folder that peft loads onto the backbone."""
    _check(model, task)
    refuse_foreign(folder)
    stock = stock_model(model, task)  # with merged weights; the adapter replaces what was merged
    slot = model.head_of(task).slot
    adapted = _with_adapter(model, task, stock, slot)
    with whole_folder(folder) as temporary, quiet():
        with system_errors():
            # Without the embeddings: asked whether to add them, peft would look at the hub.
            adapted.save_pretrained(temporary, save_embedding_layers=False)
            (temporary / "README.md").unlink()  # a form with blanks for its author to fill in
            own_tokenizer(model).save_pretrained(temporary)
        key = answer_key(model, task, list(model.tokenizer.model_input_names))
        write_json(
            temporary / "brodmann.json",
            key | {"format": "brodmann peft export", "class": type(stock).__name__},
        )


def _check(model: Any, task: str) -> None:
    if not model.architecture.merges:
        raise InputError(
            f"architecture '{model.settings.architecture}' has no LoRA adapter: --to peft works "
            f"for {names_with('merges')}"
        )
    if model.gates is not None:
        raise InputError(
            "a peft adapter cannot hold the model's own gates: export it --to transformers"
        )
    model.spec(task)


def _with_adapter(model: Any, task: str, stock: Any, slot: str) -> Any:
    """peft's model around the stock one, with the task's adapter beside the pretrained weights."""
    from peft import LoraConfig, get_peft_model

    encoder = model.encoder
    inner = getattr(stock, slot)
    own = [name for name, part in stock.named_children() if name != slot and _has_weights(part)]
    if _has_weights(getattr(inner, CHANGED, None)):
        own.append(CHANGED)
    for path, layer in encoder.adapted().items():
        inner.get_submodule(path).load_state_dict(layer.get_base_layer().state_dict())
    config = LoraConfig(
        **peft_options(encoder.settings, encoder.transposed),
        modules_to_save=own,
    )
    stock.name_or_path = model.settings.backbone
    with warnings.catch_warnings():  # peft asks transformers by a name that it has retired
        warnings.filterwarnings("ignore", ".*gradient_checkpointing", FutureWarning)
        adapted = get_peft_model(stock, config)
    new = getattr(adapted.get_base_model(), slot)
    with torch.no_grad():
        for path, layer in encoder.adapted().items():
            target, name = new.get_submodule(path), encoder.adapter_of(task)
            for part in ("lora_A", "lora_B"):
                getattr(target, part)["default"].weight.copy_(getattr(layer, part)[name].weight)
    return adapted


def _has_weights(part: Any) -> bool:
    return part is not None and next(part.parameters(), None) is not None
