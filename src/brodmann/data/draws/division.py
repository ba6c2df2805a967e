"""Examples with the rows they come from: divided, and drawn by stated, seeded rules.

Which rows of a table are held out is in `data/draws/holdout.py`.
"""

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from brodmann.data.draws.holdout import hold_out
from brodmann.data.sources.named import Loading
from brodmann.data.sources.readers import Table
from brodmann.data.tasks import Example
from brodmann.errors import InputError
from brodmann.files import digest


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


def with_validation(
    whole: Split,
    task: str,
    targets: tuple[str, ...],
    share: float,
    loading: Loading,
    notes: list[str],
) -> dict[str, Split]:
    """The task's examples as training and validation set, and a note on how they were divided."""
    train, validation = divide(whole, _held_lines(whole, task, share, loading), task)
    train, left_out = without_inputs_of(validation, train, targets)
    if left_out > len(train.rows):
        raise InputError(
            f"task '{task}': no validation set can be held out: {left_out:,} of "
            f"{len(whole.rows):,} examples have an input that is in it, too (the rows differ in "
            "columns that the task does not read): give a 'validation' file"
        )
    notes.append(
        f"{task}: no validation split: {len(validation.rows):,} of {len(whole.rows):,} "
        f"training examples held out (stratified, seed {loading.seed})"
    )
    if left_out:
        text = f"{left_out:,} training examples left out, whose input is held out in other rows"
        notes.append(f"{task}: {text}")
    return {"train": train, "validation": validation}


def _held_lines(whole: Split, task: str, share: float, loading: Loading) -> set[Any]:
    """Lines of the table that was read: the same for every task over it."""
    root = whole.table.root or whole.table
    sets = {
        whole.table.lines[row]: example["set"]
        for row, example in zip(whole.rows, whole.examples, strict=True)
        if "set" in example
    }
    if sets:  # no set is torn apart, whatever its rows' texts
        return hold_out(root, share, loading.seed, sets)
    if id(root) not in loading.held_out:
        loading.held_out[id(root)] = (root, share, hold_out(root, share, loading.seed))
    _, known, held = loading.held_out[id(root)]
    if known != share:
        raise InputError(
            f"task '{task}': validation_share = {share:g}, but {known:g} for another task over "
            f"{root.source}: rows that judge one would train the other: give both the same"
        )
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


def without_inputs_of(
    validation: Split, train: Split, targets: tuple[str, ...]
) -> tuple[Split, int]:
    """The training examples whose input is not judged, and how many were left out.

    Rows are divided by the longest text of the table; a task that does not read that column may
    find one input in several rows.
    """

    def key(example: Example) -> str:
        own = {k: v for k, v in example.items() if k not in targets}
        return digest(example.get("set", example.get("parallel", own)))

    judged = {key(example) for example in validation.examples}
    kept = [i for i, example in enumerate(train.examples) if key(example) not in judged]
    return train.only(kept), len(train.rows) - len(kept)


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
