"""What a finished training leaves in its run folder: a whole model, and no more than is needed.

Optimizer states weigh three times what the model does and serve only to go on with a training, so
they go when it has ended (`keep_checkpoints = true` keeps them). A model whose files are missing or
cut short is made again from the last checkpoint, where there is one.
"""

import shutil
from pathlib import Path
from typing import Any

from brodmann.config import Config
from brodmann.errors import InputError
from brodmann.training.events import Report

# What was measured on a model; it says nothing of one that is trained anew.
MEASURED: tuple[str, ...] = ("metrics.json", "evaluated.npz", "importance.json")
MEASURED += ("dissociation.json", "outcomes.npz")


def has_whole_model(folder: Path, report: Report, *, phase: str = "") -> bool:
    """Whether the run's model is there with all its files.

    A damaged one with a checkpoint (of the last `phase`, where training has several) is to be made
    again; without one, say what to do.
    """
    from brodmann.models.saving import model_damage
    from brodmann.training.checkpoints.checkpoint import checkpoint_folders

    place = folder / "model"
    if not place.is_dir() or not any(place.iterdir()):
        return False
    damage = model_damage(place)
    if damage is None:
        return True
    if not checkpoint_folders(folder / phase / "checkpoints"):
        raise InputError(
            f"{place}: {damage}, and no checkpoint is left to rebuild the model from: restore it, "
            f"or remove {place} and run again, which trains anew"
        )
    text = f"{place}: {damage}: rebuilding the model from its last checkpoint"
    report("note", {"text": text})
    return False


def forget_measurements(folder: Path) -> None:
    """Before a training from the very beginning: results of an earlier model are not its own."""
    from brodmann.training.checkpoints.checkpoint import checkpoint_folders

    if not checkpoint_folders(folder / "checkpoints"):
        for name in MEASURED:
            (folder / name).unlink(missing_ok=True)


def save_finished(
    model: Any, folder: Path, config: Config, *, scores: Any = None, phases: tuple[str, ...] = ("",)
) -> None:
    """The trained model, whole, in place of whatever stands there; then its checkpoints go."""
    from brodmann.models.saving import is_model_folder

    place = folder / "model"
    if place.is_dir() and not is_model_folder(place):
        shutil.rmtree(place)  # damaged, or it would not be trained again
    model.save_pretrained(place, scores=scores)
    tidy(folder, config, phases)


def tidy(folder: Path, config: Config, phases: tuple[str, ...] = ("",)) -> None:
    """Remove what only an unfinished training needs; branches stay for those who go on there."""
    from brodmann.training.checkpoints.checkpoint import clear_checkpoints

    if not config.keep_checkpoints:
        for phase in phases:
            clear_checkpoints(folder / phase)
