"""Readers of dissociation: D, scores without heads, and where the chosen heads stand."""

from typing import Any

from brodmann.recipes import Numbers
from brodmann.recipes.cells import cases_of, finished, mean_of, pairs_of, percent


def pair_dissociation(grid: dict[str, Any]) -> Numbers:
    """Every pair: D, percent, the mean over seeds; and over the pairs."""
    found = {pair: percent(mean_of(cells, "mean")) for pair, cells in pairs_of(grid).items()}
    return {pair: {"D": value} for pair, value in found.items()} | {"average": {"D": _mean(found)}}


def pair_dissociation_by_model(grid: dict[str, Any]) -> Numbers:
    """A row a model, a column a pair, and the average over pairs."""
    rows: Numbers = {}
    for model, cells in cases_of(grid).items():
        one = pair_dissociation({**grid, "cells": cells})
        rows[model] = {pair: columns["D"] for pair, columns in one.items()}
    return rows


def dual_task_by_model(grid: dict[str, Any]) -> Numbers:
    """A row a model, two columns a pair: D of both tasks."""
    return {
        model: {
            f"{pair}, {column[-1]}": value
            for pair, columns in dual_task({**grid, "cells": cells}).items()
            for column, value in columns.items()
        }
        for model, cells in cases_of(grid).items()
    }


def dual_task_scores(grid: dict[str, Any]) -> Numbers:
    """Every pair A + B: both tasks' scores, whole and with either's heads off, and D."""
    rows: Numbers = {}
    for pair, cells in pairs_of(grid).items():
        base, performance = mean_of(cells, "base"), mean_of(cells, "performance")
        row = {}
        for i, task in enumerate("AB"):
            row[task] = percent(base[i])
            for j, other in enumerate("AB"):
                row[f"{task} without {other}"] = percent(performance[i][j])
        first, second = mean_of(cells, "per_task")
        rows[pair] = {**row, "D_A": percent(first), "D_B": percent(second)}
        rows[pair]["D"] = percent(mean_of(cells, "mean"))
    return rows


def dual_task(grid: dict[str, Any]) -> Numbers:
    """Every pair: D of both tasks."""
    rows: Numbers = {}
    for pair, cells in pairs_of(grid).items():
        first, second = mean_of(cells, "per_task")
        rows[pair] = {"D_A": percent(first), "D_B": percent(second)}
    return rows


def pruned_scores(grid: dict[str, Any]) -> Numbers:
    """A row a task whose heads are off (and random heads, nothing, D), a column a task."""
    cells = finished(grid)
    names = cells[0]["dissociation"]["tasks"]
    performance = mean_of(cells, "performance")
    rows: Numbers = {
        f"without {off}": {task: percent(performance[i][j]) for i, task in enumerate(names)}
        for j, off in enumerate(names)
    }
    for title, key in (("random", "random"), ("base", "base"), ("D", "per_task")):
        rows[title] = {t: percent(v) for t, v in zip(names, mean_of(cells, key), strict=True)}
    return rows


def pairwise_dissociation(grid: dict[str, Any]) -> Numbers:
    """A row the other task B, a column the task A."""
    return _square(grid, "pairwise")


def overlapping_heads(grid: dict[str, Any]) -> Numbers:
    return _square(grid, "overlap")


def heads_per_layer(grid: dict[str, Any]) -> Numbers:
    """A row a task, a column a layer; over several seeds their mean."""
    cells = finished(grid)
    return {
        task: {
            f"layer {layer}": int(count) if len(cells) == 1 else count
            for layer, count in enumerate(counts)
        }
        for task, counts in zip(
            cells[0]["dissociation"]["tasks"], mean_of(cells, "heads_per_layer"), strict=True
        )
    }


def _square(grid: dict[str, Any], key: str) -> Numbers:
    cells = finished(grid)
    names, values = cells[0]["dissociation"]["tasks"], mean_of(cells, key)
    return {
        other: {task: None if i == j else percent(values[i][j]) for i, task in enumerate(names)}
        for j, other in enumerate(names)
    }


def _mean(values: dict[str, float | None]) -> float | None:
    """Over all of them, or none."""
    found = [value for value in values.values() if value is not None]
    return sum(found) / len(found) if len(found) == len(values) else None
