"""The loss of a stock transformers model on its own labels, one per row instead of the mean."""

from typing import Any

from torch import Tensor
from torch.nn import functional

from brodmann.errors import InputError


def stock_loss(outputs: Any, batch: Any, config: Any = None) -> Tensor:
    """One loss per row, for every kind of head, from classification to language modelling."""
    if "start_positions" in batch:
        both = (
            (outputs.start_logits, batch["start_positions"]),
            (outputs.end_logits, batch["end_positions"]),
        )
        first, last = (_place_loss(logits, places) for logits, places in both)
        return (first + last) / 2
    if "labels" not in batch or "logits" not in outputs:
        raise InputError(
            "batches hold no labels: add them, or give loss=(outputs, batch) → one loss per row"
        )
    logits: Tensor = outputs.logits.float()
    labels: Tensor = batch["labels"]
    if logits.dim() == 2:
        return _sequence_loss(logits, labels, getattr(config, "problem_type", None))
    if _predicts_the_next_token(outputs):
        logits, labels = logits[:, :-1], labels[:, 1:]
    losses = functional.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
    return losses.sum(dim=1) / (labels != -100).sum(dim=1).clamp(min=1)


def _sequence_loss(logits: Tensor, labels: Tensor, problem: str | None) -> Tensor:
    """Loss of the problem type that transformers infers if the configuration names none."""
    if problem is None:
        if logits.shape[1] == 1:
            problem = "regression"
        elif labels.is_floating_point():
            problem = "multi_label_classification"
    if problem == "regression":
        return (logits - labels.float().reshape(logits.shape)).square().mean(dim=1)
    if problem == "multi_label_classification":
        each = functional.binary_cross_entropy_with_logits(logits, labels.float(), reduction="none")
        return each.mean(dim=1)
    return functional.cross_entropy(logits, labels.reshape(-1), reduction="none")


def _place_loss(logits: Tensor, places: Tensor) -> Tensor:
    """Loss of a position; a position beyond the text does not count."""
    beyond = logits.shape[1]
    return functional.cross_entropy(
        logits.float(), places.clamp(0, beyond), ignore_index=beyond, reduction="none"
    )


def _predicts_the_next_token(outputs: Any) -> bool:
    return type(outputs).__name__.startswith("CausalLM")
