"""The device that a model runs on; everything else follows the model.

`auto` is the best one here: an NVIDIA or AMD GPU (cuda), an Intel GPU (xpu), Apple's GPU (mps), or
the CPU. A model is placed once, when it is built or loaded, and every batch goes to its device.
With several processes, each takes the GPU of its number on its machine.
"""

import os
import re

import torch

from brodmann.errors import InputError
from brodmann.models.model_settings import DEVICES

KINDS_OF_GPU = ("cuda", "xpu", "mps")  # in this order of preference


def available_devices() -> list[str]:
    """The kinds of devices of this machine, the best first."""
    there = {
        "cuda": torch.cuda.is_available(),
        "xpu": torch.xpu.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    return [*(kind for kind in KINDS_OF_GPU if there[kind]), "cpu"]


def choose_device(asked: str | torch.device = "auto") -> torch.device:
    """The device of that name; raises InputError, with what is there, if this machine lacks it."""
    if isinstance(asked, torch.device):
        return asked
    if not isinstance(asked, str):
        raise InputError(f"device = {asked!r:.40}: expected auto, cpu, cuda, cuda:1, mps or xpu")
    found = available_devices()
    kind, _, number = (found[0] if asked == "auto" else asked).partition(":")
    if not re.fullmatch(DEVICES, asked):
        raise InputError(f"device = '{asked}': expected auto, cpu, cuda, cuda:1, mps or xpu")
    if kind not in found:
        raise InputError(
            f"device = '{asked}': not available here; found {', '.join(found)}: use "
            f"'{found[0]}' or 'auto'"
        )
    if kind in ("cpu", "mps"):
        return torch.device(kind)
    count = (torch.cuda if kind == "cuda" else torch.xpu).device_count()
    place = int(number or os.environ.get("LOCAL_RANK", "0"))
    if place >= count:
        why = f"device = '{asked}'" if number else f"process {place} of this machine"
        raise InputError(f"{why}: there are only {count} {kind} devices, numbered from 0")
    return torch.device(kind, place)


def wait_for(device: torch.device) -> None:
    """Wait until a device has finished its work: a GPU's calls return before they are done."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
