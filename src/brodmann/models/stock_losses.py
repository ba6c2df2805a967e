"""The loss of a stock transformers model on its own labels, one a row instead of the mean."""

from typing import Any

from torch import Tensor
from torch.nn import functional

from brodmann.errors import InputError


def stock_loss(outputs: Any, batch: Any) -> Tensor:
    """Sequence and token classification, regression, question answering, language modelling."""
    if "start_positions" in batch:
        starts = functional.cross_entropy(
            outputs.start_logits.float(), batch["start_positions"], reduction="none"
        )
        ends = functional.cross_entropy(
            outputs.end_logits.float(), batch["end_positions"], reduction="none"
        )
        return (starts + ends) / 2
    if "labels" not in batch or "logits" not in outputs:
        raise InputError(
            "batches hold no labels: add them, or give loss=(outputs, batch) → one loss a row"
        )
    logits: Tensor = outputs.logits.float()
    labels: Tensor = batch["labels"]
    if logits.dim() == 2 and labels.dim() == 2:  # several labels a text
        each = functional.binary_cross_entropy_with_logits(logits, labels.float(), reduction="none")
        return each.mean(dim=1)
    if logits.dim() == 2 and logits.shape[1] == 1:
        return (logits[:, 0] - labels.float()).square()
    if logits.dim() == 2:
        return functional.cross_entropy(logits, labels, reduction="none")
    if _predicts_the_next_token(outputs):
        logits, labels = logits[:, :-1], labels[:, 1:]
    losses = functional.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
    return losses.sum(dim=1) / (labels != -100).sum(dim=1).clamp(min=1)


def _predicts_the_next_token(outputs: Any) -> bool:
    return type(outputs).__name__.startswith("CausalLM")
