"""Readers of one run (trained, adapted, transferred): rows and columns in the paper's units."""

from typing import Any

from brodmann.recipes import Numbers


def few_shot(summary: dict[str, Any]) -> Numbers:
    """A row a start, a column a task with a number of examples."""
    rows: Numbers = {}
    for task, amounts in summary["tasks"].items():
        for amount, starts in amounts.items():
            for start, entry in starts.items():
                rows.setdefault(start, {})[f"{task}, {amount}"] = _percent(entry["mean"][0])
    return rows


def covsim_and_score(found: dict[str, Any]) -> Numbers:
    """A row a task: its mean CovSim with the others, and its score."""
    result = found["covsim"]
    return {
        task: {"CovSim": _percent(mean), "score": _percent(found["scores"][task])}
        for task, mean in zip(result["tasks"], result["mean"], strict=True)
    }


def covsim_and_gain(found: dict[str, Any]) -> Numbers:
    """A row a task: its mean CovSim with the others, and its points above an encoder of its own."""
    rows: Numbers = {}
    for task, row in covsim_and_score(found).items():
        score, alone = row["score"], _percent(found["single"].get(task))
        gain = None if score is None or alone is None else score - alone
        rows[task] = {"CovSim": row["CovSim"], "gain": gain}
    return rows


def zero_shot_starts(found: dict[str, Any]) -> Numbers:
    """A row a start, a column a new task."""
    rows: Numbers = {}
    for task, starts in found["zero_shot"].items():
        for start, scores in starts.items():
            rows.setdefault(start, {})[task] = _percent(scores[found["metrics"][task]])
    return rows


def adapted(found: dict[str, Any]) -> Numbers:
    """After training from the chosen start, a column a task and share of its data."""
    scores = found["scores"]["validation"]
    row: dict[str, float | None] = {}
    for task in scores:
        for share, entry in found.get("shares", {}).items():
            if share != "100 %":
                row[f"{task}, {share}"] = _percent(entry["scores"][task])
        row[task] = _percent(scores[task]["score"])
    return {"trained": row}


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value
