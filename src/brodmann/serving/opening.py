"""From what a user names to a model that answers: an export without torch, or a run in torch."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from brodmann.data.answering.reader import Reader
from brodmann.errors import InputError
from brodmann.runtime.package_files import DESCRIPTION

if TYPE_CHECKING:
    from brodmann.models.multitask import MultiTaskModel

INNER = ("model", "onnx")  # folders inside a run, which has the better name


class HasFolder(Protocol):
    """A run, as `bm.run` returns it."""

    @property
    def folder(self) -> Path: ...


Servable: TypeAlias = "str | os.PathLike[str] | Reader | MultiTaskModel | HasFolder"
Explaining = Callable[[str, Any, str | None], dict[str, Any]]  # task, input, label → heads


@dataclass(frozen=True)
class Opened:
    """A model that is ready to answer."""

    name: str
    reader: Reader
    explain: Explaining | None = None  # which heads carried an answer
    atlas: dict[str, Any] | None = None  # the owners of the heads, if they were mapped


def opened(model: Servable, device: str = "auto") -> Opened:
    """Open a folder, or take a run, a model or a reader in memory."""
    if isinstance(model, str | os.PathLike):
        return _open_folder(Path(model), device)
    found: Any = model  # a model in torch has neither of these
    if hasattr(found, "read"):
        return Opened("model", found)
    if hasattr(found, "folder"):
        return _open_folder(Path(found.folder), device)
    from brodmann.serving.from_torch import of_model

    return of_model(found, "model")


def is_export(folder: Path) -> bool:
    return (folder / DESCRIPTION).is_file()


def _open_folder(folder: Path, device: str) -> Opened:
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder, expected a run, a model or an export")
    place = folder.resolve()
    name = place.parent.name if place.name in INNER else place.name
    if is_export(folder):
        from brodmann.runtime import load

        return Opened(name, load(folder))
    try:
        from brodmann.serving.from_torch import of_folder
    except ModuleNotFoundError as error:
        raise InputError(
            f"{folder}: no {DESCRIPTION} in it, so it is no export, and a run or model needs "
            f"'{error.name}', which is not installed here: export it where it is"
        ) from None
    return of_folder(folder, name, device)
