"""Clean up after training: keep an intact model and no more files than needed.

Optimizer states are three times the size of the model and only serve to resume a training, so they
are removed when it has ended (`keep_checkpoints = true` keeps them). A model whose files are
missing or truncated is rebuilt from the last checkpoint, if there is one.
"""

import shutil
from pathlib import Path
from typing import Any

from brodmann.config import Config
from brodmann.errors import InputError
from brodmann.training.events import Report

# Measurements of a model; they say nothing about one that is trained again.
MEASURED: tuple[str, ...] = ("metrics.json", "evaluated.npz", "calibration.json")
MEASURED += ("importance.json", "dissociation.json", "outcomes.npz")


def has_whole_model(folder: Path, report: Report, *, phase: str = "") -> bool:
    """Whether the run's model exists with all its files.

    A damaged one with a checkpoint (of the last `phase`, if training has several) has to be
    rebuilt; without a checkpoint, an InputError says what to do.
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
            f"or remove {place} and run again to train from the beginning"
        )
    text = f"{place}: {damage}: rebuilding the model from its last checkpoint"
    report("note", {"text": text})
    return False


def forget_measurements(folder: Path) -> None:
    """Remove the results of an earlier model before training from the beginning."""
    from brodmann.training.checkpoints.checkpoint import checkpoint_folders

    if not checkpoint_folders(folder / "checkpoints"):
        for name in MEASURED:
            (folder / name).unlink(missing_ok=True)


def save_finished(
    model: Any, folder: Path, config: Config, *, scores: Any = None, phases: tuple[str, ...] = ("",)
) -> None:
    """Replace whatever is in its place with the trained model; then remove its checkpoints."""
    from brodmann.models.saving import is_model_folder

    place = folder / "model"
    if place.is_dir() and not is_model_folder(place):
        shutil.rmtree(place)  # it is damaged, otherwise there would be no training
    model.save_pretrained(place, scores=scores)
    tidy(folder, config, phases)


def tidy(folder: Path, config: Config, phases: tuple[str, ...] = ("",)) -> None:
    """Remove files that only an unfinished training needs; branches stay for other runs."""
    from brodmann.training.checkpoints.checkpoint import clear_checkpoints

    if not config.keep_checkpoints:
        for phase in phases:
            clear_checkpoints(folder / phase)
