"""Entropy of an answer: of one choice among several, or of several yes-or-no answers."""

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def of_choices(logits: "Tensor", real: "Tensor | None" = None) -> "Tensor":
    """H of softmax over the last dimension; choices that are not real are ignored."""
    if real is not None:
        logits = logits.masked_fill(~real, float("-inf"))
    logs = logits.log_softmax(dim=-1)
    return -(logs.exp() * logs.masked_fill(logs == float("-inf"), 0.0)).sum(dim=-1)


def of_yes_or_no(logits: "Tensor") -> "Tensor":
    """H of every sigmoid."""
    from torch.nn import functional

    yes = logits.sigmoid()
    return -(yes * functional.logsigmoid(logits) + (1 - yes) * functional.logsigmoid(-logits))


def uniform(like: "Tensor", choices: "int | Tensor") -> "Tensor":
    """H' = log C, one per item."""
    import torch

    if isinstance(choices, int):
        return torch.full_like(like, math.log(choices))
    return choices.to(like).log()
