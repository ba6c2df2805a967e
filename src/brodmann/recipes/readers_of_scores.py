"""Readers of scores: by case of a grid, by arm of a comparison, and over groups of tasks."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from brodmann.recipes import Numbers
from brodmann.recipes.cells import SPREAD, cases_of, finished, percent, scores_of, spread_of
from brodmann.results import mean_dissociation

AT_LEAST_ALONE = "tasks ≥ alone"  # a column: of the tasks, those that single-task training does not
ALONE = "single-task"  # beat; that is the row of this title, or of its own model: "…, large"
UNCOUNTED = ("wnli",)  # Pilault et al. average over GLUE without it


def case_averages(grid: dict[str, Any]) -> Numbers:
    """A row a case, over its seeds: the average over tasks and its spread over tasks."""
    rows: Numbers = {}
    for case, cells in cases_of(grid).items():
        scores = np.array([list(scores_of(cell["splits"]).values()) for cell in cells])
        rows[case] = {
            "average": percent(float(scores.mean())),
            **spread_of(scores.mean(axis=1)),
            "task σ": percent(float(scores.std(axis=1, ddof=1).mean())),
        }
    return rows


def case_scores(grid: dict[str, Any], uncounted: Collection[str] = ()) -> Numbers:
    """A row a case, a column a task, and the average; beside single-task training also how many
    tasks do not lose by sharing."""
    rows = {
        case: _row([scores_of(cell["splits"]) for cell in cells], uncounted)
        for case, cells in cases_of(grid).items()
    }
    for case, row in rows.items():
        _, comma, model = case.partition(", ")
        alone = rows.get(f"{ALONE}, {model}", rows.get(ALONE)) if comma else rows.get(ALONE)
        if alone is not None and alone is not row:
            row[AT_LEAST_ALONE] = _improved(row, alone, uncounted, ties=True)
    return rows


def case_dissociation(grid: dict[str, Any]) -> Numbers:
    """One row per case: D over the seeds in which it is defined; None where it is in none."""
    rows: Numbers = {}
    for case, cells in cases_of(grid).items():
        measured = [cell["dissociation"] for cell in cells if cell.get("dissociation")]
        defined = [d for one in measured if (d := mean_dissociation(one)) is not None]
        if measured:
            mean = float(np.mean(defined)) if defined else None
            rows[case] = {"D": percent(mean), **spread_of(defined)}
    return rows


def arm_averages(comparison: dict[str, Any]) -> Numbers:
    """A row an arm: the average, and how many tasks it improves."""
    found = arm_scores(comparison)
    baseline = found[comparison["baseline"]]
    rows: Numbers = {}
    for arm, row in found.items():
        rows[arm] = {column: row[column] for column in ("average", SPREAD) if column in row}
        if row is not baseline:
            rows[arm]["tasks improved"] = _improved(row, baseline)
    return rows


def arm_scores(comparison: dict[str, Any]) -> Numbers:
    """A row an arm, a column a task, and the average; `splits` are the scores of its runs."""
    kept = set(comparison["tasks"])
    return {
        arm: _row(
            [
                {task: score for task, score in scores_of(splits).items() if _name(task) in kept}
                for splits in comparison["splits"][arm]
            ]
        )
        for arm in comparison["arms"]
    }


def arm_dissociation(comparison: dict[str, Any]) -> Numbers:
    rows: Numbers = {}
    for arm, found in comparison["arms"].items():
        if found.get("dissociation") is not None:
            mean, deviation = found["dissociation"]
            several = deviation is not None
            rows[arm] = {"D": percent(mean), **({SPREAD: percent(deviation)} if several else {})}
        elif found.get("undefined"):
            rows[arm] = {"D": None}
    return rows


def growing(grid: dict[str, Any]) -> Numbers:
    """A row a case, a column a number of tasks: the average over the smallest group's tasks."""
    smallest = min((cell["varied"]["tasks"] for cell in finished(grid)), key=len)
    rows: Numbers = {}
    for case, cells in cases_of(grid).items():
        for count in sorted({len(cell["varied"]["tasks"]) for cell in cells}):
            scores = [
                score
                for cell in cells
                if len(cell["varied"]["tasks"]) == count
                for task, score in scores_of(cell["splits"]).items()
                if _name(task) in smallest and task not in UNCOUNTED
            ]
            rows.setdefault(case, {})[f"{count} tasks"] = percent(float(np.mean(scores)))
    return rows


def largest_group(grid: dict[str, Any]) -> Numbers:
    """A row a case, a column a task, and the averages over benchmarks and over all."""
    most = max(len(cell["varied"]["tasks"]) for cell in finished(grid))
    cells = [cell for cell in finished(grid) if len(cell["varied"]["tasks"]) == most]
    rows = case_scores({**grid, "cells": cells}, UNCOUNTED)
    for scores in rows.values():
        for benchmark, tasks in grid.get("benchmarks", {}).items():
            own = [
                value
                for task, value in scores.items()
                if _name(task) in tasks and task not in UNCOUNTED and value is not None
            ]
            scores[benchmark] = float(np.mean(own)) if own else None
    return rows


def _name(column: str) -> str:
    """The task of a column: MNLI has two."""
    return column.removesuffix("-mm")


def _row(
    seeds: Sequence[dict[str, float]], uncounted: Collection[str] = ()
) -> dict[str, float | None]:
    """The scores of every seed as one row."""
    counted = [task for task in seeds[0] if task not in uncounted]
    averages = [float(np.mean([scores[task] for task in counted])) for scores in seeds]
    return {
        **{task: percent(float(np.mean([scores[task] for scores in seeds]))) for task in seeds[0]},
        "average": percent(float(np.mean(averages))),
        **spread_of(averages),
    }


def _improved(
    row: dict[str, float | None],
    other: dict[str, float | None],
    uncounted: Collection[str] = (),
    *,
    ties: bool = False,
) -> int:
    """How many tasks are better than in the other row (or as good)."""
    apart = {"average", SPREAD, AT_LEAST_ALONE, *uncounted}
    count = 0
    for task, mine in row.items():
        theirs = other.get(task)
        if task not in apart and mine is not None and theirs is not None:
            count += mine > theirs or (ties and mine == theirs)
    return count
