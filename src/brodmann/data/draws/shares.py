"""Shares of a task's training data, each contained in the next larger one.

Every class is shuffled once; an example's position is (rank in its class + 1/2) / size of its
class, and a share is the first floor(share · N) by position. So a larger share contains every
smaller one, and each keeps the classes' proportions as far as whole examples can.
"""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from brodmann.data.kinds import KINDS
from brodmann.data.tasks import Task
from brodmann.errors import InputError
from brodmann.results import share_of


def with_share(task: Task, share: float, seed: int) -> Task:
    """The task with this share of its training examples, in their own order; 1 returns all."""
    examples = task.splits["train"]
    count = share_of(share, len(examples))
    if count < 1:
        raise InputError(
            f"shares: {share:g} of the {len(examples)} training examples of '{task.name}' is less "
            "than one"
        )
    if count == len(examples):
        return task
    kept = sorted(_order(task, KINDS[task.spec.kind].strata(examples, task.spec), seed)[:count])
    return replace(task, splits={**task.splits, "train": [examples[place] for place in kept]})


def _order(task: Task, strata: Sequence[Any], seed: int) -> list[int]:
    generator = random.Random(f"shares/{task.name}/{seed}")
    members: dict[Any, list[int]] = {}
    for place, stratum in enumerate(strata):
        members.setdefault(stratum, []).append(place)
    placed: list[tuple[float, float, int]] = []
    for same in members.values():
        generator.shuffle(same)
        placed += [
            ((rank + 0.5) / len(same), generator.random(), place) for rank, place in enumerate(same)
        ]
    return [place for _, _, place in sorted(placed)]
