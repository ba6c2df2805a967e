"""What the rows of a meta-test come to: means over seeds, and meta-training against the others."""

from collections.abc import Mapping
from typing import Any

from brodmann.analysis.statistics import mean_and_spread, paired_interval
from brodmann.artifacts import digest
from brodmann.config import MetaSection
from brodmann.data.tasks import Task

PRETRAINED, MULTITASK, META = "pretrained", "multitask", "meta"


def summary(
    section: MetaSection,
    rows: list[dict[str, Any]],
    rates: Mapping[str, Any],
    unseen: Mapping[str, Task],
    seen: list[Task],
) -> dict[str, Any]:
    """Every unseen pair: scores by shots, steps and start, and meta-training against the others."""
    trained_heads = {task.spec.output_head for task in seen}
    pairs: dict[str, Any] = {}
    for name, task in unseen.items():
        table = []
        for shots in section.shots:
            for steps in section.curve:
                scores = {
                    start: {
                        row["seed"]: row["score"]
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
        "pairs": pairs,
        "rows": digest(rows),
    }


def _over_seeds(by_seed: Mapping[int, float | None]) -> dict[str, Any]:
    """Scores, None where adapting diverged; the mean is of the others."""
    scores = [by_seed[seed] for seed in sorted(by_seed)]
    defined = [score for score in scores if score is not None]
    found = {"scores": scores, "mean": mean_and_spread(defined) if defined else None}
    return found | ({"diverged": len(scores) - len(defined)} if len(defined) < len(scores) else {})


def _difference(
    ours: Mapping[int, float | None], theirs: Mapping[int, float | None]
) -> dict[str, float | None]:
    """Over the seeds in which neither diverged."""
    both = [
        (one, other)
        for seed in sorted(ours)
        if (one := ours[seed]) is not None and (other := theirs.get(seed)) is not None
    ]
    if not both:
        return {"mean": None, "low": None, "high": None}
    return paired_interval([one for one, _ in both], [other for _, other in both])
