"""The named parts of a model, each of which may have its own learning rate.

Every model has `backbone` (the pretrained network) and `heads` (output heads), some have `gates`,
and an architecture names its own parts: `PARTS` maps how parameter names start to parts (`*`
stands for anything), and `RATES` says how much faster than the rest a part should learn. Parts that
start at zero or at random need larger steps than pretrained ones.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from torch import nn

from brodmann.errors import InputError, did_you_mean
from brodmann.models.heads.trained_gates import GATE_RATE


def parts_of(model: Any) -> dict[str, list[nn.Parameter]]:
    """Trained parameters by part, in the order in which the model holds them."""
    own: Mapping[str, str] = model.encoder.PARTS
    found: dict[str, list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            found.setdefault(_part(name, own), []).append(parameter)
    return found


def _part(name: str, own: Mapping[str, str]) -> str:
    top, _, rest = name.partition(".")
    if top != "encoder":
        return top  # heads, gates
    return next((part for start, part in own.items() if fnmatchcase(rest, f"{start}*")), "backbone")


def rates_of(
    model: Any, learning_rate: float, given: Mapping[str, float] | None = None
) -> dict[str, float]:
    """The learning rate of every trained part: as given, or a multiple of the common one."""
    parts = parts_of(model)
    factors = {"gates": GATE_RATE, **model.encoder.RATES}
    for name in given or {}:
        if name not in parts:
            known = ", ".join(parts)
            raise InputError(
                f"rates: this model trains no part '{name}'{did_you_mean(name, parts)}: it has "
                f"{known}"
            )
    return {
        part: float((given or {}).get(part, learning_rate * factors.get(part, 1.0)))
        for part in parts
    }
