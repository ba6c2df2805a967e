"""Number formats: weights stay in float32; bf16 computes products in bfloat16."""

import contextlib
from typing import Any

import torch

from brodmann.errors import InputError, did_you_mean

PRECISIONS = ("float32", "bf16")


def autocast(device: torch.device, precision: str) -> contextlib.AbstractContextManager[Any]:
    if precision not in PRECISIONS:
        raise InputError(f"unknown precision '{precision}'{did_you_mean(precision, PRECISIONS)}")
    if precision == "float32":
        return contextlib.nullcontext()
    return torch.autocast(device.type, torch.bfloat16)
