"""Readers of logs: the course of a training."""

from typing import Any

import numpy as np

from brodmann.files import read_json
from brodmann.papers.readers.common import cases_of, folder_of, log_of, percent
from brodmann.papers.recipes import Numbers

WINDOWS = 20  # largest number of columns for a training's course
PEAK = "peak at step"  # a column: the end of the window in which a task has its largest share


def scores_over_training(grid: dict[str, Any]) -> Numbers:
    """One row per case, one column per evaluation: the mean score over tasks and seeds."""
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
    """Scores of the first and the last task, first seed, one column per evaluation."""
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


def entropy_over_training(grid: dict[str, Any]) -> Numbers:
    """Uncertainty about the first and the last task that has an entropy, first seed: one column per
    evaluation, the mean since the one before, in percent of a uniform answer's."""
    rows: Numbers = {}
    for case, cells in cases_of(grid).items():
        log = log_of(grid, cells[0])
        logged = [(entry["step"], entry["entropy"]) for entry in log if "entropy" in entry]
        tasks = [
            task
            for task in cells[0]["splits"]["validation"]
            if any(task in found for _, found in logged)
        ]
        ends = [entry["step"] for entry in log if "evaluation" in entry]
        for task in dict.fromkeys((*tasks[:1], *tasks[-1:])):
            row = rows.setdefault(f"{case}: {task}", {})
            for begin, end in zip([0, *ends], ends, strict=False):
                found = [one[task] for step, one in logged if begin < step <= end and task in one]
                row[f"step {end}"] = percent(float(np.mean(found))) if found else None
    return rows


def examples_over_training(grid: dict[str, Any]) -> Numbers:
    """Examples per iteration of every task, first seed, over the course of the training.

    Also the step at which a task first has its largest share, and the difficulty of its data
    (`analysis/difficulty.py`).
    """
    rows: Numbers = {}
    for case, cells in cases_of(grid).items():
        taken = [(e["step"], e["examples"]) for e in log_of(grid, cells[0]) if "examples" in e]
        data = read_json(folder_of(grid, cells[0]) / "provenance.json")["data"]
        for task in cells[0]["splits"]["validation"]:
            row: dict[str, float | None] = {}
            before = 0
            for group in _windows(taken):
                last = group[-1][0]
                count = sum(examples.get(task, 0) for _, examples in group)
                row[f"to step {last}"] = count / max(1, last - before)
                before = last
            known = data[task].get("difficulty")
            rows[f"{case}: {task}"] = {**row, PEAK: _first_peak(row), "difficulty": known}
    return rows


def _windows(taken: list[tuple[int, Any]]) -> list[list[tuple[int, Any]]]:
    """Lines of the log, grouped if there are many."""
    size = -(-len(taken) // WINDOWS)
    return [taken[start : start + size] for start in range(0, len(taken), max(size, 1))]


def _first_peak(row: dict[str, float | None]) -> int | None:
    """The step at which the task has its largest number of examples per iteration."""
    best: tuple[float, int] | None = None
    for column, value in row.items():
        if value is not None and (best is None or value > best[0]):
            best = value, int(column.removeprefix("to step "))
    return None if best is None else best[1]
