r"""Do similar tasks separate less? Similarity of pairs of tasks against their dissociation.

Pearson's and Spearman's correlation over the pairs of tasks, and the straight line through them
with the 95 % band of its mean. Pairs share tasks, so they are not independent and the p-values are
too small; with five tasks there are ten pairs.

Reference: Li et al. 2023, "Interpreting and Exploiting Functional Specialization in Multi-Head
Attention under Multi-task Learning", Figures 3, 5, 6 and 7.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from brodmann.errors import InputError
from brodmann.files import Array
from brodmann.results import mean_dissociation


def pairs_of(matrix: Array) -> Array:
    """The upper triangle, averaged with the lower one."""
    square = np.asarray(matrix, dtype=float)
    upper = np.triu_indices(len(square), k=1)
    return np.asarray(((square + square.T) / 2)[upper])


def reindexed(matrix: Array, names: Sequence[str], wanted: Sequence[str]) -> Array:
    """The matrix for `wanted`, in that order; nan for missing names and for None."""
    square = np.asarray(matrix, dtype=float)
    found = np.full((len(wanted), len(wanted)), np.nan)
    there = [place for place, name in enumerate(wanted) if name in names]
    order = [list(names).index(wanted[place]) for place in there]
    found[np.ix_(there, there)] = square[np.ix_(order, order)]
    return found


def dual_task(cells: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Array:
    """Mean D over seeds of every pair of `names` that a grid trained together; nan elsewhere.

    Runs with an undefined D, and cells that differ in more than tasks and seed, do not count.
    """
    values: dict[frozenset[str], list[float]] = {}
    for cell in cells:
        found = cell.get("dissociation") or {}
        pair = frozenset(found.get("tasks", ()))
        plain = set(cell.get("varied", {})) <= {"tasks", "seed"}
        if len(pair) == 2 and plain and (mean := mean_dissociation(found)) is not None:
            values.setdefault(pair, []).append(mean)
    matrix = np.full((len(names), len(names)), np.nan)
    for i, one in enumerate(names):
        for j, other in enumerate(names):
            drawn = values.get(frozenset((one, other)))
            if drawn:
                matrix[i, j] = np.mean(drawn)
    return matrix


def linked_pairs(
    names: Sequence[str], similarity: Array, dissociation: Array
) -> tuple[list[tuple[str, str, float, float]], dict[str, Any] | None]:
    """(task, task, similarity, D) of the pairs that have both, and the link, if defined."""
    places = np.triu_indices(len(names), k=1)
    rows = [
        (names[int(i)], names[int(j)], float(x), float(y))
        for i, j, x, y in zip(*places, pairs_of(similarity), pairs_of(dissociation), strict=True)
        if np.isfinite(x) and np.isfinite(y)
    ]
    try:
        return rows, linked([row[2] for row in rows], [row[3] for row in rows])
    except InputError:  # too few, or all alike
        return rows, None


def linked(similarity: Sequence[float], dissociation: Sequence[float]) -> dict[str, Any]:
    """Both correlations with p, slope and intercept, and the band at 50 points."""
    from scipy import stats

    x, y = np.asarray(similarity, float), np.asarray(dissociation, float)
    if x.shape != y.shape or x.ndim != 1 or len(x) < 3:
        raise InputError(
            f"link: expected at least three pairs, each with both values, found {len(x)}"
        )
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        raise InputError("link: all pairs are alike: no correlation is defined")
    line = stats.linregress(x, y)
    rank = stats.spearmanr(x, y)
    places = np.linspace(x.min(), x.max(), 50)
    middle = line.intercept + line.slope * places
    freedom = len(x) - 2
    band = np.zeros(len(places))
    if freedom > 0:
        rest = y - line.intercept - line.slope * x
        error = np.sqrt((rest**2).sum() / freedom)
        spread = ((x - x.mean()) ** 2).sum()
        band = (
            stats.t.ppf(0.975, freedom)
            * error
            * np.sqrt(1 / len(x) + (places - x.mean()) ** 2 / spread)
        )
    return {
        "pearson": float(line.rvalue),
        "pearson_p": float(line.pvalue),
        "spearman": float(rank.statistic),
        "spearman_p": float(rank.pvalue),
        "slope": float(line.slope),
        "intercept": float(line.intercept),
        "band": [
            [float(place), float(mid - half), float(mid + half)]
            for place, mid, half in zip(places, middle, band, strict=True)
        ],
        "pairs": len(x),
    }
