"""Readers of dissociation: D, scores without heads, and the layers of the chosen heads."""

from typing import Any

import numpy as np

from brodmann.data import catalogue
from brodmann.papers.readers.common import (
    PLUS_MINUS,
    SPREAD,
    beside_its_spread,
    cases_of,
    finished,
    folder_of,
    mean_of,
    pairs_of,
    percent,
    spread_of,
    spread_over,
)
from brodmann.papers.recipes import Numbers
from brodmann.results import Dissociation, mean_dissociation

SAME, DIFFERENT = "same paradigm", "different paradigms"


def pair_dissociation(grid: dict[str, Any]) -> Numbers:
    """D in percent of every pair, mean over seeds with spread; and the average over pairs."""
    rows: Numbers = {}
    for pair, cells in pairs_of(grid).items():
        rows[pair] = {"D": percent(mean_of(cells, "mean"))}
        spread = spread_over(cells, "mean")
        if spread is not None:
            rows[pair][SPREAD] = percent(spread)
    means = [row["D"] for row in rows.values()]
    return {**rows, "average": {"D": _mean(means), **_spread_of_averages(grid)}}


def _spread_of_averages(grid: dict[str, Any]) -> dict[str, float | None]:
    """Spread over seeds of the average over pairs, if every seed has every pair."""
    by_seed: dict[Any, dict[str, float | None]] = {}
    for pair, cells in pairs_of(grid).items():
        for cell in cells:
            seed = cell["varied"].get("seed")
            by_seed.setdefault(seed, {})[pair] = mean_dissociation(cell["dissociation"])
    pairs = set(pairs_of(grid))
    whole = [list(found.values()) for found in by_seed.values() if set(found) == pairs]
    averages = [_mean(values) for values in whole]
    defined = [value for value in averages if value is not None]
    return spread_of(defined)


def pair_dissociation_by_model(grid: dict[str, Any]) -> Numbers:
    """One row per model, one column per pair, and the average over pairs."""
    rows: Numbers = {}
    for model, cells in cases_of(grid).items():
        row = rows.setdefault(model, {})
        for pair, columns in pair_dissociation({**grid, "cells": cells}).items():
            row[pair] = columns["D"]
            if SPREAD in columns:
                row[pair + PLUS_MINUS] = columns[SPREAD]
    return rows


def paradigm_averages(grid: dict[str, Any]) -> Numbers:
    """Mean D over seeds of the pairs whose tasks both read one text or both two, and of the others
    (Li et al. 2023, §6.2)."""
    groups: dict[str, list[list[dict[str, Any]]]] = {DIFFERENT: [], SAME: []}
    for cells in pairs_of(grid).values():
        described = cells[0]["configuration"]["tasks"]
        kinds = {_reads_two_texts(task) for task in described}
        groups[SAME if len(kinds) == 1 else DIFFERENT].append(cells)
    rows: Numbers = {}
    for title, several in groups.items():
        if not several:
            continue
        means = [percent(mean_of(cells, "mean")) for cells in several]
        part = {**grid, "cells": [cell for cells in several for cell in cells]}
        rows[title] = {"D": _mean(means), **_spread_of_averages(part), "pairs": len(several)}
    return rows


def _reads_two_texts(task: Any) -> bool:
    """Whether a task, as a configuration writes it, reads two texts."""
    given = {"use": task} if isinstance(task, str) else task
    if given.get("text_pair") is not None or given.get("pair_of") is not None:
        return True
    named = given.get("use")
    return named is not None and "text_pair" in catalogue.description(named, "")


def dual_task_by_model(grid: dict[str, Any]) -> Numbers:
    """One row per model, two columns per pair: D of both tasks."""
    return {
        model: {
            f"{pair}, {column[2]}{column[3:]}": value
            for pair, columns in dual_task({**grid, "cells": cells}).items()
            for column, value in columns.items()
        }
        for model, cells in cases_of(grid).items()
    }


def dual_task_scores(grid: dict[str, Any]) -> Numbers:
    """One row per pair A + B: both tasks' scores, whole and with either's heads off, and D."""
    rows: Numbers = {}
    for pair, cells in pairs_of(grid).items():
        base, performance = mean_of(cells, "base"), mean_of(cells, "performance")
        base_spread = spread_over(cells, "base") or [None] * 2
        spread = spread_over(cells, "performance") or [[None] * 2] * 2
        row: dict[str, float | None] = {}
        for i, task in enumerate("AB"):
            row |= beside_its_spread(task, base[i], base_spread[i])
            for j, other in enumerate("AB"):
                column = f"{task} without {other}"
                row |= beside_its_spread(column, performance[i][j], spread[i][j])
        row |= _both(cells)
        rows[pair] = row | beside_its_spread(
            "D", mean_of(cells, "mean"), spread_over(cells, "mean")
        )
    return rows


