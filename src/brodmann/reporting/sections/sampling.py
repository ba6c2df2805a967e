"""Sampling: how unsure the model was of each task, and what it was trained on (Pilault et al. 2021,
Figure 8)."""

from typing import Any

from brodmann.data.sampling.samplers import SAMPLERS, Sampler
from brodmann.reporting.blocks import Lines, Section, Table, Words
from brodmann.reporting.record import Record, Study
from brodmann.reporting.sections.training_curves import grouped
from brodmann.text import percent


def section(study: Study) -> Section | None:
    run = next((run for run in study.runs if run.entries("entropy")), None)
    if run is None:
        return None
    entries = run.entries("entropy")
    sampler = run.settings.get("training", {}).get("sampling", "uncertainty")
    line = SAMPLERS.get(sampler, Sampler(by_example=True))  # a sampler of an extension
    chosen = line.by_example
    text = (
        f"The sampler {sampler} chose the examples{line.chooses and ': '}{line.chooses}. "
        if chosen
        else f"Tasks were drawn by the sampler {sampler}; how sure the model was did not count. "
    ) + "Uncertainty is the entropy of an answer over that of a uniform one: 1 knows nothing."
    blocks: list[Any] = [
        Words(text),
        Lines(
            _over_time(run, entries, "entropy", 1.0),
            "step",
            "mean uncertainty" + (" of candidates" if chosen else ""),
            f"How unsure the model was of each task's {'candidates' if chosen else 'examples'}.",
        ),
        Lines(
            _counts(run, entries),
            "step",
            "examples per batch",
            "How many examples of each task were trained on.",
        ),
    ]
    used, taken = entries[-1]["used"], _totals(run, entries)
    rows = [
        (task, f"{taken.get(task, 0):,}", f"{percent(used.get(task, 0.0))} %") for task in run.tasks
    ]
    if (whole := entries[-1].get("used_of_all")) is not None:
        rows.append(("all", f"{sum(taken.values()):,}", f"{percent(whole)} %"))
    caption = "Examples trained on (with repeats), and the share of a task's data they came from."
    blocks.append(Table(("task", "examples", "data used"), rows, caption))
    title = f"Sampling by {sampler}" if chosen else "Uncertainty over training"
    return Section("sampling", title, blocks)


def _over_time(
    run: Record, entries: list[dict[str, Any]], key: str, scale: float
) -> dict[str, list[tuple[float, float]]]:
    series: dict[str, list[tuple[float, float]]] = {task: [] for task in run.tasks}
    for group in grouped(entries):
        for task in run.tasks:
            found = [entry[key][task] for entry in group if task in entry[key]]
            if found:
                series[task].append((group[-1]["step"], scale * sum(found) / len(found)))
    return series


def _counts(run: Record, entries: list[dict[str, Any]]) -> dict[str, list[tuple[float, float]]]:
    series: dict[str, list[tuple[float, float]]] = {task: [] for task in run.tasks}
    before = 0
    for group in grouped(entries):
        steps = group[-1]["step"] - before
        before = group[-1]["step"]
        for task in run.tasks:
            count = sum(entry["examples"].get(task, 0) for entry in group)
            series[task].append((before, count / max(steps, 1)))
    return series


def _totals(run: Record, entries: list[dict[str, Any]]) -> dict[str, int]:
    return {task: sum(entry["examples"].get(task, 0) for entry in entries) for task in run.tasks}
