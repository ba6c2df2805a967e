"""Gradient checkpointing of transformers models, which call it activation checkpointing since
5.23 and warn about the old names."""

from typing import Any


def is_checkpointing(model: Any) -> bool:
    """Whether some of its modules recompute their activations."""
    return any(getattr(module, "gradient_checkpointing", False) for module in model.modules())


def enable_checkpointing(model: Any, options: dict[str, Any]) -> None:
    """Enable it; `options` are those of `torch.utils.checkpoint.checkpoint`."""
    new = getattr(model, "activation_checkpointing_enable", None)
    (new or model.gradient_checkpointing_enable)(options)