def dual_task(grid: dict[str, Any]) -> Numbers:
    """One row per pair: D of both tasks."""
    return {pair: _both(cells) for pair, cells in pairs_of(grid).items()}


def _both(cells: list[dict[str, Any]]) -> dict[str, float | None]:
    first, second = mean_of(cells, "per_task")
    spreads = spread_over(cells, "per_task") or [None, None]
    return beside_its_spread("D_A", first, spreads[0]) | beside_its_spread(
        "D_B", second, spreads[1]
    )


def pruned_scores(grid: dict[str, Any]) -> Numbers:
    """One row per task whose heads are off (and random heads, nothing, D), one column per task."""
    cells = finished(grid)
    names = cells[0]["dissociation"]["tasks"]
    performance, spread = mean_of(cells, "performance"), spread_over(cells, "performance")
    rows: Numbers = {}
    for j, off in enumerate(names):
        row = rows.setdefault(f"without {off}", {})
        for i, task in enumerate(names):
            apart = None if spread is None else spread[i][j]
            row |= beside_its_spread(task, performance[i][j], apart)
    for title, key in (("random", "random"), ("base", "base"), ("D", "per_task")):
        apart = spread_over(cells, key) or [None] * len(names)
        rows[title] = {}
        for task, value, one in zip(names, mean_of(cells, key), apart, strict=True):
            rows[title] |= beside_its_spread(task, value, one)
    return rows


def pairwise_dissociation(grid: dict[str, Any]) -> Numbers:
    """One row per other task B, one column per task A."""
    return _square(grid, "pairwise")


def overlapping_heads(grid: dict[str, Any]) -> Numbers:
    return _square(grid, "overlap")


def heads_per_layer(grid: dict[str, Any]) -> Numbers:
    """One row per task, one column per layer, averaged over seeds; then the mean over tasks and σ,
    the standard deviation over tasks."""
    cells = finished(grid)
    names, counts = cells[0]["dissociation"]["tasks"], mean_of(cells, "heads_per_layer")
    whole = len(cells) == 1
    rows: Numbers = {
        task: {f"layer {layer}": int(count) if whole else count for layer, count in enumerate(own)}
        for task, own in zip(names, counts, strict=True)
    }
    table = np.array(counts, float)
    for title, values in (("mean", table.mean(axis=0)), ("σ", table.std(axis=0))):
        rows[title] = {f"layer {layer}": float(value) for layer, value in enumerate(values)}
    return rows


def heads_of_tasks(grid: dict[str, Any]) -> Numbers:
    """Head counts of Figure 1: how many heads are important to a task, how many of them to no other
    task, and how many of all heads belong to some or every task; means over seeds."""
    counts: dict[str, dict[str, list[int]]] = {}
    for cell in finished(grid):
        measured = Dissociation.load(folder_of(grid, cell) / "dissociation.json")
        chosen = {
            task: {tuple(head) for head in heads}
            for task, heads in zip(measured.tasks, measured.heads, strict=True)
        }
        for task, own in chosen.items():
            others = set().union(*(heads for name, heads in chosen.items() if name != task))
            _count(counts, task, "important heads", len(own))
            _count(counts, task, "its own alone", len(own - others))
        _count(counts, "any task", "important heads", len(set().union(*chosen.values())))
        _count(counts, "every task", "important heads", len(set.intersection(*chosen.values())))
    rows: Numbers = {}
    for row, columns in counts.items():
        rows[row] = {}
        for column, values in columns.items():
            mean = float(np.mean(values))
            rows[row][column] = values[0] if len(values) == 1 else mean
            if len(values) > 1:
                rows[row][column + PLUS_MINUS] = float(np.std(values, ddof=1))
    return rows


def _count(counts: dict[str, dict[str, list[int]]], row: str, column: str, value: int) -> None:
    counts.setdefault(row, {}).setdefault(column, []).append(value)


def _square(grid: dict[str, Any], key: str) -> Numbers:
    cells = finished(grid)
    names, values = cells[0]["dissociation"]["tasks"], mean_of(cells, key)
    spread = spread_over(cells, key)
    rows: Numbers = {}
    for j, other in enumerate(names):
        row = rows.setdefault(other, {})
        for i, task in enumerate(names):
            apart = None if spread is None or i == j else spread[i][j]
            row |= beside_its_spread(task, None if i == j else values[i][j], apart)
    return rows


def _mean(values: list[float | None]) -> float | None:
    """Mean of all values, or None if one is missing."""
    found = [value for value in values if value is not None]
    return sum(found) / len(found) if found and len(found) == len(values) else None
