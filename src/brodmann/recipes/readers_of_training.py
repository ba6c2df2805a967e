"""Readers of logs: what happened in the course of a training."""

from typing import Any

import numpy as np

from brodmann.artifacts import read_json
from brodmann.recipes import Numbers
from brodmann.recipes.cells import cases_of, folder_of, log_of, percent


def scores_over_training(grid: dict[str, Any]) -> Numbers:
    """A row a case, a column an evaluation: the mean score over tasks and seeds."""
    return {
        case: {
            f"step {step}": percent(float(np.mean([dict(curve)[step] for curve in curves])))
            for step in [step for step, _ in curves[0]]
            if all(step in dict(curve) for curve in curves)  # one seed may have stopped early
        }
        for case, curves in (
            (
                case,
                [
                    [(e["step"], e["mean"]) for e in log_of(grid, c) if "evaluation" in e]
                    for c in cells
                ],
            )
            for case, cells in cases_of(grid).items()
        )
    }


def two_tasks_over_training(grid: dict[str, Any]) -> Numbers:
    """The first and the last task of the first seed, a column an evaluation."""
    rows: Numbers = {}
    for case, cells in cases_of(grid).items():
        entries = [entry for entry in log_of(grid, cells[0]) if "evaluation" in entry]
        tasks = list(entries[0]["scores"])
        for task in (tasks[0], tasks[-1]):
            metric = cells[0]["splits"]["validation"][task]["metric"]
            rows[f"{case}: {task}"] = {
                f"step {entry['step']}": percent(entry["scores"][task][metric]) for entry in entries
            }
    return rows


def examples_over_training(grid: dict[str, Any]) -> Numbers:
    """Examples of every task in each quarter of the training, first seed; and how hard its data
    look by themselves (`analysis/difficulty.py`)."""
    rows: Numbers = {}
    for case, cells in cases_of(grid).items():
        taken = [(e["step"], e["examples"]) for e in log_of(grid, cells[0]) if "examples" in e]
        data = read_json(folder_of(grid, cells[0]) / "provenance.json")["data"]
        last = taken[-1][0]
        for task in cells[0]["splits"]["validation"]:
            counts = [0] * 4
            for step, examples in taken:
                counts[min(3, 4 * (step - 1) // last)] += examples.get(task, 0)
            row: dict[str, float | None] = {f"quarter {n + 1}": v for n, v in enumerate(counts)}
            rows[f"{case}: {task}"] = {**row, "difficulty": data[task].get("difficulty")}
    return rows
