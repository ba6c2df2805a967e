"""Choose the rows to hold out for validation if a table has no validation split.

The rule depends on the table and the seed, never on the task: whichever task is loaded first, alone
or with others, in this call or another, the same rows of a table are held out. So no text is
trained on in one task and evaluated in another.

1. The *text column* is the one with the most words per cell, times its share of distinct cells: the
   context of a question, the sentence beside its labels. Rows with the same text stay on one side.
   Rows of a task with a `set`, and translations of one row, stay together by that instead.
2. Texts are sorted by a hash of the seed and the text; the first `share` are held out.
3. Stratified: of every value of the columns with few, short values (labels), and of every tenth of
   a column of numbers, that share is held out, as far as several such columns allow it together.
   A label with two texts or more keeps at least one to learn from, and has one to evaluate on
   unless that would hold out twice the share.
"""

import heapq
import json
import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from brodmann.data.sources.label_columns import as_label, few_values, tenths
from brodmann.data.sources.table import Table
from brodmann.errors import InputError
from brodmann.files import digest

MOST_LABELS, MOST_NUMBERS = 8, 2  # columns used for strata

Value = tuple[str, str]  # a column and its value


@dataclass(frozen=True)
class Claim:
    """The share of a table that a task holds out."""

    table: object  # its identity: a claim may outlive the table
    source: str
    share: float
    task: str


class HeldOut:
    """The rows that the tasks of one list hold out: the same for all tasks over a table."""

    def __init__(self) -> None:
        self.claims: list[Claim] = []
        self._rows: dict[object, set[Any]] = {}

    def rows(self, table: Table, share: float, seed: int, task: str) -> set[Any]:
        """The held-out rows of the table, by their position in their file."""
        self.claim(Claim(table.identity, table.source, share, task))
        if table.identity not in self._rows:
            self._rows[table.identity] = hold_out(table, share, seed)
        return self._rows[table.identity]

    def claim(self, claim: Claim) -> None:
        """Record a task's share; two tasks may not hold out different shares of a table."""
        known = next((c.share for c in self.claims if c.table == claim.table), claim.share)
        if known != claim.share:
            raise InputError(
                f"task '{claim.task}': validation_share = {claim.share:g}, but {known:g} for "
                f"another task over {claim.source}: rows that evaluate one would train the other: "
                "set the same for both"
            )
        self.claims.append(claim)


def hold_out(
    table: Table, share: float, seed: int, together: Mapping[Any, Hashable] | None = None
) -> set[Any]:
    """The rows of the validation set, by their position in their file (`table.lines`).

    `together` groups rows that must stay together, instead of by their text.
    """
    names = [name for name in table.columns() if name != "parallel"]
    text = _text_column(table, names)
    groups: dict[str, list[int]] = defaultdict(list)  # by the hash, in the order of choice
    for index, row in enumerate(table.rows):
        own = (together or {}).get(table.lines[index], row.get("parallel"))
        if own is not None:
            key = digest([seed, "together", str(own)])
        else:
            key = digest([seed, _text(row.get(text)) if text else _text(row)])
        groups[key].append(index)
    ordered = [groups[key] for key in sorted(groups)]
    strata, labels = _strata(table, [name for name in names if name != text], len(ordered))
    values = [{value for row in rows for value in strata[row]} for rows in ordered]
    return {table.lines[row] for place in _chosen(values, labels, share) for row in ordered[place]}


def _chosen(values: Sequence[set[Value]], labels: Sequence[str], share: float) -> list[int]:
    """Indices of the groups to hold out: the first ones that fit the quotas of their values."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for found in values:
        for column, name in found:
            counts[column][name] += 1
    target = max(1, math.floor(share * len(values) + 0.5))
    several = (sum(n > 1 for n in counts[column].values()) for column in labels)
    # One of each label, unless that is far too many; and leave something to learn from.
    target = min(max(target, min(max(several, default=0), 2 * target)), len(values) - 1)
    room = {
        (column, name): quota
        for column, of_column in counts.items()
        for name, quota in _quotas(of_column, share, target, 1 if column in labels else 0).items()
    }
    spare = {(c, name): n - 1 for c, found in counts.items() for name, n in found.items()}
    held: list[int] = []
    taken = [False] * len(values)
    # First every value must have room, then one of them, then none. Finally only the labels of
    # the column with the fewest labels must not be used up.
    for fits, minded in ((all, None), (any, None), (None, None), (None, labels[:1])):
        for place, found in enumerate(values):
            if len(held) >= target:
                return held
            kept = found if minded is None else {v for v in found if v[0] in minded}
            if taken[place] or any(spare[value] < 1 for value in kept):
                continue
            if fits is None or not found or fits(room[value] > 0 for value in found):
                held.append(place)
                taken[place] = True
                for value in found:
                    room[value] -= 1
                    spare[value] -= 1
    return held


def _quotas(counts: Mapping[str, int], share: float, target: int, least: int) -> dict[str, int]:
    """Number held out per value of a column: `target` in total, each close to its share."""
    found = {name: min(least, count - 1) for name, count in counts.items()}
    lacking = [(found[name] - share * count, name) for name, count in counts.items()]
    heapq.heapify(lacking)  # the value that lacks most comes first
    for _ in range(target - sum(found.values())):
        while lacking and found[lacking[0][1]] >= counts[lacking[0][1]] - 1:
            heapq.heappop(lacking)  # one stays to learn from
        if not lacking:
            break
        missing, name = lacking[0]
        found[name] += 1
        heapq.heapreplace(lacking, (missing + 1, name))
    return found


def _text_column(table: Table, names: Sequence[str]) -> str | None:
    """The column that distinguishes the rows with the most words."""
    best: tuple[float, int, str] | None = None
    for name in names:
        cells = [_text(row.get(name)) for row in table.rows]
        words, distinct = sum(len(cell.split()) for cell in cells), len(set(cells))
        found = (words * distinct, sum(map(len, cells)), name)
        if best is None or found[:2] > best[:2]:
            best = found
    return None if best is None else best[2]


def _strata(table: Table, names: Sequence[str], groups: int) -> tuple[list[list[Value]], list[str]]:
    """The values of each row that count as strata, and the label columns, fewest labels first."""
    labels: list[tuple[int, str, list[str]]] = []
    numbers: list[tuple[str, list[str]]] = []
    for name in names:
        cells = [as_label(row.get(name)) for row in table.rows]
        if few_values(cells, groups):
            labels.append((len(set(cells)), name, cells))
        elif (ranks := tenths(cells)) is not None:
            numbers.append((name, ranks))
        elif _some_are_empty(cells):  # questions without an answer
            labels.append((2, name, [str(bool(cell)) for cell in cells]))
    chosen = {name: cells for _, name, cells in sorted(labels)[:MOST_LABELS]}
    few = list(chosen)
    chosen |= dict(sorted(numbers)[:MOST_NUMBERS])
    rows = [[(name, cells[i]) for name, cells in chosen.items()] for i in range(len(table.rows))]
    return rows, few


def _some_are_empty(cells: Sequence[str]) -> bool:
    empty = sum(not cell for cell in cells)
    return 0.02 * len(cells) < empty < 0.98 * len(cells)


def _text(value: Any) -> str:
    """A cell as text; a list of words is joined."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return " ".join(value)
    return "" if value is None else json.dumps(value, sort_keys=True, default=str)
