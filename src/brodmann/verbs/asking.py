"""What a verb is asked to do: a configuration from a file, a run folder, a dict or an object."""

import copy
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from brodmann.config import Changes, Config, apply_changes, checked_config, load_config
from brodmann.errors import InputError
from brodmann.files import Document
from brodmann.verbs.live_rows import describe_task, with_rows_on_disk

Asked: TypeAlias = str | os.PathLike[str] | Mapping[str, object] | Config
IN_MEMORY = "configuration"  # what messages call settings that come from no file


def settle(asked: Asked, changes: Changes | None = None) -> tuple[Config, Path]:
    """The configuration and the folder that its relative paths start from.

    `asked` is the path of a configuration or of a run folder, or settings as in a configuration,
    whose tasks may be loaded tasks or hold rows in memory; these are written to the run folder.
    `changes` are settings by dotted key: {"training.epochs": 1}.
    """
    if isinstance(asked, Config):
        if changes:
            raise InputError("changes: a Config is complete: pass its file or a dict instead")
        return asked, Path(asked.data_dir or ".")
    if isinstance(asked, Mapping):
        values = _copied(asked)
        apply_changes(values, changes)
        config, base = checked_config(_copied(values), IN_MEMORY, Path())
        on_disk = with_rows_on_disk(values, config)
        return (config, base) if on_disk is values else checked_config(on_disk, IN_MEMORY, Path())
    if not isinstance(asked, str | os.PathLike):
        raise InputError(
            "expected the path of a configuration or run, or settings as a dict, found "
            f"{type(asked).__name__}"
        )
    return load_config(Path(asked), changes)


def _copied(asked: Mapping[str, Any]) -> Document:
    """A copy that may be changed; rows in memory are not copied."""
    values = {key: copy.deepcopy(value) for key, value in asked.items() if key != "tasks"}
    if "tasks" in asked:
        tasks = asked["tasks"]
        if isinstance(tasks, Sequence) and not isinstance(tasks, str):
            tasks = [describe_task(task) for task in tasks]
            tasks = [dict(task) if isinstance(task, Mapping) else task for task in tasks]
        values["tasks"] = tasks
    return values
