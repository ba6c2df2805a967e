"""Checkpoints: everything to resume a run bit for bit, in safetensors and JSON, no pickle.

`checkpoints/step-00000120/` holds the model, the optimizer's moments, the random state of every
process, `state.json` with the position in the data, and `checksums.json` with the checksum of each
file; the checksum of the best weights, stored beside it, is in `state.json`. A checkpoint is
written under a temporary name and renamed; the last two are kept in case one is damaged.
"""

import json
import random
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load
from torch import Tensor, nn

from brodmann.files import checksum, damage_in, read_json, whole_folder, write_checksums, write_json
from brodmann.models.backbone.devices import available_devices
from brodmann.models.saving import write_tensors

STATE_FORMAT = 2  # of checkpoints: those of another format are not resumed
BRANCH = "branch"  # folder of checkpoints that other runs may continue from
TENSORS = ("model.safetensors", "optimizer.safetensors")


def random_state() -> dict[str, Tensor]:
    """State of every random generator that a forward pass or a library may draw from."""
    version, words, gauss = random.getstate()
    generator = np.random.get_state(legacy=False)
    state = {
        "torch": torch.get_rng_state(),
        "python": _as_bytes([version, words, gauss]),
        "numpy": _as_bytes(_listed(generator)),
    }
    for kind in available_devices()[:-1]:  # all but the CPU
        state[kind] = getattr(torch, kind).get_rng_state()
    return state


def set_random_state(state: dict[str, Tensor]) -> None:
    torch.set_rng_state(state["torch"])
    version, words, gauss = _from_bytes(state["python"])
    random.setstate((version, tuple(words), gauss))
    numpy_state = _from_bytes(state["numpy"])
    numpy_state["state"]["key"] = np.array(numpy_state["state"]["key"], dtype=np.uint32)
    np.random.set_state(numpy_state)
    for kind in available_devices()[:-1]:
        if kind in state:
            getattr(torch, kind).set_rng_state(state[kind])


def _as_bytes(value: Any) -> Tensor:
    return torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)


def _from_bytes(tensor: Tensor) -> Any:
    return json.loads(bytes(tensor.numpy()).decode())


def _listed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _listed(inner) for key, inner in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value


def optimizer_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The moments by parameter name; parameters that were never updated have none."""
    return {
        f"{name}/{moment}": torch.as_tensor(value)
        for name, parameter in model.named_parameters()
        if parameter in optimizer.state
        for moment, value in optimizer.state[parameter].items()
        if value is not None
    }


def set_optimizer_state(
    model: nn.Module, optimizer: torch.optim.Optimizer, state: dict[str, Tensor]
) -> None:
    parameters = dict(model.named_parameters())
    for key, value in state.items():
        name, _, moment = key.rpartition("/")
        parameter = parameters[name]
        optimizer.state[parameter][moment] = value.to(parameter.device)


def save_checkpoint(
    folder: Path,
    step: int,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    random_states: Iterable[dict[str, Tensor]],
    state: dict[str, Any],
    *,
    keep: int | None,
) -> Path:
    """Write a checkpoint and keep the newest `keep` (None: all)."""
    path = folder / folder_name(step)
    with whole_folder(path) as temporary:
        contents = (dict(model.state_dict()), optimizer_state(model, optimizer))
        files = dict(zip(TENSORS, contents, strict=True))
        for rank, rank_state in enumerate(random_states):
            files[f"random-{rank}.safetensors"] = rank_state
        for name, tensors in files.items():
            write_tensors(temporary / name, tensors)
        write_json(temporary / "state.json", {"step": step, **state})
        write_checksums(temporary)
    for old in [] if keep is None else checkpoint_folders(folder)[:-keep]:
        shutil.rmtree(old)
    return path


@dataclass
class DiskSpace:
    """Disk space, in bytes, for training a model."""

    model: int
    checkpoint: int  # weights, and two moments of the trained ones
    peak: int  # largest size during training


def disk_space(model: nn.Module, keep: int) -> DiskSpace:
    """Disk space for training with the last `keep` checkpoints."""
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    trained = sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad)
    state = weights + 2 * trained
    # Checkpoints kept and the one being written, old and new best weights, the finished model.
    return DiskSpace(weights, state, (keep + 1) * state + 3 * weights)


def folder_name(step: int) -> str:
    return f"step-{step:08d}"


def checkpoint_folders(folder: Path) -> list[Path]:
    """All checkpoints, from the oldest to the newest."""
    return sorted(folder.glob("step-*"))


def clear_checkpoints(folder: Path) -> None:
    """Remove the checkpoints of a finished training; a branch stays for other runs."""
    place = folder / "checkpoints"
    for path in checkpoint_folders(place):
        shutil.rmtree(path)
    for path in place.glob("best-*.safetensors"):
        path.unlink()
    if place.is_dir() and not any(place.iterdir()):
        place.rmdir()


def clear_branches(folder: Path) -> None:
    """Remove branches that no other run needs any more."""
    place = folder / "checkpoints"
    shutil.rmtree(place / BRANCH, ignore_errors=True)
    if place.is_dir() and not any(place.iterdir()):
        place.rmdir()


def newest_checkpoint(folder: Path, warn: Callable[[str], None]) -> Path | None:
    """The newest intact checkpoint; damaged ones are reported and skipped."""
    paths = checkpoint_folders(folder)
    for path in reversed(paths):
        damage = damage_of(path) or _damage_of_best(path)
        if damage is None:
            return path
        then = "training from the beginning" if path is paths[0] else "using the one before it"
        warn(f"checkpoint {path.name} is damaged ({damage}): {then}")
    return None


def damage_of(path: Path) -> str | None:
    """What is wrong with the checkpoint's own files, or None."""
    found = damage_in(path, ("state.json", *TENSORS, "random-0.safetensors"))
    return None if found is None else " ".join(found)


def best_name(step: int) -> str:
    return f"best-{step:08d}.safetensors"


def _damage_of_best(path: Path) -> str | None:
    """What is wrong with the best weights that belong to the checkpoint, or None."""
    best = read_json(path / "state.json")["best"]
    if best is None:
        return None
    name = best_name(best["step"])
    if not (path.parent / name).is_file():
        return f"{name} missing"
    matches = checksum(path.parent / name) == best["checksum"]
    return None if matches else f"{name} does not match its checksum"


def load_tensors(path: Path) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = load(path.read_bytes())
    return tensors


def save_weights(path: Path, model: nn.Module) -> str:
    """Write the weights and return their checksum."""
    write_tensors(path, model.state_dict())
    return checksum(path)
