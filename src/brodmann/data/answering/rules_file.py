"""The rules of a model's tasks as one file, `rules.npz`: arrays, and JSON for the rest."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from brodmann.data.answering.domain import Domain
from brodmann.data.answering.rules import Rules
from brodmann.errors import InputError
from brodmann.files import Array, read_arrays, write_arrays

FILE = "rules.npz"
_NUMBERS = "rules"  # name of the array that holds the JSON text


def write_rules(folder: Path, rules: Mapping[str, Rules]) -> None:
    numbers = {
        name: {"temperature": one.temperature, "thresholds": one.thresholds}
        for name, one in rules.items()
    }
    arrays: dict[str, Array] = {
        _NUMBERS: np.frombuffer(json.dumps(numbers, ensure_ascii=False).encode(), np.uint8)
    }
    for place, one in enumerate(rules.values()):
        if one.surprises is not None:
            arrays[f"{place}.surprises"] = one.surprises
        if one.domain is not None:
            arrays |= {f"{place}.domain.{k}": v for k, v in vars(one.domain).items()}
    write_arrays(folder / FILE, arrays)


def read_rules(folder: Path) -> dict[str, Rules]:
    """The rules in a model's folder; none if it has no such file."""
    path = folder / FILE
    if not path.is_file():
        return {}
    arrays = read_arrays(path)
    try:
        numbers = json.loads(arrays[_NUMBERS].tobytes())
        return {
            name: Rules(
                temperature=float(one["temperature"]),
                thresholds={label: float(value) for label, value in one["thresholds"].items()},
                surprises=arrays.get(f"{place}.surprises"),
                domain=_domain(arrays, f"{place}.domain."),
            )
            for place, (name, one) in enumerate(numbers.items())
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"{path}: damaged ({error!r:.100}): remove it and calibrate again"
        ) from None


def _domain(arrays: Mapping[str, Array], prefix: str) -> Domain | None:
    found = {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
    return Domain(**found) if found else None
