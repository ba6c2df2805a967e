"""The promise: which examples are searched on, and what others say of the result."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from brodmann.data.tasks import Example, Task
from brodmann.errors import InputError
from brodmann.measuring.points_lost import Loss


def held_out(
    tasks: Sequence[Task], seed: int
) -> tuple[dict[str, list[Example]], dict[str, list[Example]]]:
    """Examples to search on, and others to confirm on: the test split, or half of validation."""
    searched, confirming = {}, {}
    for task in tasks:
        known = list(task.splits.get("validation", []))
        if not known:
            raise InputError(f"task '{task.name}': has no validation examples to search on")
        other = list(task.splits.get("test", []))
        if not other:
            order = np.random.default_rng(seed).permutation(len(known))
            half = len(known) // 2
            other = [known[place] for place in sorted(order[:half])]
            known = [known[place] for place in sorted(order[half:])]
        searched[task.name], confirming[task.name] = known, other
    return searched, confirming


def confirm(losses: Mapping[str, Loss], tasks: Sequence[Task], lose: float) -> dict[str, Any]:
    """What losses on examples that no choice was made on say of the promise."""
    if all(loss.bound <= lose for loss in losses.values()):
        verdict = "confirmed"  # the bound holds here, too
    elif all(loss.points <= lose for loss in losses.values()):
        verdict = "consistent"  # no task lost more; too few examples to be sure
    else:
        verdict = "refuted"
    entries = {
        task.name: {"metric": task.spec.metric, **asdict(losses[task.name])} for task in tasks
    }
    split = {
        task.name: "test" if task.splits.get("test") else "half of validation" for task in tasks
    }
    return {"confirmed": entries, "confirmed_on": split, "verdict": verdict}
