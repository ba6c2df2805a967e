"""From a recipe's results to the rows and columns of a table or figure, in the paper's units."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from brodmann.artifacts import read_json, read_lines
from brodmann.errors import InputError
from brodmann.recipes import Numbers
from brodmann.recipes.links import link_ahp, link_cnm, link_cra, link_dse
from brodmann.recipes.readers_of_runs import (
    adapted,
    by_task_or_language,
    covsim_and_gain,
    covsim_and_score,
    few_shot,
    unseen_pairs,
    zero_shot_starts,
)

Reader = Callable[[dict[str, Any]], Numbers]
SPREAD = "± seeds"  # a column: the standard deviation over seeds of the average or D before it


def pair_dissociation(grid: dict[str, Any]) -> Numbers:
    """Every pair: D, percent, the mean over seeds."""
    return {pair: {"D": _percent(_mean(cells, "mean"))} for pair, cells in _pairs(grid).items()}


def dual_task(grid: dict[str, Any]) -> Numbers:
    """Every pair: D of both tasks."""
    rows: Numbers = {}
    for pair, cells in _pairs(grid).items():
        first, second = _mean(cells, "per_task")
        rows[pair] = {"D_A": _percent(first), "D_B": _percent(second)}
    return rows


def pruned_scores(grid: dict[str, Any]) -> Numbers:
    """A row a task whose heads are off (and random heads, nothing, D), a column a task."""
    cells = _done(grid)
    names = cells[0]["dissociation"]["tasks"]
    performance = _mean(cells, "performance")
    rows: Numbers = {
        f"without {off}": {task: _percent(performance[i][j]) for i, task in enumerate(names)}
        for j, off in enumerate(names)
    }
    for title, key in (("random", "random"), ("base", "base"), ("D", "per_task")):
        rows[title] = {t: _percent(v) for t, v in zip(names, _mean(cells, key), strict=True)}
    return rows


def pairwise_dissociation(grid: dict[str, Any]) -> Numbers:
    """A row the other task B, a column the task A."""
    return _square(grid, "pairwise")


def overlapping_heads(grid: dict[str, Any]) -> Numbers:
    return _square(grid, "overlap")


def heads_per_layer(grid: dict[str, Any]) -> Numbers:
    """A row a task, a column a layer; over several seeds their mean."""
    cells = _done(grid)
    return {
        task: {
            f"layer {layer}": int(count) if len(cells) == 1 else count
            for layer, count in enumerate(counts)
        }
        for task, counts in zip(
            cells[0]["dissociation"]["tasks"], _mean(cells, "heads_per_layer"), strict=True
        )
    }


def case_averages(grid: dict[str, Any]) -> Numbers:
    """A row a case, over its seeds: the average over tasks and its spread over tasks."""
    rows: Numbers = {}
    for case, cells in _cases(grid).items():
        scores = np.array([list(_scores(grid, cell).values()) for cell in cells])
        rows[case] = {
            "average": _percent(float(scores.mean())),
            **_spread(scores.mean(axis=1)),
            "task σ": _percent(float(scores.std(axis=1, ddof=1).mean())),
        }
    return rows


def case_scores(grid: dict[str, Any]) -> Numbers:
    """A row a case, a column a task, and the average."""
    rows: Numbers = {}
    for case, cells in _cases(grid).items():
        found = [_scores(grid, cell) for cell in cells]
        means = {task: float(np.mean([scores[task] for scores in found])) for task in found[0]}
        rows[case] = {task: _percent(value) for task, value in means.items()}
        rows[case]["average"] = _percent(float(np.mean(list(means.values()))))
        rows[case] |= _spread([float(np.mean(list(scores.values()))) for scores in found])
    return rows


def arm_averages(comparison: dict[str, Any]) -> Numbers:
    """A row an arm: the average, and how many tasks it improves."""
    rows: Numbers = {}
    for arm, found in comparison["arms"].items():
        against = found.get("against") or {}
        rows[arm] = _average(found)
        if "improved" in against:
            rows[arm]["tasks improved"] = int(against["improved"])
    return rows


def arm_scores(comparison: dict[str, Any]) -> Numbers:
    """A row an arm, a column a task, and the average."""
    return {
        arm: {
            **{task: _percent(mean) for task, (mean, _) in found["per_task"].items()},
            **_average(found),
        }
        for arm, found in comparison["arms"].items()
    }


def arm_dissociation(comparison: dict[str, Any]) -> Numbers:
    return {
        arm: _mean_and_spread("D", found["dissociation"], found["seeds"])
        for arm, found in comparison["arms"].items()
        if found.get("dissociation") is not None
    }


def relevance_words(found: dict[str, Any]) -> Numbers:
    return _relevance(found["words"])


def relevance_pairs(found: dict[str, Any]) -> Numbers:
    return _relevance(found["pairs"])


def influence(found: dict[str, Any]) -> Numbers:
    """Of the first task: what each other does to it, and it to them."""
    names, matrix = found["pairs"]["tasks"], found["pairs"]["matrix"]
    return {
        f"others on {names[0]}": {n: _percent(matrix[i][0]) for i, n in enumerate(names) if i},
        f"{names[0]} on others": {n: _percent(matrix[0][i]) for i, n in enumerate(names) if i},
    }


def scores_over_training(grid: dict[str, Any]) -> Numbers:
    """A row a case, a column an evaluation: the mean score over tasks and seeds."""
    return {
        case: {
            f"step {step}": _percent(float(np.mean([dict(curve)[step] for curve in curves])))
            for step in [step for step, _ in curves[0]]
            if all(step in dict(curve) for curve in curves)  # one seed may have stopped early
        }
        for case, curves in (
            (
                case,
                [
                    [(e["step"], e["mean"]) for e in _log(grid, c) if "evaluation" in e]
                    for c in cells
                ],
            )
            for case, cells in _cases(grid).items()
        )
    }


def two_tasks_over_training(grid: dict[str, Any]) -> Numbers:
    """The first and the last task of the first seed, a column an evaluation."""
    rows: Numbers = {}
    for case, cells in _cases(grid).items():
        entries = [entry for entry in _log(grid, cells[0]) if "evaluation" in entry]
        tasks = list(entries[0]["scores"])
        for task in (tasks[0], tasks[-1]):
            metric = cells[0]["splits"]["validation"][task]["metric"]
            rows[f"{case}: {task}"] = {
                f"step {entry['step']}": _percent(entry["scores"][task][metric])
                for entry in entries
            }
    return rows


def examples_over_training(grid: dict[str, Any]) -> Numbers:
    """Examples of every task in each quarter of the training, first seed; and how hard its data
    look by themselves (`analysis/difficulty.py`)."""
    rows: Numbers = {}
    for case, cells in _cases(grid).items():
        taken = [(e["step"], e["examples"]) for e in _log(grid, cells[0]) if "examples" in e]
        data = read_json(_folder(grid, cells[0]) / "provenance.json")["data"]
        last = taken[-1][0]
        for task in cells[0]["splits"]["validation"]:
            counts = [0] * 4
            for step, examples in taken:
                counts[min(3, 4 * (step - 1) // last)] += examples.get(task, 0)
            row: dict[str, float | None] = {f"quarter {n + 1}": v for n, v in enumerate(counts)}
            rows[f"{case}: {task}"] = {**row, "difficulty": data[task].get("difficulty")}
    return rows


def growing(grid: dict[str, Any]) -> Numbers:
    """A row a case, a column a number of tasks: the average over the smallest group's tasks."""
    smallest = min((cell["varied"]["tasks"] for cell in _done(grid)), key=len)
    rows: Numbers = {}
    for case, cells in _cases(grid).items():
        for count in sorted({len(cell["varied"]["tasks"]) for cell in cells}):
            scores = [
                cell["splits"]["validation"][task]["score"]
                for cell in cells
                if len(cell["varied"]["tasks"]) == count
                for task in smallest
            ]
            rows.setdefault(case, {})[f"{count} tasks"] = _percent(float(np.mean(scores)))
    return rows


