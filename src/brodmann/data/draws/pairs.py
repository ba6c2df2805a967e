r"""AG-Pair: turn a classification of texts into the question whether two texts share a class.

Rules: half of the pairs share a class, half do not; every text that is used is in exactly two
pairs, so there are as many pairs as texts; no pair occurs twice. As many texts are used as the
class sizes $n_c$ allow: with $M$ texts, $M/2$ pairs join two classes. Put the texts of a class into
$y_c$ chains whose neighbours are the pairs of one class; the $2 y_c$ ends are joined to ends of
other classes, so no class may have more than half of all $M$ ends:

$$\sum_c y_c = M/2, \qquad 1 \le y_c \le \min(n_c, M/4) \text{ where class } c \text{ is used}.$$

Reference: Li et al. 2023, "Interpreting and Exploiting Functional Specialization in Multi-Head
Attention under Multi-task Learning", appendix E. Its classes are equally large; other sizes follow
from the same rules.
"""

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

from brodmann.data.resolving import SAME_CLASS, Request
from brodmann.data.sources.table import Table, Tables
from brodmann.data.tasks import Task
from brodmann.errors import InputError

Pair = tuple[int, int, bool]  # two indices in the list of texts, and whether they share a class
RING = 3  # texts that make a ring in which no pair occurs twice
SWAPS = 5  # per pair, on average, to mix the classes that meet
TRIES = 20


def pair_tables(base: Task, request: Request, seed: int) -> tuple[Tables, list[str]]:
    """Pairs of the texts of `base`, split by split, and notes on texts that are in none.

    `limit` chooses the texts to pair: drawing from finished pairs would leave most of the texts in
    one pair instead of two.
    """
    tables: Tables = {}
    notes: list[str] = []
    for split, examples in base.splits.items():
        most = request.description.limit_of(split)
        pairs = balanced_pairs([example["label"] for example in examples], seed, most)
        if not pairs:
            raise InputError(
                f"{request.where}: pair_of: {split} has too few texts or classes for pairs, or a "
                "limit below 4"
            )
        rows = [
            {
                "text": examples[one]["text"],
                "text_pair": examples[two]["text"],
                "label": SAME_CLASS[same],
            }
            for one, two, same in pairs
        ]
        tables[split] = Table(f"pairs of {base.name} ({split})", rows, range(1, len(rows) + 1))
        if len(pairs) < len(examples):
            limited = "" if most is None or most >= len(examples) else f" (limit {most:,})"
            notes.append(
                f"{request.name}: {len(pairs):,} pairs of {len(examples):,} {split} texts"
                f"{limited}: the most in which every text occurs twice and half share their class"
            )
    return tables, notes


def balanced_pairs(classes: Sequence[Hashable], seed: int, most: int | None = None) -> list[Pair]:
    """The largest set of pairs that follows the rules, at most `most`; empty if there is none."""
    members: dict[Hashable, list[int]] = {}
    for place, name in enumerate(classes):
        members.setdefault(name, []).append(place)
    groups = [members[name] for name in sorted(members, key=str)]
    generator = random.Random(f"pairs/{seed}")
    largest = len(classes) if most is None else min(len(classes), most)
    for count in range(largest // 2 * 2, 2, -2):
        for texts, chains in _plans([len(group) for group in groups], count):
            for _ in range(TRIES):
                pairs = _joined(groups, texts, chains, generator)
                if pairs is not None:
                    return pairs
    return []


def _plans(sizes: list[int], count: int) -> Iterator[tuple[list[int], list[int]]]:
    """(texts, chains) of every class if `count` texts are used; nothing if that is too many.

    With few texts and many classes, the largest classes may have to be separate rings.
    """
    most = [min(size, count // 4) for size in sizes]
    if sum(most) < count // 2:
        return
    largest = sorted((c for c in range(len(sizes)) if sizes[c] >= RING), key=lambda c: -sizes[c])
    for rings in range(len(largest) + 1 if count < 2 * len(sizes) else 1):
        alone = set(largest[:rings])
        ends = [0 if c in alone else most[c] for c in range(len(sizes))]
        chains = _shared_out([0] * len(sizes), ends, sizes, count // 2)
        if chains is None:
            continue
        room = [size if chains[c] or c in alone else 0 for c, size in enumerate(sizes)]
        start = [RING if c in alone else number for c, number in enumerate(chains)]
        texts = _shared_out(start, room, sizes, count)
        if texts is not None:
            yield texts, chains


def _shared_out(
    start: list[int], most: list[int], sizes: list[int], total: int
) -> list[int] | None:
    """Give units one by one to the class furthest behind its size; None if some remain.

    A class with nothing comes first: without a chain it cannot be used at all.
    """
    given = list(start)
    left = max(total - sum(given), 0)
    waiting = [(_place(given[c], sizes[c]), c) for c in range(len(sizes)) if given[c] < most[c]]
    heapq.heapify(waiting)
    while left and waiting:
        _, c = heapq.heappop(waiting)
        given[c] += 1
        left -= 1
        if given[c] < most[c]:
            heapq.heappush(waiting, (_place(given[c], sizes[c]), c))
    return given if sum(given) == total else None


def _place(given: int, size: int) -> tuple[bool, float]:
    return given > 0, -size if given == 0 else given / size


def _joined(
    groups: list[list[int]], texts: list[int], chains: list[int], generator: random.Random
) -> list[Pair] | None:
    """One random realisation of a plan; None if a pair would occur twice."""
    same: list[tuple[int, int]] = []
    ends: list[tuple[int, int]] = []  # (class, text)
    for c, group in enumerate(groups):
        chosen = generator.sample(group, texts[c])
        if chosen and not chains[c]:
            same += zip(chosen, [*chosen[1:], chosen[0]], strict=True)
        for number in range(chains[c]):
            chain = chosen[number :: chains[c]]
            same += itertools.pairwise(chain)
            ends += [(c, chain[0]), (c, chain[-1])]
    # No class has more than half of the ends, so partners half of them apart are of two classes.
    half = len(ends) // 2
    across = [(ends[i], ends[i + half]) for i in range(half)]
    _mix(across, generator)
    pairs = [(a, b, True) for a, b in same] + [(a[1], b[1], False) for a, b in across]
    if len({frozenset(pair[:2]) for pair in pairs}) < len(pairs):
        return None
    turned = [(b, a, s) if generator.random() < 0.5 else (a, b, s) for a, b, s in pairs]
    generator.shuffle(turned)
    return turned


def _mix(across: list[tuple[tuple[int, int], tuple[int, int]]], generator: random.Random) -> None:
    """Exchange partners between pairs at random; each exchange keeps the rules."""
    seen = Counter(frozenset((a[1], b[1])) for a, b in across)
    for _ in range(SWAPS * len(across)):
        i, j = generator.randrange(len(across)), generator.randrange(len(across))
        (a, b), (c, d) = across[i], across[j]
        if generator.random() < 0.5:
            c, d = d, c
        new = frozenset((a[1], d[1])), frozenset((c[1], b[1]))
        if i == j or a[0] == d[0] or c[0] == b[0] or seen[new[0]] or seen[new[1]]:
            continue
        if new[0] == new[1]:
            continue
        seen.subtract([frozenset((a[1], b[1])), frozenset((c[1], d[1]))])
        seen.update(new)
        across[i], across[j] = (a, d), (c, b)
