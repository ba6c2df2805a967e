"""Summarise the rows of a meta-test: means over seeds, and meta-training against the others."""

from collections.abc import Mapping
from typing import Any, get_args

from brodmann.analysis.statistics import mean_and_spread, paired_interval
from brodmann.config.sections import MetaSection, OtherStart
from brodmann.data.tasks import Task
from brodmann.files import digest

PRETRAINED, MULTITASK = get_args(OtherStart)
META = "meta"


def summary(
    section: MetaSection,
    rows: list[dict[str, Any]],
    rates: Mapping[str, Any],
    unseen: Mapping[str, Task],
    seen: list[Task],
) -> dict[str, Any]:
    """Scores of unseen pairs by shots, steps and start, and meta-training against the others."""
    trained_heads = {task.spec.output_head for task in seen}
    pairs: dict[str, Any] = {}
    for name, task in unseen.items():
        table = []
        for shots in section.shots:
            for steps in section.curve:
                scores = {
                    start: {
                        (row["seed"], row.get("draw", 0)): row["score"]
                        for row in rows
                        if (row["pair"], row["start"], row["shots"], row["steps"])
                        == (name, start, shots, steps)
                    }
                    for start in (*section.against, META)
                }
                table.append(
                    {
                        "shots": shots,
                        "steps": steps,
                        "starts": {start: _over_seeds(found) for start, found in scores.items()},
                        "differences": {
                            start: _difference(scores[META], scores[start])
                            for start in section.against
                        },
                    }
                )
        pairs[name] = {
            "metric": task.spec.metric,
            "language": task.spec.language,
            "head": task.spec.output_head,
            "new_head": task.spec.output_head not in trained_heads,
            "table": table,
        }
    return {
        "trained_on": [task.name for task in seen],
        "tuning": section.tuning,
        "settings_tried": len(section.rates),
        "rates": dict(rates),
        "seeds": section.seeds,
        "draws": section.draws,
        "pairs": pairs,
        "rows": digest(rows),
    }


Scores = Mapping[tuple[int, int], float | None]  # by seed and draw; None: adapting diverged


def _over_seeds(scores: Scores) -> dict[str, Any]:
    """Mean and spread over seeds of each seed's mean over its draws."""
    by_seed = _means(scores)
    each = [by_seed.get(seed) for seed in sorted({seed for seed, _ in scores})]
    defined = [score for score in each if score is not None]
    found: dict[str, Any] = {
        "scores": each,
        "mean": mean_and_spread(defined) if defined else None,
    }
    draws = {draw for _, draw in scores}
    if len(draws) > 1:  # spread over draws of the support set, within a seed
        found |= {"draws": len(draws), "over_draws": _spread_of_draws(scores)}
    lost = sum(score is None for score in scores.values())
    return found | ({"diverged": lost} if lost else {})


def _means(scores: Scores) -> dict[int, float]:
    """Mean over each seed's draws that did not diverge."""
    found: dict[int, list[float]] = {}
    for (seed, _), score in scores.items():
        if score is not None:
            found.setdefault(seed, []).append(score)
    return {seed: sum(values) / len(values) for seed, values in found.items()}


def _spread_of_draws(scores: Scores) -> float | None:
    """Standard deviation over a seed's draws, averaged over seeds."""
    spreads = []
    for seed in {seed for seed, _ in scores}:
        own = [score for (s, _), score in scores.items() if s == seed and score is not None]
        if len(own) > 1:
            spreads.append(mean_and_spread(own)[1])
    known = [spread for spread in spreads if spread is not None]
    return sum(known) / len(known) if known else None


def _difference(ours: Scores, theirs: Scores) -> dict[str, float | None]:
    """Difference over seeds, each from the draws in which neither diverged."""
    apart = {
        place: one - other
        for place, one in ours.items()
        if one is not None and (other := theirs.get(place)) is not None
    }
    if not apart:
        return {"mean": None, "low": None, "high": None}
    by_seed = _means(apart)
    values = [by_seed[seed] for seed in sorted(by_seed)]
    return paired_interval(values, [0.0] * len(values))
