"""Readers of one run (trained, adapted, transferred): rows and columns in the paper's units."""

from pathlib import Path
from typing import Any

import numpy as np

from brodmann.analysis.axes import AXES, specialization_axes, tasks_and_languages
from brodmann.artifacts import read_json
from brodmann.errors import InputError
from brodmann.recipes import Numbers
from brodmann.recipes.cells import percent
from brodmann.results import Dissociation, HeadScores


def few_shot(summary: dict[str, Any]) -> Numbers:
    """A row a start, a column a task with a number of examples."""
    rows: Numbers = {}
    for task, amounts in summary["tasks"].items():
        for amount, starts in amounts.items():
            for start, entry in starts.items():
                rows.setdefault(start, {})[f"{task}, {amount}"] = percent(entry["mean"][0])
    return rows


def covsim_and_score(found: dict[str, Any]) -> Numbers:
    """A row a task: its mean CovSim with the others, and its score."""
    result = found["covsim"]
    return {
        task: {"CovSim": percent(mean), "score": percent(found["scores"][task])}
        for task, mean in zip(result["tasks"], result["mean"], strict=True)
    }


def covsim_and_gain(found: dict[str, Any]) -> Numbers:
    """A row a task: its mean CovSim with the others, and its points above an encoder of its own."""
    rows: Numbers = {}
    for task, row in covsim_and_score(found).items():
        score, alone = row["score"], percent(found["single"].get(task))
        gain = None if score is None or alone is None else score - alone
        rows[task] = {"CovSim": row["CovSim"], "gain": gain}
    return rows


def zero_shot_starts(found: dict[str, Any]) -> Numbers:
    """A row a start, a column a new task."""
    rows: Numbers = {}
    for task, starts in found["zero_shot"].items():
        for start, scores in starts.items():
            rows.setdefault(start, {})[task] = percent(scores[found["metrics"][task]])
    return rows


def adapted(found: dict[str, Any]) -> Numbers:
    """After training from the chosen start, a column a task and share of its data."""
    scores = found["scores"]["validation"]
    row: dict[str, float | None] = {}
    for task in scores:
        for share, entry in found.get("shares", {}).items():
            if share != "100 %":
                row[f"{task}, {share}"] = percent(entry["scores"][task])
        row[task] = percent(scores[task]["score"])
    return {"trained": row}


def unseen_pairs(found: dict[str, Any]) -> Numbers:
    """A row a start, a column a pair and number of steps, with the most examples that were given;
    then what meta-training is ahead, and the half width of its 95 % interval over seeds."""
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
    """A row a kind of comparison: overlap of top heads, Spearman's ρ and D of the plain model, over
    its seeds; in the first every seed's p that its overlap differs from the second by chance."""
    seeds = []
    for name in comparison["arms"]["multi"]["runs"]:
        folder = Path(comparison["folder"]) / name
        scores = HeadScores.load(folder / "importance.json")
        data = read_json(folder / "provenance.json")["data"]
        pairs = list(tasks_and_languages(scores.tasks, data).values())
        measured = Dissociation.load(folder / "dissociation.json")
        axes = specialization_axes(pairs, scores, measured.alpha, measured) if pairs else None
        if axes is None:
            raise InputError(f"{folder}: no task stands there in two languages beside another")
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
