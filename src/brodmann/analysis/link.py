r"""Do tasks that are more alike separate less? Similarity of pairs against their dissociation.

Pearson's and Spearman's correlation over the pairs of tasks, and the straight line through them
with the 95 % band of its mean. Pairs share tasks, so they are not independent and the p-values are
too small; with five tasks there are ten pairs.

Reference: Li et al. 2023, Figures 3, 5, 6 and 7.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from brodmann.artifacts import Array
from brodmann.errors import InputError


def pairs_of(matrix: Array) -> Array:
    """The upper triangle, averaged with the lower one."""
    square = np.asarray(matrix, dtype=float)
    upper = np.triu_indices(len(square), k=1)
    return np.asarray(((square + square.T) / 2)[upper])


def linked(similarity: Sequence[float], dissociation: Sequence[float]) -> dict[str, Any]:
    """r and p both ways, slope and intercept, and the band at 50 places."""
    from scipy import stats

    x, y = np.asarray(similarity, float), np.asarray(dissociation, float)
    if x.shape != y.shape or x.ndim != 1 or len(x) < 3:
        raise InputError(f"link: expected three pairs or more of equal number, found {len(x)}")
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
