"""Change settings by key, as `--set` and grids do, and know which of them decide a result."""

import copy
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from brodmann.data.schema import parse_toml
from brodmann.errors import InputError

# A trained model does not depend on what is measured afterwards, so other measuring settings do not
# make another run: each measurement stores its settings and is repeated when they change.
RESULT_DOES_NOT_DEPEND_ON: tuple[str, ...] = ("name", "output", "data_dir", "device", "threads")
RESULT_DOES_NOT_DEPEND_ON += ("trackers", "keep_checkpoints", "map", "dissociation", "grid")
RESULT_DOES_NOT_DEPEND_ON += ("calibrate", "compare", "report")


Changes = Mapping[str, object] | Sequence[str]


def apply_changes(values: dict[str, Any], changes: Changes | None) -> None:
    """Change settings by dotted key: a dict, or texts such as "training.epochs=1"."""
    if isinstance(changes, str):
        raise InputError(f"changes: expected a dict, or a list of texts, found '{changes:.60}'")
    if isinstance(changes, Mapping):
        for key, value in changes.items():
            set_value(values, key, value, f"{key}={value}")
        return
    for override in changes or ():
        apply_override(values, override)


def apply_override(values: dict[str, Any], override: str) -> None:
    """Apply `training.epochs=1` to values["training"]["epochs"]; `tasks.0.limit` indexes a list."""
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise InputError(f"--set {override}: expected key=value, for example training.epochs=1")
    try:
        value = parse_toml(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text  # a bare word is a string
    except ValueError as error:
        raise InputError(f"--set {override:.60}: {error}") from None
    if key == "data_dir":
        # Typed in a shell: relative to the current folder.
        value = str(Path(text.strip("\"'")).expanduser().resolve())
    set_value(values, key, value, override)


def set_value(values: dict[str, Any], key: str, value: Any, override: str) -> None:
    """Set a dotted key; `override` is the text that the user wrote, for messages.

    Tables and lists on the way are copied, so that the caller's originals do not change.
    """
    value = copy.deepcopy(value)
    *path, last = key.split(".")
    if not all((*path, last)):
        raise InputError(
            f"--set {override}: '{key}' is not a key, expected for example training.epochs"
        )
    place: Any = values
    for part in path:
        inner = (
            _element(place, part, override)
            if isinstance(place, list)
            else place.setdefault(part, {})
        )
        if isinstance(inner, dict | list):
            inner = copy.copy(inner)
            place[int(part) if isinstance(place, list) else part] = inner
        place = inner
        if not isinstance(place, dict | list):
            raise InputError(f"--set {override}: '{part}' is not a table")
    if isinstance(place, list):
        _element(place, last, override)
        place[int(last)] = value
    else:
        place[last] = value


def _element(place: list[Any], part: str, override: str) -> Any:
    if not part.isdecimal() or int(part) >= len(place):
        raise InputError(f"--set {override}: '{part}' is not one of the {len(place)} entries")
    element = place[int(part)]
    if isinstance(element, str):  # a task given by name becomes a table that can take keys
        element = place[int(part)] = {"use": element}
    return element
