"""Learning curves: scores with a quarter, half and all of the training examples.

Scores are of the choosing part, one seed per point. What another doubling of the labels brings is
read from the last one, which bounds it from above where curves flatten.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from brodmann.advising.arrangements import CellKey
from brodmann.advising.cell_runs import Bench
from brodmann.advising.choosing import Choice
from brodmann.advising.costs import used_share
from brodmann.advising.trying import score_of

SHARES = (0.25, 0.5, 1.0)
FOR_CURVES = 0.95  # share of the budget that everything up to here may take


def label_curves(bench: Bench, choice: Choice, names: Sequence[str]) -> dict[str, Any]:
    """Points per task, as far as the budget goes: tasks that share first, whole curves only."""
    curves: dict[str, Any] = {}
    shared = [task for group in choice.shared for task in group]
    for task in [*shared, *(name for name in names if name not in shared)]:
        own = [CellKey((task,), share=share) for share in SHARES]
        beside = [replace(choice.cell_of(task, 0), share=share) for share in SHARES]
        if not bench.purse.affords([*own, *beside], FOR_CURVES):
            continue
        curves[task] = {
            "examples": [round(share * _size(bench, task)) for share in SHARES],
            "alone": _scores(bench, own, task),
            "shared": _scores(bench, beside, task) if task in shared else None,
        }
        best = curves[task]["shared"] or curves[task]["alone"]
        curves[task]["last_doubling"] = best[-1] - best[-2]
    return curves


def _size(bench: Bench, task: str) -> int:
    """Training examples of a trial with all of its share."""
    size = bench.purse.speed.sizes[task]
    return round(used_share(1.0, size, bench.purse.plan.most) * size)


def _scores(bench: Bench, cells: Sequence[CellKey], task: str) -> list[float]:
    found = []
    for cell in cells:
        bench.run(cell)
        found.append(score_of(bench.choosing(cell, task), bench, task))
    return found