def largest_group(grid: dict[str, Any]) -> Numbers:
    most = max(len(cell["varied"]["tasks"]) for cell in _done(grid))
    cells = [cell for cell in _done(grid) if len(cell["varied"]["tasks"]) == most]
    rows = case_scores({**grid, "cells": cells})
    for scores in rows.values():
        for benchmark, tasks in grid.get("benchmarks", {}).items():
            own = [value for task in tasks if (value := scores.get(task)) is not None]
            scores[benchmark] = float(np.mean(own)) if own else None
    return rows


def attention_of_helpful(found: dict[str, Any]) -> Numbers:
    return _attention(found["attention"]["helpful"])


def attention_of_harmful(found: dict[str, Any]) -> Numbers:
    return _attention(found["attention"]["harmful"])


READERS: dict[str, Reader] = {
    reader.__name__: reader
    for reader in (
        pair_dissociation,
        dual_task,
        pruned_scores,
        pairwise_dissociation,
        overlapping_heads,
        heads_per_layer,
        case_averages,
        case_scores,
        arm_averages,
        arm_scores,
        arm_dissociation,
        few_shot,
        relevance_words,
        relevance_pairs,
        influence,
        link_dse,
        link_cra,
        link_ahp,
        scores_over_training,
        two_tasks_over_training,
        examples_over_training,
        link_cnm,
        covsim_and_score,
        covsim_and_gain,
        zero_shot_starts,
        adapted,
        growing,
        largest_group,
        attention_of_helpful,
        attention_of_harmful,
        by_task_or_language,
        unseen_pairs,
    )
}


