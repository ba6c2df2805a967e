r"""How much D depends on the examples that importance was measured on.

Importance is a mean over drawn examples, and the heads at the edge of the top K change with the
draw. The sums over fixed parts of the examples allow the draw to be repeated without measuring
again: each redraw takes as many parts with replacement, independently for every task, and chooses
heads by their mean. D with those heads needs forward passes, T per redraw.

The spread $s$ of D over $B$ redraws enters the interval beside the bootstrap over validation
examples: a combined draw is $D^* + s\,t$ with $t$ from Student's distribution with $B - 1$ degrees
of freedom, since $s$ comes from few redraws. Only the spread is used, not the mean over redraws:
parts drawn with replacement add the noise of the first draw once more, which blurs the choice and
lowers D.

Reference: Efron & Tibshirani 1993, "An Introduction to the Bootstrap" (of the parts).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from brodmann.analysis.dissociation import dissociation_scores
from brodmann.errors import InputError
from brodmann.files import Array
from brodmann.results import Head, HeadScores

USUAL_REDRAWS = 5  # the default


def redrawn(scores: HeadScores, count: int, seed: int) -> list[HeadScores]:
    """Importance recomputed from `count` resamples of the examples."""
    if scores.part_sums is None or scores.part_counts is None:
        raise InputError(
            "redraws: the scores have no sums over parts of the examples: measure importance "
            "again, with an estimator other than 'iterative'"
        )
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        values = []
        for sums, counts in zip(scores.part_sums, scores.part_counts, strict=True):
            present = np.flatnonzero(counts)
            drawn = generator.choice(present, len(present))
            values.append(sums[drawn].sum(axis=0) / counts[drawn].sum())
        settings = {**scores.settings, "normalize": "none"}
        again = HeadScores(scores.tasks, np.stack(values), settings, scores.removed)
        found.append(again.normalized(scores.settings.get("normalize", "none")))
    return found


def redrawn_dissociation(
    matrices: Sequence[Sequence[Sequence[float]]],
    base: Sequence[float],
    chosen: Sequence[Sequence[Head]],
    redrawn_heads: Sequence[Sequence[Sequence[Head]]],
    undefined: dict[int, str],
) -> dict[str, Any]:
    """D of every redraw, its spread, and the share of each task's heads that redraws keep.

    `matrices[b][i][j]` is task i's score with the heads off that redraw b chose for task j.
    """
    found = [dissociation_scores(matrix, base, undefined=undefined) for matrix in matrices]
    pairwise = _columns([one.pairwise for one in found])
    per_task = _columns([one.per_task for one in found])
    mean = _columns([one.mean for one in found])
    kept = [
        float(np.mean([len({*own} & {*again[i]}) / len(own) for again in redrawn_heads]))
        for i, own in enumerate(chosen)
    ]
    return {
        "redraws": len(found),
        "mean": _plain(mean),
        "per_task": _plain(per_task.T),
        "spread": {
            "mean": _plain(mean.std(ddof=1)),
            "per_task": _plain(per_task.std(axis=0, ddof=1)),
            "pairwise": _plain(pairwise.std(axis=0, ddof=1)),
            "pairs": _plain(((pairwise + pairwise.transpose(0, 2, 1)) / 2).std(axis=0, ddof=1)),
        },
        "kept": kept,
    }


def _columns(values: Any) -> Array:
    """Convert None to nan."""
    return np.array(values, dtype=float)


def _plain(values: Any) -> Any:
    """Convert nan to None."""
    shown = np.asarray(values, dtype=object)
    shown[np.isnan(np.asarray(values, dtype=float))] = None
    return shown.tolist()
