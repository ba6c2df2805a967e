"""The atlas: every head of the encoder, its importance to every task, and its owner if there are
several tasks."""

from typing import Any

from brodmann.analysis.axes import pooled_maps
from brodmann.reporting.blocks import Atlas, Block, Section, Words
from brodmann.reporting.record import Record, Study
from brodmann.reporting.sections.languages import pairs_of
from brodmann.results import USUAL_ALPHA, HeadScores


def section(study: Study) -> Section | None:
    mapped = {run.name: run for run in study.runs if run.scores is not None}
    if not mapped:
        return None
    first = next(iter(mapped.values()))
    assert first.scores is not None
    layers, heads = first.scores.shape
    estimator = first.scores.settings.get("estimator", "gradient")
    text = (
        f"{layers} layers × {heads} heads. A head matters to a task as far as the task's loss "
        f"reacts to it ({estimator} estimate)."
    )
    if any(run.scores is not None and len(run.scores.tasks) > 1 for run in mapped.values()):
        text += (
            " A head belongs to the task for which it holds the largest share of that task's "
            "importance; the stronger the colour, the more it is that task's alone."
        )
    alpha = first.dissociation.alpha if first.dissociation else USUAL_ALPHA
    maps = {name: run.scores for name, run in mapped.items() if run.scores is not None}
    measured = {name: _measured(run) for name, run in mapped.items()}
    pairs = list(pairs_of(first).values())
    if {len({pair[axis] for pair in pairs}) > 1 for axis in (0, 1)} == {True}:
        maps |= pooled_maps(pairs, first.scores)  # selectable like another run
        measured |= {name: [] for name in maps if name not in measured}
    return Section("atlas", "Atlas of heads", [Words(text), Atlas(maps, measured, alpha)])


def head_maps(scores: HeadScores, alpha: float) -> list[Block]:
    """The maps of one run."""
    return [Atlas({"": scores}, {"": []}, alpha)]


def _measured(run: Record) -> list[dict[str, Any]]:
    """The shares at which D was measured; the interval belongs to the main one."""
    result = run.dissociation
    if result is None:
        return []
    points = {point["alpha"]: point["mean"] for point in result.curve} | {result.alpha: result.mean}
    return [
        {
            "alpha": alpha,
            "mean": points[alpha],
            "interval": result.intervals["mean"] if alpha == result.alpha else None,
        }
        for alpha in sorted(points)
    ]
