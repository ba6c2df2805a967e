"""Parameters by learning rate: the groups that the optimizer steps over and clips together."""

import math
from typing import Any

from torch import nn

from brodmann.models.parts import parts_of

Groups = list[tuple[float, list[nn.Parameter]]]  # (learning rate, parameters)


def group_parameters(
    model: Any, trained: nn.Module, learning_rate: float, rates: dict[str, float]
) -> Groups:
    """All parameters at the common rate first, then the parts with a rate of their own.

    `trained` is the model, or a module around it with further parameters.
    """
    parts = parts_of(model)
    known = {id(p) for parameters in parts.values() for p in parameters}
    others = [p for p in trained.parameters() if p.requires_grad and id(p) not in known]
    by_rate: dict[float, list[nn.Parameter]] = {learning_rate: others}
    for part, parameters in parts.items():
        by_rate.setdefault(rates[part], []).extend(parameters)
    return list(by_rate.items())


def clip_gradients(groups: Groups, limit: float | None, *, sharded: bool) -> float:
    """Clip each group separately; return the norm of the whole gradient before clipping.

    Otherwise the gradients of millions of weights would decide how a few gates are scaled.
    """
    norms: list[float] = []
    for _, parameters in groups:
        trained = [p for p in parameters if p.grad is not None]
        if trained:
            norm: Any = nn.utils.clip_grad_norm_(trained, math.inf if limit is None else limit)
            norms.append(float(norm.full_tensor() if sharded else norm))
    return math.hypot(*norms)
