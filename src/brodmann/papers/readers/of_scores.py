"""Readers of scores: by case of a grid, by arm of a comparison, and over groups of tasks."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from brodmann.papers.readers.common import (
    P_VALUE,
    PLUS_MINUS,
    SPREAD,
    cases_of,
    finished,
    is_companion,
    log_of,
    percent,
    scores_of,
    spread_of,
)
from brodmann.papers.readers.parameter_counts import (
    ACTIVATED,
    OVERALL,
    SIZES,
    TOTAL,
    TRAINED,
    sizes_of,
)
from brodmann.papers.recipes import Numbers
from brodmann.results import mean_dissociation

AT_LEAST_ALONE = "tasks ≥ alone"  # a column: number of tasks that single-task training does not
ALONE = "single-task"  # beat; that is the row of this title, or of its own model: "…, large"
UNCOUNTED = ("wnli",)  # Pilault et al. average over GLUE without it
DATA_USED = "% data used"  # a column: distinct training examples over all
FURTHER = {"f1": "accuracy", "spearman": "pearson"}  # the second metric that GLUE gives beside one


def case_averages(grid: dict[str, Any]) -> Numbers:
    """One row per case, over its seeds: the average over tasks and its spread over tasks."""
    rows: Numbers = {}
    for case, cells in cases_of(grid).items():
        scores = np.array([list(scores_of(cell["splits"]).values()) for cell in cells])
        rows[case] = {
            "average": percent(float(scores.mean())),
            **spread_of(scores.mean(axis=1)),
            "task σ": percent(float(scores.std(axis=1, ddof=1).mean())),
        }
    return rows


def case_ablation(grid: dict[str, Any]) -> Numbers:
    """One row per case, as Table 1 of Pilault et al. 2021 counts: the average over tasks, task σ
    over the scores of all metrics (accuracy and F1, Spearman and Pearson, both sets of MNLI), and
    the share of the training data that was used."""
    rows: Numbers = {}
    for case, cells in cases_of(grid).items():
        averages = [float(np.mean(list(scores_of(cell["splits"]).values()))) for cell in cells]
        every = [_every_metric(cell["splits"]) for cell in cells]
        sigma = [float(np.std(values, ddof=1)) for values in every if len(values) > 1]
        rows[case] = {"average": percent(float(np.mean(averages))), **spread_of(averages)}
        if sigma:
            rows[case]["task σ"] = percent(float(np.mean(sigma)))
        used = [share for cell in cells if (share := _used(grid, cell)) is not None]
        if used:
            rows[case][DATA_USED] = percent(float(np.mean(used)))
    return rows


def _every_metric(splits: dict[str, Any]) -> list[float]:
    """Scores of all tasks, with both metrics if GLUE has two."""
    found: list[float] = []
    for name in ("validation", "validation_mismatched"):
        for entry in splits.get(name, {}).values():
            found.append(entry["score"])
            second = FURTHER.get(entry.get("metric", ""))
            if second is not None and second in entry.get("scores", {}):
                found.append(entry["scores"][second])
    return found


def _used(grid: dict[str, Any], cell: dict[str, Any]) -> float | None:
    """Share of all training examples that a run had used by its end."""
    found = [entry["used_of_all"] for entry in log_of(grid, cell) if "used_of_all" in entry]
    return found[-1] if found else None


def case_scores_and_sizes(grid: dict[str, Any]) -> Numbers:
    """`case_scores`, with every case's parameters as multiples of the backbone's."""
    return _with_sizes(case_scores(grid), grid, (TOTAL, TRAINED))


def case_scores_and_millions(grid: dict[str, Any]) -> Numbers:
    """`case_scores`, with every case's parameters in millions: all, and what one task uses."""
    return _with_sizes(case_scores(grid), grid, (ACTIVATED, OVERALL))


def _with_sizes(rows: Numbers, grid: dict[str, Any], columns: Sequence[str]) -> Numbers:
    for case, sizes in sizes_of(grid).items():
        rows[case] |= {column: sizes[column] for column in columns if column in sizes}
    return rows


