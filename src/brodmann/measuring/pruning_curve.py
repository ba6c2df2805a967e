"""How a score falls as more and more heads are switched off, least important first."""

from collections.abc import Sequence
from statistics import mean
from typing import Any

from brodmann.errors import InputError
from brodmann.measuring.head_outcomes import HeadOutcomes
from brodmann.measuring.iap import random_heads
from brodmann.results import HeadScores

SHARES = tuple(step / 10 for step in range(1, 10))


def pruning_curve(
    measured: HeadOutcomes,
    scores: HeadScores,
    *,
    shares: Sequence[float] = SHARES,
    draws: int = 3,
    seed: int = 0,
) -> dict[str, Any]:
    """Scores of every task with its least important heads off, and with random ones."""
    if not all(0 < share <= 1 for share in shares):
        raise InputError(f"shares {list(shares)}: expected numbers above 0, up to 1")
    tasks = {}
    for task in measured.tasks:
        base = _score(measured, task, [])
        points = []
        for share in shares:
            least = scores.least(share, task.name)
            random = [
                _score(measured, task, heads) for heads in random_heads(scores, share, draws, seed)
            ]
            points.append(
                {
                    "share": share,
                    "heads": len(least),
                    "least": _score(measured, task, least),
                    "random": mean(random) if random else None,
                }
            )
        tasks[task.name] = {
            "metric": measured.metric(task),
            "examples": measured.examples(task),
            "base": base,
            "trivial": measured.trivial(task),
            "points": points,
        }
    return {"tasks": tasks, "draws": draws, "seed": seed}


def _score(measured: HeadOutcomes, task: Any, off: Sequence[Any]) -> float:
    values = measured.measure(task, off)
    return measured.whole(values, task)
