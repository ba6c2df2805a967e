r"""Do heads specialise by task or by language?

Pairs of task and language, each with its map of heads, are compared along two axes: the same task
in another language, and another task in the same language. For every kind of comparison

- the overlap $|H_A \cap H_B| / K$ of the top heads and Spearman's $\rho$ of all importances, and
- the pairwise dissociation $RP_i(H_j) - RP_i(H_i)$ (Li et al. 2023, eq. 5): how much more a pair
  suffers from losing its own heads than those of the other,

are averaged. Heads that serve a task in any language overlap along the first axis and dissociate
along the second. Whether the two overlaps differ is tested by exchanging the maps of the pairs at
random (permutation, two-sided); with few pairs even perfect specialisation cannot reach a small p,
so the smallest possible one is reported, too.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from brodmann.analysis.dissociation import overlap
from brodmann.files import Array
from brodmann.results import Dissociation, HeadScores

AXES = ("same task, other language", "same language, other task", "both differ")
PERMUTATIONS = 5000


def tasks_and_languages(
    names: Iterable[str], data: Mapping[str, Mapping[str, Any]]
) -> dict[str, tuple[str, str]]:
    """The (task, language) of every task, from the run's data records; empty if one has none.

    The same named task in several languages is one task, whatever its output heads; so are tasks
    that share an output head (an English and a Spanish dataset of the same thing).
    """
    known = {name: data.get(name, {}) for name in names}
    if not all(entry.get("language") for entry in known.values()):
        return {}
    spoken: dict[str, set[str]] = {}
    for entry in known.values():
        spoken.setdefault(_named(entry), set()).add(entry["language"])
    return {
        name: (
            named
            if (named := _named(entry)) and len(spoken[named]) > 1
            else entry.get("head") or name,
            entry["language"],
        )
        for name, entry in known.items()
    }


def _named(entry: Mapping[str, Any]) -> str:
    """`builtin/topic` for `builtin/topic:es`; empty for the user's own data."""
    return str(entry.get("named") or "").partition(":")[0]


def kind_of(one: tuple[str, str], other: tuple[str, str]) -> str | None:
    """The kind of comparison of two pairs (task, language); None for a pair with itself."""
    same_task, same_language = one[0] == other[0], one[1] == other[1]
    if same_task and same_language:
        return None
    return AXES[0] if same_task else AXES[1] if same_language else AXES[2]


def specialization_axes(
    pairs: Sequence[tuple[str, str]],
    scores: HeadScores,
    alpha: float,
    dissociation: Dissociation | None = None,
    *,
    seed: int = 0,
) -> dict[str, Any] | None:
    """Means by kind of comparison, and the test; None without both axes.

    `pairs[i]` is the (task, language) of `scores.tasks[i]`.
    """
    kinds = [[kind_of(a, b) for b in pairs] for a in pairs]
    if not {AXES[0], AXES[1]} <= {kind for row in kinds for kind in row}:
        return None
    tops = overlap([scores.top(alpha, task) for task in scores.tasks])
    # Removed heads have importance 0 for every pair: as ties they would look similar.
    present = np.array([head not in scores.removed for head in np.ndindex(scores.shape)])
    ranks = _spearman(scores.values.reshape(len(scores.tasks), -1)[:, present])
    separated = _pairwise(scores.tasks, dissociation)
    table: dict[str, dict[str, Any]] = {}
    for kind in AXES:
        places = [(i, j) for i, row in enumerate(kinds) for j, k in enumerate(row) if k == kind]
        if not places:
            continue
        apart = [separated[i][j] for i, j in places]
        defined = [value for value in apart if value is not None]
        table[kind] = {
            "comparisons": len(places) // 2,
            "overlap": float(np.mean([tops[i][j] for i, j in places])),
            "spearman": float(np.mean([ranks[i, j] for i, j in places])),
            # A mean of pairwise D is undefined if one of them is.
            "dissociation": float(np.mean(defined)) if len(defined) == len(apart) else None,
        }
    observed = table[AXES[0]]["overlap"] - table[AXES[1]]["overlap"]
    return {
        "alpha": alpha,
        "axes": table,
        "difference": observed,
        "p": _permutation_p(np.asarray(tops), pairs, observed, seed),
        "smallest_p": smallest_p(pairs, seed),
    }


def smallest_p(pairs: Sequence[tuple[str, str]], seed: int = 0) -> float:
    """The p-value of the test for maps that depend on the task alone, or the language alone."""
    found = []
    for axis in (0, 1):
        perfect = np.array([[float(a[axis] == b[axis]) for b in pairs] for a in pairs])
        observed = _difference(perfect, *_masks(pairs))
        found.append(_permutation_p(perfect, pairs, observed, seed))
    return min(found)


def pooled_maps(pairs: Sequence[tuple[str, str]], scores: HeadScores) -> dict[str, HeadScores]:
    """One map per task over its languages, and one map per language over its tasks.

    Every pair's scores count with equal weight: they are divided by their sum first.
    """
    totals = np.abs(scores.values).sum(axis=(1, 2), keepdims=True)
    shares = scores.values / np.where(totals > 0, totals, 1)
    found = {}
    for axis, title in enumerate(("tasks, over languages", "languages, over tasks")):
        names = list(dict.fromkeys(pair[axis] for pair in pairs))
        values = [
            shares[[place for place, pair in enumerate(pairs) if pair[axis] == name]].mean(axis=0)
            for name in names
        ]
        found[title] = HeadScores(tuple(names), np.array(values), scores.settings, scores.removed)
    return found


def _pairwise(tasks: Sequence[str], dissociation: Dissociation | None) -> list[list[float | None]]:
    """D of these tasks against each other; None if it was not measured."""
    known = [] if dissociation is None else dissociation.tasks
    return [
        [
            None
            if dissociation is None or one not in known or other not in known
            else dissociation.pairwise[known.index(one)][known.index(other)]
            for other in tasks
        ]
        for one in tasks
    ]


def _spearman(values: Array) -> Array:
    from scipy.stats import rankdata

    ranks = np.apply_along_axis(rankdata, 1, values)
    return np.atleast_2d(np.corrcoef(ranks))


def _permutation_p(
    tops: Array, pairs: Sequence[tuple[str, str]], observed: float, seed: int
) -> float:
    """p-value over all orders of the pairs or, if they are many, random ones."""
    first, second = _masks(pairs)
    generator = np.random.default_rng(seed)
    count = len(pairs)
    every = math.factorial(count) <= PERMUTATIONS
    orders: Iterable[Any] = (
        itertools.permutations(range(count))
        if every
        else (generator.permutation(count) for _ in range(PERMUTATIONS))
    )
    reached = total = 0
    for order in orders:
        drawn = tops[np.ix_(order, order)]
        reached += abs(_difference(drawn, first, second)) >= abs(observed) - 1e-12
        total += 1
    return reached / total if every else (reached + 1) / (total + 1)


def _masks(pairs: Sequence[tuple[str, str]]) -> tuple[Array, Array]:
    kinds = [[kind_of(a, b) for b in pairs] for a in pairs]
    first, second = (np.array([[k == kind for k in row] for row in kinds]) for kind in AXES[:2])
    return first, second


def _difference(tops: Array, first: Array, second: Array) -> float:
    return float(tops[first].mean() - tops[second].mean())
