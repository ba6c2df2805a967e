"""New tasks for a trained model: which old tasks lose by them, and which starts are identical.

Used by the page and by the terminal, so that both say the same.
"""

from typing import Any

from brodmann.models.encoders import architecture_of, names_with
from brodmann.text import listed, percent, points, with_interval

LOST = 0.02  # points of a score: a clear loss is at least this, with its interval below zero
ALIKE = (
    "Every start has the same score before training, so it is shown once: in the architecture "
    "`shared` no part of the encoder belongs to one task, and `like` has nothing to copy."
)


def start_rows(found: dict[str, Any]) -> list[tuple[str, list[float | None]]]:
    """(start, the new tasks' zero-shot scores); one row if all starts are the same model."""
    tasks = list(found["zero_shot"])
    starts = list(dict.fromkeys(s for table in found["zero_shot"].values() for s in table))
    rows = [
        (
            start,
            [found["zero_shot"][task].get(start, {}).get(found["metrics"][task]) for task in tasks],
        )
        for start in starts
    ]
    return [("before training", rows[0][1])] if found.get("alike") else rows


def lost_tasks(found: dict[str, Any]) -> dict[str, str]:
    """Old tasks that clearly lost by the new ones, each with its loss in words."""
    old = found.get("old") or {}
    lost = {}
    for task, after in (old.get("after") or {}).items():
        before = old["before"][task]
        ends = old.get("interval", {}).get(task)  # older results have none
        if before - after >= LOST and (ends is None or ends[1] < 0):
            metric = old.get("metrics", {}).get(task, "")
            words = (
                f"{metric} {percent(before)} → {percent(after)} %, {points(after - before)} points"
            )
            lost[task] = with_interval(words, ends)
    return lost


def loss_in_words(found: dict[str, Any]) -> str:
    """One sentence about the old tasks that clearly lost; empty if none did."""
    told = [f"{task} ({words})" for task, words in lost_tasks(found).items()]
    return f"Learning the new tasks cost old ones: {listed(told)}." if told else ""


def advice_against_loss(found: dict[str, Any]) -> str:
    """Advice on how to keep old tasks unchanged."""
    advice = "Set frozen = true in [adapt]: then only what belongs to the new tasks is trained"
    if architecture_of(found.get("architecture")).task_parts:
        return f"{advice}."
    return (
        f"{advice}, and old tasks stay as they are. If that learns too little, train the start "
        f"with an architecture that gives every task its own parts: {names_with('task_parts')}."
    )
