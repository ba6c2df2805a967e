"""Check the environment: what is installed, and the command that installs what is missing."""

import importlib.metadata
import importlib.util
import os
import shutil
from pathlib import Path
from typing import Any

from brodmann.files import cache_folder
from brodmann.text import size

CORE = ("torch", "transformers", "tokenizers", "accelerate", "datasets", "safetensors")
EXTRAS = {
    "onnxruntime": "export --to onnx",
    "pandas": "tables",
    "peft": "LoRA",
    "tensorboard": "tracking",
    "wandb": "tracking",
}


def examine() -> dict[str, Any]:
    import torch

    from brodmann.models.backbone.devices import available_devices
    from brodmann.models.backbone.load import MINILM_INSTALL, MINILM_PACKAGE

    checks: list[dict[str, Any]] = []

    def check(name: str, ok: bool, text: str) -> None:
        checks.append({"name": name, "ok": ok, "text": text})

    for name in ("brodmann", *CORE):
        check(name, True, importlib.metadata.version(name))
    found = available_devices()
    best = f"{_named(found[0])} (device = auto; available: {', '.join(found)})"
    check("device", found != ["cpu"], best)
    check("threads", True, f"{torch.get_num_threads()} of {os.cpu_count()} cores")
    check("bf16", *_bf16())
    minilm = importlib.util.find_spec(MINILM_PACKAGE) is not None
    check("builtin:minilm", minilm, "installed" if minilm else MINILM_INSTALL)
    for name, use in EXTRAS.items():
        there = importlib.util.find_spec(name) is not None
        install = f"pip install {name}"
        check(name, there, f"{use}: " + ("installed" if there else install))
    hub = os.environ.get("HF_HUB_OFFLINE", "0") in ("1", "true", "ON", "YES")
    check("hub", not hub, "disabled by HF_HUB_OFFLINE" if hub else "enabled")
    free = shutil.disk_usage(Path.cwd()).free
    check("disk", free > 5e9, f"{size(free)} free in this folder")
    for name, folder in (("cache", cache_folder()), ("hub's cache", _hub_cache())):
        check(name, True, f"{folder} ({size(_size(folder))})")
    return {"checks": checks}


def _named(kind: str) -> str:
    """What people call a device: the name of a GPU."""
    import torch

    if kind in ("cpu", "mps"):
        return "the CPU" if kind == "cpu" else "Apple's GPU"
    return str((torch.cuda if kind == "cuda" else torch.xpu).get_device_name(0))


def _bf16() -> tuple[bool, str]:
    """Whether the CPU multiplies bfloat16 natively; otherwise bf16 is several times slower."""
    from brodmann.models.backbone.devices import choose_device
    from brodmann.models.backbone.precision import fast_bf16

    supported = fast_bf16(choose_device())
    if supported:
        return True, "fast on this machine"
    return False, 'slow on this machine: use precision = "auto"'


def _hub_cache() -> Path:
    from huggingface_hub.constants import HF_HUB_CACHE

    return Path(HF_HUB_CACHE)


def _size(folder: Path) -> int:
    """Bytes of all files; links (the hub's cache is full of them) count once, at their target."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files)
