"""Shared parts of readers: the cells of a grid by pair and by case, in the paper's units."""

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from brodmann.errors import InputError
from brodmann.files import Array, read_log
from brodmann.results import mean_dissociation

SPREAD = "± seeds"  # a column: the standard deviation over seeds of the average or D before it
PLUS_MINUS, P_VALUE = " ±", " p"  # "mnli ±" and "mnli p" belong to the column "mnli": its standard
# deviation over seeds (percentage points), and the p of its difference to the table's baseline


def finished(grid: dict[str, Any]) -> list[dict[str, Any]]:
    cells = [cell for cell in grid["cells"] if cell["state"] == "done"]
    if not cells:
        raise InputError("no cell of the grid is finished")
    return cells


def pairs_of(grid: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for cell in finished(grid):
        found.setdefault("+".join(cell["varied"]["tasks"]), []).append(cell)
    return found


def cases_of(grid: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for cell in finished(grid):
        name = ", ".join(f"{k.rpartition('.')[2]}={v}" for k, v in apart(cell["varied"]).items())
        title = grid.get("titles", {}).get(case_key(cell["varied"]), name or "as configured")
        found.setdefault(title, []).append(cell)
    return found


def apart(varied: dict[str, Any]) -> dict[str, Any]:
    """Settings that distinguish a case: all except the tasks and the seed."""
    return {key: value for key, value in varied.items() if key not in ("seed", "tasks")}


def case_key(varied: dict[str, Any]) -> str:
    return json.dumps(apart(varied), sort_keys=True)


def mean_of(cells: list[dict[str, Any]], key: str) -> Any:
    """Mean of one dissociation measurement over the runs in which it is defined.

    None if it is defined in no run. D itself ("mean") is undefined in a run as soon as one task
    has no D.
    """
    each = _measured(cells, key)
    defined = np.isfinite(each)
    counts = np.asarray(defined.sum(axis=0))
    means = np.where(defined, each, 0).sum(axis=0) / np.maximum(counts, 1)
    shown = np.asarray(means, dtype=object)
    shown[counts == 0] = None
    return shown.tolist()


def spread_over(cells: list[dict[str, Any]], key: str) -> Any:
    """Standard deviation of one measurement over the runs in which it is defined, in its shape.

    None if it is defined in fewer than two runs.
    """
    if len(cells) < 2:
        return None
    each = _measured(cells, key)
    defined = np.isfinite(each)
    counts = np.asarray(defined.sum(axis=0))
    means = np.where(defined, each, 0).sum(axis=0) / np.maximum(counts, 1)
    squares = np.where(defined, (each - means) ** 2, 0).sum(axis=0)
    shown = np.asarray(np.sqrt(squares / np.maximum(counts - 1, 1)), dtype=object)
    shown[counts < 2] = None
    return shown.tolist()


def _measured(cells: list[dict[str, Any]], key: str) -> Array:
    """One measurement of every run, runs first; nan if undefined."""
    found = [cell["dissociation"] for cell in cells]
    return np.array([mean_dissociation(f) if key == "mean" else f[key] for f in found], float)


def beside_its_spread(
    column: str, value: float | None, spread: float | None
) -> dict[str, float | None]:
    """A fraction as a column in percent, with its spread if there is one."""
    found = {column: percent(value)}
    return found if spread is None else {**found, column + PLUS_MINUS: percent(spread)}


def is_companion(column: str, columns: Collection[str]) -> bool:
    """Whether a column only shows how certain another one is."""
    return any(
        column.endswith(ending) and column.removesuffix(ending) in columns
        for ending in (PLUS_MINUS, P_VALUE)
    )


def scores_of(splits: dict[str, Any]) -> dict[str, float]:
    """Every task's score; MNLI's mismatched set is one more, as all four papers count it."""
    found = {task: entry["score"] for task, entry in splits["validation"].items()}
    further = splits.get("validation_mismatched", {})
    return found | {f"{task}-mm": entry["score"] for task, entry in further.items()}


def spread_of(averages: Sequence[float]) -> dict[str, float | None]:
    """Spread over seeds as a column; empty for one seed."""
    if len(averages) < 2:
        return {}
    return {SPREAD: percent(float(np.std(averages, ddof=1)))}


def log_of(grid: dict[str, Any], cell: dict[str, Any]) -> list[dict[str, Any]]:
    """The log of a cell's training; empty if its run is not available."""
    return read_log(folder_of(grid, cell) / "log.jsonl") if "output" in grid else []


def folder_of(grid: dict[str, Any], cell: dict[str, Any]) -> Path:
    return Path(grid["output"]) / "cells" / str(cell["fingerprint"])


def percent(value: float | None) -> float | None:
    return None if value is None else 100 * value
