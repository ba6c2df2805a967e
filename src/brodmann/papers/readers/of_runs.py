"""Readers of one run (trained, adapted, transferred): rows and columns in the paper's units."""

from pathlib import Path
from typing import Any

import numpy as np

from brodmann.analysis.axes import AXES, specialization_axes, tasks_and_languages
from brodmann.analysis.statistics import mean_and_spread
from brodmann.errors import InputError
from brodmann.files import read_json
from brodmann.papers.readers.common import P_VALUE, beside_its_spread, finished, percent
from brodmann.papers.recipes import Numbers
from brodmann.results import Dissociation, HeadScores


def few_shot(summary: dict[str, Any]) -> Numbers:
    """One row per start, one column per task and number of examples: mean and spread over seeds,
    and the p of the difference to the first start, by the paper's own test."""
    rows: Numbers = {}
    for task, amounts in summary["tasks"].items():
        for amount, starts in amounts.items():
            for start, entry in starts.items():
                row, column = rows.setdefault(start, {}), f"{task}, {amount}"
                row |= beside_its_spread(column, *entry["mean"])
                if entry.get("paired_bootstrap_p") is not None:
                    row[column + P_VALUE] = entry["paired_bootstrap_p"]
    return rows


def covsim_and_score(found: dict[str, Any]) -> Numbers:
    """One row per task: its mean CovSim with the others, and its score."""
    result = found["covsim"]
    return {
        task: {"CovSim": percent(mean), "score": percent(found["scores"][task])}
        for task, mean in zip(result["tasks"], result["mean"], strict=True)
    }


def covsim_and_gain(found: dict[str, Any]) -> Numbers:
    """One row per task: its mean CovSim with the others, and its gain in points over single."""
    rows: Numbers = {}
    for task, row in covsim_and_score(found).items():
        score, alone = row["score"], percent(found["single"].get(task))
        gain = None if score is None or alone is None else score - alone
        rows[task] = {"CovSim": row["CovSim"], "gain": gain}
    return rows


def zero_shot_starts(grid: dict[str, Any]) -> Numbers:
    """One row per start, one column per new task, over its seeds."""
    values: dict[str, dict[str, list[float]]] = {}
    for cell in finished(grid):
        found = cell["adaptation"]
        for task, starts in found["zero_shot"].items():
            for start, scores in starts.items():
                own = values.setdefault(start, {}).setdefault(task, [])
                own.append(scores[found["metrics"][task]])
    return {start: _over_seeds(columns) for start, columns in values.items()}


def adapted(grid: dict[str, Any]) -> Numbers:
    """Scores after training from the chosen start, one column per task and share of its data."""
    values: dict[str, list[float]] = {}
    for cell in finished(grid):
        for task, entry in cell["splits"]["validation"].items():
            for share, smaller in cell["adaptation"].get("shares", {}).items():
                if share != "100 %":
                    values.setdefault(f"{task}, {share}", []).append(smaller["scores"][task])
            values.setdefault(task, []).append(entry["score"])
    return {"trained": _over_seeds(values)}


def _over_seeds(columns: dict[str, list[float]]) -> dict[str, float | None]:
    row: dict[str, float | None] = {}
    for column, values in columns.items():
        row |= beside_its_spread(column, *mean_and_spread(values))
    return row


def unseen_pairs(found: dict[str, Any]) -> Numbers:
    """One row per start, one column per pair and number of steps, for the largest support set; then
    the lead of meta-training, and the half width of its 95 % interval over seeds."""
    rows: Numbers = {}
    for pair, entry in found["pairs"].items():
        most = max(line["shots"] for line in entry["table"])
        for line in entry["table"]:
            if line["shots"] != most:
                continue
            column = f"{pair}, {line['steps']} steps"
            for start, scores in line["starts"].items():
                mean = None if scores["mean"] is None else scores["mean"][0]
                rows.setdefault(start, {})[column] = percent(mean)
            for start, difference in line["differences"].items():
                title = f"meta less {start}"
                rows.setdefault(title, {})[column] = percent(difference["mean"])
                low, high = difference["low"], difference["high"]
                half = None if low is None or high is None else (high - low) / 2
                rows.setdefault(f"{title}, 95 % ±", {})[column] = percent(half)
    last = [title for title in rows if title.startswith("meta less")]
    return {title: rows[title] for title in (*(t for t in rows if t not in last), *last)}


def by_task_or_language(comparison: dict[str, Any]) -> Numbers:
    """One row per kind of comparison: overlap of top heads, Spearman's ρ and D of the plain model,
    over its seeds; the first row also has each seed's p for the difference of the overlaps."""
    seeds = []
    for name in comparison["arms"]["multi"]["runs"]:
        folder = Path(comparison["folder"]) / name
        scores = HeadScores.load(folder / "importance.json")
        data = read_json(folder / "provenance.json")["data"]
        pairs = list(tasks_and_languages(scores.tasks, data).values())
        measured = Dissociation.load(folder / "dissociation.json")
        axes = specialization_axes(pairs, scores, measured.alpha, measured) if pairs else None
        if axes is None:
            raise InputError(f"{folder}: needs a task in two languages, and another task beside it")
        seeds.append(axes)
    rows: Numbers = {}
    for kind in (kind for kind in AXES if kind in seeds[0]["axes"]):
        told = [seed["axes"][kind] for seed in seeds]
        separated = [one["dissociation"] for one in told if one["dissociation"] is not None]
        rows[kind] = {
            "overlap (%)": 100 * float(np.mean([one["overlap"] for one in told])),
            "Spearman": float(np.mean([one["spearman"] for one in told])),
            "D (%)": 100 * float(np.mean(separated)) if separated else None,
        }
    rows[AXES[0]] |= {f"p, seed {place}": seed["p"] for place, seed in enumerate(seeds)}
    return rows
