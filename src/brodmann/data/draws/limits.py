"""Limit: draw fewer examples of a split, by a documented, seeded rule."""

import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from brodmann.data.resolving import Request
from brodmann.data.sources.table_rows import Split
from brodmann.data.tasks import TaskSpec


def limit(
    splits: dict[str, Split], spec: TaskSpec, request: Request, seed: int, notes: list[str]
) -> dict[str, Split]:
    """The splits with as many examples as the description allows, and a note on the draws."""
    limited, drawn = dict(splits), []
    for split, part in splits.items():
        count = request.description.limit_of(split)
        if count is None or count >= len(part.rows):
            continue
        kinds = request.kind.strata(part.examples, spec)
        strata = [
            (stratum, example.get("language"))
            for stratum, example in zip(kinds, part.examples, strict=True)
        ]
        limited[split] = _draw(part, count, strata, seed)
        drawn.append(f"{len(limited[split].rows):,} of {len(part.rows):,} {split}")
    if drawn:
        notes.append(f"{spec.name}: {', '.join(drawn)} examples drawn (seed {seed})")
    return limited


def _draw(split: Split, count: int, strata: Sequence[Any], seed: int) -> Split:
    """Draw `count` examples by seed, in the file's order, with every stratum in proportion.

    Examples that belong to a set are drawn as whole sets, at most `count` examples in total.
    """
    generator = random.Random(f"{seed}/{len(split.rows)}")
    if split.examples and "set" in split.examples[0]:
        return split.only(sorted(_whole_sets(split, count, generator)))
    by_stratum: dict[Any, list[int]] = defaultdict(list)
    for index, stratum in enumerate(strata):
        by_stratum[stratum].append(index)
    chosen: list[int] = []
    owed = 0.0  # rounding carries over to the next stratum: the total is exact
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
