"""Which examples are trained on and which are judged: the stated, seeded rules.

No validation split: a share of the training examples is held out. Examples with the same input stay
on one side, every stratum (class, tenth of the values) gives its share, and tasks over the same
rows hold out the same ones, so that no text is trained on in one task and judged in another.
"""

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from brodmann.artifacts import digest
from brodmann.data.readers import Table
from brodmann.data.tasks import Example
from brodmann.errors import InputError


@dataclass
class Split:
    """Examples with the rows they come from."""

    table: Table
    rows: list[int]
    examples: list[Example]

    def where(self, index: int) -> str:
        return self.table.where(self.rows[index])

    def only(self, indices: Sequence[int]) -> "Split":
        return Split(
            self.table, [self.rows[i] for i in indices], [self.examples[i] for i in indices]
        )


def hold_out(
    split: Split, strata: Sequence[Any], targets: tuple[str, ...], share: float, seed: int
) -> set[int]:
    """The rows of the validation set."""
    by_input: dict[str, list[int]] = defaultdict(list)  # the same text twice is one choice
    by_stratum: dict[Any, list[str]] = defaultdict(list)
    for row, example, stratum in zip(split.rows, split.examples, strata, strict=True):
        key = digest({k: v for k, v in example.items() if k not in targets})
        if key not in by_input:
            by_stratum[stratum].append(key)
        by_input[key].append(row)
    held: set[int] = set()
    owed = 0.0  # strata too small for their share pass the rest on, so that the total is right
    for stratum in sorted(by_stratum, key=str):
        keys = sorted(by_stratum[stratum])
        random.Random(f"{seed}/{stratum}").shuffle(keys)
        owed += share * len(keys)
        at_least = 1 if len(keys) > 1 else 0
        count = min(max(round(owed), at_least), len(keys) - at_least)
        owed -= count
        held.update(row for key in keys[:count] for row in by_input[key])
    return held


def divide(split: Split, held: set[int], task: str) -> tuple[Split, Split]:
    """(train, validation)."""
    kept = [i for i, row in enumerate(split.rows) if row not in held]
    out = [i for i, row in enumerate(split.rows) if row in held]
    if not kept or not out:
        raise InputError(
            f"task '{task}': {len(split.rows)} examples are too few to hold out a validation set: "
            "give more, or a 'validation' file"
        )
    return split.only(kept), split.only(out)


def draw(split: Split, count: int, seed: int) -> Split:
    """A seeded draw of `count` examples, in the file's order."""
    chosen = random.Random(f"{seed}/{len(split.rows)}").sample(range(len(split.rows)), count)
    return split.only(sorted(chosen))
