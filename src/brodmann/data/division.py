"""Which examples are trained on and which are judged: the stated, seeded rules.

No validation split: a share of the training examples is held out. Examples with the same input (or
of the same set) stay on one side, every stratum (class, tenth of the values) gives its share, and
tasks over the same rows hold out the same ones: no text is trained on in one task and judged
in another.
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
) -> set[Any]:
    """The rows of the validation set, by where they stand in their file."""
    by_input: dict[str, list[Any]] = defaultdict(list)  # the same text twice is one choice
    by_stratum: dict[Any, list[str]] = defaultdict(list)
    for row, example, stratum in zip(split.rows, split.examples, strata, strict=True):
        own = {k: v for k, v in example.items() if k not in targets}
        together = example.get("set", example.get("parallel", own))  # translations, too
        key = digest(together)
        if key not in by_input:
            by_stratum[stratum].append(key)
        by_input[key].append(split.table.lines[row])
    held: set[Any] = set()
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


def divide(split: Split, held: set[Any], task: str) -> tuple[Split, Split]:
    """(train, validation)."""
    out = [i for i, row in enumerate(split.rows) if split.table.lines[row] in held]
    kept = sorted(set(range(len(split.rows))) - set(out))
    if not kept or not out:
        raise InputError(
            f"task '{task}': {len(split.rows)} examples are too few to hold out a validation set: "
            "give more, or a 'validation' file"
        )
    return split.only(kept), split.only(out)


def draw(split: Split, count: int, strata: Sequence[Any], seed: int) -> Split:
    """A seeded draw of `count` examples in the file's order, every stratum in proportion.

    Examples that belong to a set are drawn as whole sets, of at most `count` examples in all.
    """
    generator = random.Random(f"{seed}/{len(split.rows)}")
    if split.examples and "set" in split.examples[0]:
        return split.only(sorted(_whole_sets(split, count, generator)))
    by_stratum: dict[Any, list[int]] = defaultdict(list)
    for index, stratum in enumerate(strata):
        by_stratum[stratum].append(index)
    chosen: list[int] = []
    owed = 0.0  # what rounding withholds from one stratum goes to the next: the total is exact
    for stratum in sorted(by_stratum, key=str):
        members = by_stratum[stratum]
        owed += count * len(members) / len(split.rows)
        number = min(round(owed), len(members))
        owed -= number
        chosen += generator.sample(members, number)
    left = sorted(set(range(len(split.rows))) - set(chosen))
    chosen += generator.sample(left, count - len(chosen))
    return split.only(sorted(chosen))


def _whole_sets(split: Split, count: int, generator: random.Random) -> list[int]:
    sets: dict[Any, list[int]] = defaultdict(list)
    for index, example in enumerate(split.examples):
        sets[example["set"]].append(index)
    names = list(sets)
    generator.shuffle(names)
    chosen: list[int] = []
    for name in names:
        if len(chosen) + len(sets[name]) <= count:
            chosen += sets[name]
    return chosen or sets[names[0]]