def case_scores(grid: dict[str, Any], uncounted: Collection[str] = ()) -> Numbers:
    """One row per case, one column per task, and the average; compared with single-task training,
    also the number of tasks that do not lose by sharing."""
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
    """One row per case: D over the seeds in which it is defined; None if it is in none."""
    rows: Numbers = {}
    for case, cells in cases_of(grid).items():
        measured = [cell["dissociation"] for cell in cells if cell.get("dissociation")]
        defined = [d for one in measured if (d := mean_dissociation(one)) is not None]
        if measured:
            mean = float(np.mean(defined)) if defined else None
            rows[case] = {"D": percent(mean), **spread_of(defined)}
    return rows


def arm_averages(comparison: dict[str, Any]) -> Numbers:
    """One row per arm: the average, and the number of tasks it improves."""
    found = arm_scores(comparison)
    baseline = found[comparison["baseline"]]
    rows: Numbers = {}
    kept = ("average", "average" + P_VALUE, SPREAD)
    for arm, row in found.items():
        rows[arm] = {column: row[column] for column in kept if column in row}
        if row is not baseline:
            rows[arm]["tasks improved"] = _improved(row, baseline)
    return rows


def arm_scores(comparison: dict[str, Any]) -> Numbers:
    """One row per arm, one column per task, and the average, with the p of the differences to the
    baseline if the comparison has them; `splits` are the scores of its runs."""
    kept = set(comparison["tasks"])
    rows: Numbers = {}
    for arm, about in comparison["arms"].items():
        seeds = [
            {task: score for task, score in scores_of(splits).items() if _name(task) in kept}
            for splits in comparison["splits"][arm]
        ]
        rows[arm] = _row(seeds)
        against = about.get("against") or {}
        tested = {**against.get("per_task", {}), "average": against.get("average", {})}
        for column, entry in tested.items():
            if column in rows[arm] and entry.get("p") is not None:
                rows[arm][column + P_VALUE] = entry["p"]
    return rows


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
    """One row per case, one column per number of tasks: the average over the smallest group."""
    smallest = min((cell["varied"]["tasks"] for cell in finished(grid)), key=len)
    rows: Numbers = {}
    for case, cells in cases_of(grid).items():
        for count in sorted({len(cell["varied"]["tasks"]) for cell in cells}):
            scores = [
                float(
                    np.mean(
                        [
                            score
                            for task, score in scores_of(cell["splits"]).items()
                            if _name(task) in smallest and task not in UNCOUNTED
                        ]
                    )
                )
                for cell in cells
                if len(cell["varied"]["tasks"]) == count
            ]
            row = rows.setdefault(case, {})
            row[f"{count} tasks"] = percent(float(np.mean(scores)))
            if len(scores) > 1:
                row[f"{count} tasks{PLUS_MINUS}"] = percent(float(np.std(scores, ddof=1)))
    return rows


def largest_group(grid: dict[str, Any]) -> Numbers:
    """One row per case, one column per task, and the averages over benchmarks and over all."""
    most = max(len(cell["varied"]["tasks"]) for cell in finished(grid))
    cells = [cell for cell in finished(grid) if len(cell["varied"]["tasks"]) == most]
    part = {**grid, "cells": cells}
    rows = _with_sizes(case_scores(part, UNCOUNTED), part, (TOTAL, TRAINED))
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
    """The task of a column (MNLI has two columns)."""
    return column.removesuffix("-mm")


def _row(
    seeds: Sequence[dict[str, float]], uncounted: Collection[str] = ()
) -> dict[str, float | None]:
    """The scores of every seed as one row."""
    counted = [task for task in seeds[0] if task not in uncounted]
    averages = [float(np.mean([scores[task] for task in counted])) for scores in seeds]
    row: dict[str, float | None] = {}
    for task in seeds[0]:
        values = [scores[task] for scores in seeds]
        row[task] = percent(float(np.mean(values)))
        if len(values) > 1:
            row[task + PLUS_MINUS] = percent(float(np.std(values, ddof=1)))
    return {**row, "average": percent(float(np.mean(averages))), **spread_of(averages)}


def _improved(
    row: dict[str, float | None],
    other: dict[str, float | None],
    uncounted: Collection[str] = (),
    *,
    ties: bool = False,
) -> int:
    """Number of tasks that are better than in the other row (or as good, with `ties`)."""
    apart = {"average", SPREAD, AT_LEAST_ALONE, *SIZES, *uncounted}
    count = 0
    for task, mine in row.items():
        theirs = other.get(task)
        if is_companion(task, row):
            continue
        if task not in apart and mine is not None and theirs is not None:
            count += mine > theirs or (ties and mine == theirs)
    return count
