"""The optimizer of a training run, by its settings."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from brodmann.errors import InputError

MOMENTUM = 0.9  # of SGD, unless set


def make_optimizer(
    groups: Sequence[tuple[float, Sequence[nn.Parameter]]],
    weight_decay: float,
    optimizer: str | None = None,
    momentum: float | None = None,
) -> Any:
    """AdamW, or SGD with momentum, over (learning rate, parameters) groups.

    Biases and norms (all parameters of one dimension) are not decayed. Every group stores its full
    rate under "peak"; the schedule multiplies it.
    """
    made = []
    for rate, parameters in groups:
        for decay, chosen in (
            (weight_decay, [p for p in parameters if p.dim() > 1]),
            (0.0, [p for p in parameters if p.dim() <= 1]),
        ):
            if chosen:
                made.append({"params": chosen, "weight_decay": decay, "lr": rate, "peak": rate})
    if not made:
        raise InputError("nothing to train: every parameter of the model is frozen")
    if optimizer == "sgd":
        return torch.optim.SGD(made, momentum=MOMENTUM if momentum is None else momentum)
    return torch.optim.AdamW(made, betas=(0.9, 0.999), fused=True)
