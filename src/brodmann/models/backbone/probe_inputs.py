"""The smallest input that a bare model reads, for one pass that shows where its parts are."""

import inspect
from itertools import islice
from typing import Any

import torch

from brodmann.errors import InputError

TOKENS = 5  # read by an encoder or a decoder alone
ANSWER_TOKENS = 4  # read by the decoder of an encoder-decoder: another number shows cross-attention
SAMPLES = 2000  # of a waveform, enough for the strides of the usual feature encoders


def probe_inputs(model: Any) -> list[dict[str, Any]]:
    """Inputs to try in turn: the text alone, then with a picture or a sound if it reads both."""
    config = model.config
    takes = set(inspect.signature(model.forward).parameters)
    if "input_ids" not in takes and takes <= {"args", "kwargs", "self"}:
        takes = {"input_ids", "attention_mask", "use_cache"}  # a wrapper around a decoder
    text: dict[str, Any] = {}
    if "input_ids" in takes:
        text["input_ids"] = _tokens(config, TOKENS)
        if "attention_mask" in takes and not next(model.parameters()).is_meta:
            text["attention_mask"] = torch.ones(1, TOKENS, dtype=torch.long)
    if "decoder_input_ids" in takes and getattr(config, "is_encoder_decoder", False):
        text["decoder_input_ids"] = _tokens(config, ANSWER_TOKENS)
    if "bbox" in takes:
        text["bbox"] = torch.zeros(1, TOKENS, getattr(config, "dim_bbox", 4), dtype=torch.long)
    if "use_cache" in takes:
        text["use_cache"] = False
    others: dict[str, Any] = {}
    if "pixel_values" in takes:
        others["pixel_values"] = _picture(getattr(config, "vision_config", config), model)
    if "input_features" in takes:
        others["input_features"] = _spectrum(config, model)
    if "input_values" in takes:
        others["input_values"] = torch.rand(1, SAMPLES, dtype=model.dtype)
    found = [text] if "input_ids" in text else []
    found += [text | {name: value} for name, value in others.items()]
    if not found:
        raise InputError(
            f"{type(model).__name__}: reads neither text, pictures nor sound "
            f"(its main input is '{model.main_input_name}'): pass `inputs`"
        )
    device = next(model.parameters()).device
    return [
        {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in one.items()}
        for one in found
    ]


def _tokens(config: Any, count: int) -> torch.Tensor:
    """Token ids that mean nothing special: neither padding nor any other token with a name."""
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    size = int(getattr(text, "vocab_size", None) or 1000)
    named = {
        value
        for part in (config, text)
        for name, value in part.to_dict().items()
        if name.endswith(("_token_id", "_token_index")) and isinstance(value, int)
    }
    from_middle = (token % size for token in range(size // 2, size // 2 + size))
    usual = list(islice((token for token in from_middle if token not in named), count))
    usual = usual or [0]
    return torch.tensor([[usual[place % len(usual)] for place in range(count)]])


def _picture(config: Any, model: Any) -> torch.Tensor:
    size = getattr(config, "image_size", 224)
    height, width = (size, size) if isinstance(size, int) else tuple(size)[-2:]
    return torch.rand(1, getattr(config, "num_channels", 3), height, width, dtype=model.dtype)


def _spectrum(config: Any, model: Any) -> torch.Tensor:
    settings = config.to_dict()
    bins = int(settings.get("num_mel_bins") or settings.get("input_dim") or 80)
    positions = settings.get("max_source_positions")
    if positions is None:
        return torch.rand(1, 64, bins, dtype=model.dtype)
    return torch.rand(1, bins, 2 * positions, dtype=model.dtype)  # Whisper reads a fixed length
