"""Settings changed by key, as `--set` and grids do, and which of them decide a result."""

import copy
import tomllib
from pathlib import Path
from typing import Any

from brodmann.data.schema import parse_toml
from brodmann.errors import InputError

# A trained model does not depend on what is measured afterwards, so measuring differently does not
# make another run: a measurement knows its own settings and is made again when they change.
RESULT_DOES_NOT_DEPEND_ON: tuple[str, ...] = ("name", "output", "data_dir", "trackers", "threads")
RESULT_DOES_NOT_DEPEND_ON += ("keep_checkpoints", "map", "dissociation", "grid", "compare")


def apply_override(values: dict[str, Any], override: str) -> None:
    """`training.epochs=1` sets values["training"]["epochs"]; `tasks.0.limit=100` reaches a list."""
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
        # Typed in a shell: relative to where one stands.
        value = str(Path(text.strip("\"'")).expanduser().resolve())
    set_value(values, key, value, override)


def set_value(values: dict[str, Any], key: str, value: Any, override: str) -> None:
    """Set a dotted key; `override` is what was written, for messages.

    A table or list is copied: the next key may reach into it, and it is somebody else's.
    """
    value = copy.deepcopy(value)
    *path, last = key.split(".")
    if not all((*path, last)):
        raise InputError(
            f"--set {override}: '{key}' is not a key, expected for example training.epochs"
        )
    place: Any = values
    for part in path:
        place = (
            _element(place, part, override)
            if isinstance(place, list)
            else place.setdefault(part, {})
        )
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
    if isinstance(element, str):  # a task given by name alone becomes a table that can be added to
        element = place[int(part)] = {"use": element}
    return element
