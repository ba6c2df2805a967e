"""Group runs of a grid that differ only in their seed: means over them, and paired differences.

Seeds are trained models, not draws. A run whose D is undefined (one of its tasks has none) is left
out of the mean of D, and counted: every mean states the number of its runs. The D of a task is
averaged over the runs in which that task has one.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from brodmann.analysis.statistics import difference_over_seeds, mean_and_spread
from brodmann.data.kinds import lower_is_better
from brodmann.results import mean_dissociation
from brodmann.text import reasons

Row = Mapping[str, Any]  # a grid's record of one run


def over_seeds(rows: Sequence[Row]) -> dict[str, Any] | None:
    """D and base scores over seeds; None if fewer than two runs were measured."""
    found = [row["dissociation"] for row in rows if row.get("dissociation")]
    if len(found) < 2:
        return None
    done = [one for one in found if mean_dissociation(one) is not None]
    tasks = found[0]["tasks"]
    every = range(len(tasks))

    def over(values: list[float]) -> list[float | None] | None:
        return list(mean_and_spread(values)) if values else None

    return {
        "seeds": len(done),
        "runs": len(found),
        "left_out": len(found) - len(done),
        "undefined": {
            str(row["varied"].get("seed", "")): reasons(row["dissociation"]["undefined"])
            for row in rows
            if row.get("dissociation") and mean_dissociation(row["dissociation"]) is None
        },
        "undertrained": sorted({name for one in found for name in one["undertrained"]}),
        "tasks": tasks,
        "base": [over([one["base"][i] for one in found]) for i in every],
        "per_task": [
            over([d for one in found if (d := one["per_task"][i]) is not None]) for i in every
        ],
        "mean": over([one["mean"] for one in done]),
    }


def differences(groups: Mapping[str, Sequence[Row]]) -> list[dict[str, Any]]:
    """Differences of every setting from the first one over the same tasks, paired by seed.

    Only settings with at least two seeds in common are compared.
    """
    firsts: dict[tuple[str, ...], str] = {}
    found = []
    for key, rows in groups.items():
        done = {row["varied"].get("seed"): row for row in rows if row["state"] == "done"}
        if not done:
            continue
        tasks = tuple(next(iter(done.values()))["varied"]["tasks"])
        first = firsts.setdefault(tasks, key)
        before = {r["varied"].get("seed"): r for r in groups[first] if r["state"] == "done"}
        seeds = sorted(seed for seed in set(done) & set(before) if seed is not None)
        if key == first or len(seeds) < 2:
            continue
        pairs = [(done[seed], before[seed]) for seed in seeds]
        found.append({"setting": key, "against": first, **_paired(pairs)})
    return found


def _paired(pairs: Sequence[tuple[Row, Row]]) -> dict[str, Any]:
    entries = [[row["splits"]["validation"] for row in pair] for pair in pairs]
    tasks = list(entries[0][0])
    scored = [t for t in tasks if not lower_is_better(entries[0][0][t]["metric"])] or tasks

    def score(names: Sequence[str], side: int) -> list[float]:
        return [float(np.mean([pair[side][name]["score"] for name in names])) for pair in entries]

    separated = [[_dissociation(row) for row in pair] for pair in pairs]
    both = [(a, b) for a, b in separated if a is not None and b is not None]
    return {
        "average": difference_over_seeds(score(scored, 0), score(scored, 1)),
        "per_task": {t: difference_over_seeds(score([t], 0), score([t], 1)) for t in tasks},
        "dissociation": difference_over_seeds([a for a, _ in both], [b for _, b in both])
        if both
        else None,
    }


def _dissociation(row: Row) -> float | None:
    found = row.get("dissociation")
    return None if not found else mean_dissociation(found)
