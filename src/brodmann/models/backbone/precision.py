"""Number formats: weights stay in float32; bf16 computes products in bfloat16.

A CPU without bf16 instructions computes bf16 several times slower than float32, so `auto` is bf16
where it is fast and float32 elsewhere.
"""

import contextlib
from functools import cache
from typing import Any

import torch

from brodmann.errors import InputError, did_you_mean
from brodmann.models.backbone.devices import choose_device
from brodmann.models.model_settings import PRECISIONS

SLOW_BF16 = (
    'this processor has no bf16 instructions: precision = "auto" or "float32" is faster here'
)


def autocast(device: torch.device, precision: str) -> contextlib.AbstractContextManager[Any]:
    if computed_in(precision, device) == "float32":
        return contextlib.nullcontext()
    return torch.autocast(device.type, torch.bfloat16)


def check_precision(precision: str) -> None:
    if precision not in PRECISIONS:
        raise InputError(f"unknown precision '{precision}'{did_you_mean(precision, PRECISIONS)}")


def computed_in(precision: str, device: torch.device | None = None) -> str:
    """What `auto` means on a device, by default the best one here."""
    check_precision(precision)
    if precision != "auto":
        return precision
    return "bf16" if fast_bf16(device or choose_device()) else "float32"


@cache
def fast_bf16(device: torch.device) -> bool:
    """Whether the device has native bfloat16 instructions."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type != "cpu":
        return False
    found = torch.cpu.get_capabilities()
    return any(found.get(name, False) for name in ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16"))