def _average(arm: dict[str, Any]) -> dict[str, float | None]:
    return _mean_and_spread("average", arm["average"], arm["seeds"])


def _mean_and_spread(
    column: str, found: Sequence[float], seeds: Sequence[int]
) -> dict[str, float | None]:
    mean, deviation = found
    return {column: _percent(mean), **({SPREAD: _percent(deviation)} if len(seeds) > 1 else {})}


def _spread(averages: Sequence[float]) -> dict[str, float | None]:
    """One seed has none."""
    if len(averages) < 2:
        return {}
    return {SPREAD: _percent(float(np.std(averages, ddof=1)))}


def _relevance(found: dict[str, Any]) -> Numbers:
    """A row a source, a column a target."""
    names = found["tasks"]
    return {
        source: {target: _percent(found["matrix"][i][j]) for j, target in enumerate(names)}
        for i, source in enumerate(names)
    }


def _attention(pair: dict[str, Any]) -> Numbers:
    """A row a task, a column a layer: the mean cosine of its maps, alone and together. With what
    the pair gains on average: the most helpful one need not help."""
    maps, gain = pair["maps"], f"{100 * pair['gain']:+.1f} %"
    return {
        f"{task} (with {' and '.join(other for other in maps if other != task)}, {gain})": {
            f"layer {layer}": float(np.mean(heads)) for layer, heads in enumerate(matrix)
        }
        for task, matrix in maps.items()
    }


def _log(grid: dict[str, Any], cell: dict[str, Any]) -> list[dict[str, Any]]:
    return read_lines(_folder(grid, cell) / "log.jsonl")


def _folder(grid: dict[str, Any], cell: dict[str, Any]) -> Path:
    return Path(grid["output"]) / "cells" / str(cell["fingerprint"])


def _square(grid: dict[str, Any], key: str) -> Numbers:
    cells = _done(grid)
    names, values = cells[0]["dissociation"]["tasks"], _mean(cells, key)
    return {
        other: {task: None if i == j else _percent(values[i][j]) for i, task in enumerate(names)}
        for j, other in enumerate(names)
    }


def _done(grid: dict[str, Any]) -> list[dict[str, Any]]:
    cells = [cell for cell in grid["cells"] if cell["state"] == "done"]
    if not cells:
        raise InputError("no cell of the grid is finished")
    return cells


def _pairs(grid: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for cell in _done(grid):
        found.setdefault("+".join(cell["varied"]["tasks"]), []).append(cell)
    return found


def _mean(cells: list[dict[str, Any]], key: str) -> Any:
    """Of one measurement of dissociation, over seeds; undefined where one of them is."""
    each = [np.array(cell["dissociation"][key], float) for cell in cells]
    values = np.asarray(np.mean(each, axis=0))
    shown = values.astype(object)
    shown[np.isnan(values)] = None
    return shown.tolist()


def _scores(grid: dict[str, Any], cell: dict[str, Any]) -> dict[str, float]:
    """Every task's score; MNLI's mismatched set is one more where the paper counts it so."""
    found = {task: entry["score"] for task, entry in cell["splits"]["validation"].items()}
    if grid.get("mismatched"):
        further = cell["splits"].get("validation_mismatched", {})
        found |= {f"{task}-mm": entry["score"] for task, entry in further.items()}
    return found


def _cases(grid: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for cell in _done(grid):
        name = ", ".join(f"{k.rpartition('.')[2]}={v}" for k, v in apart(cell["varied"]).items())
        title = grid.get("titles", {}).get(case_key(cell["varied"]), name or "as configured")
        found.setdefault(title, []).append(cell)
    return found


def apart(varied: dict[str, Any]) -> dict[str, Any]:
    """What sets a case apart: all but the tasks and the seed."""
    return {key: value for key, value in varied.items() if key not in ("seed", "tasks")}


def case_key(varied: dict[str, Any]) -> str:
    return json.dumps(apart(varied), sort_keys=True)


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value
