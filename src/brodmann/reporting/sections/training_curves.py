"""Training: what each task learnt when, what was sampled, and what every phase cost."""

import math
from typing import Any

from brodmann.data.kinds import lower_is_better
from brodmann.reporting.blocks import Fold, Lines, Section, Table
from brodmann.reporting.findings import learning_curves
from brodmann.reporting.record import Record, Study
from brodmann.text import duration, percent

POINTS = 30  # of a curve: more cannot be distinguished


def section(study: Study) -> Section | None:
    found = [(run.name, views(run)) for run in study.runs]
    found = [(name, blocks) for name, blocks in found if blocks]
    if not found:
        return None
    (name, first), *others = found
    blocks = [*first, *(Fold(f"The same for {other}", more) for other, more in others)]
    return Section("training", "Training" if not others else f"Training: {name}", blocks)


def views(run: Record) -> list[Any]:
    blocks: list[Any] = []
    marks = [(float(entry["step"]), "along the map") for entry in run.entries("heads")]
    marks += [
        (float(entry["step"]), entry["begins"])
        for entry in run.entries("begins")
        if "heads" not in entry
    ]
    curves = {
        task: [(step, 100 * value) for step, value in points]
        for task, points in learning_curves(run).items()
        if not lower_is_better(run.validation.get(task, {}).get("metric"))
    }
    if any(len(points) > 1 for points in curves.values()):
        text = "Validation scores during training (each task's own metric)."
        blocks.append(Lines(curves, "step", "score (%)", text, marks))
    if shares := sampling_shares(run):
        text = "What was sampled: each task's share over the steps before each point."
        blocks.append(Fold("Losses and sampling", [
            Lines(losses(run), "step", "loss", "Training loss of each task.", marks),
            Lines(shares, "step", "share of examples (%)", text),
        ]))  # fmt: skip
    if phases := costs(run):
        whole = sum(seconds for _, seconds in phases)
        rows = [(name, duration(s), f"{percent(s / whole, 0)} %") for name, s in phases]
        blocks.append(Table(("phase", "took", "share"), rows, "What each phase cost."))
    return blocks


def losses(run: Record) -> dict[str, list[tuple[float, float]]]:
    series: dict[str, list[tuple[float, float]]] = {task: [] for task in run.tasks}
    for group in grouped(run.entries("loss")):
        for task in run.tasks:
            found = [entry["loss"][task] for entry in group if task in entry["loss"]]
            found = [value for value in found if math.isfinite(value)]
            if found:
                series[task].append((group[-1]["step"], sum(found) / len(found)))
    return series


def sampling_shares(run: Record) -> dict[str, list[tuple[float, float]]]:
    series: dict[str, list[tuple[float, float]]] = {}
    if len(run.tasks) < 2:
        return series
    for group in grouped(run.entries("batches")):
        taken = [entry.get("examples", entry["batches"]) for entry in group]
        total = sum(sum(counts.values()) for counts in taken)
        for task in run.tasks:
            count = sum(counts.get(task, 0) for counts in taken)
            series.setdefault(task, []).append((group[-1]["step"], 100 * count / max(total, 1)))
    return series


def grouped(entries: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Group neighbouring entries, so that a curve has few enough points."""
    size = -(-len(entries) // POINTS)
    return [entries[at : at + size] for at in range(0, len(entries), size)] if entries else []


def costs(run: Record) -> list[tuple[str, float]]:
    """Seconds of every phase; a phase measured again counts again.

    Training is logged twice: its steps add up their own seconds, and each session's stage has the
    whole time, evaluations included. The stages count, unless a killed session left none.
    """
    phases: dict[str, float] = {}
    steps = max((e["seconds"] for e in run.entries("seconds") if "step" in e), default=0.0)
    if steps:
        phases["training"] = 0.0  # comes first, wherever its stage is in the log
    for entry in run.entries("stage"):
        phases[entry["stage"]] = phases.get(entry["stage"], 0.0) + entry["seconds"]
    if steps:
        phases["training"] = max(phases["training"], steps)
    return list(phases.items())
