r"""Precision, recall and F1 of every label with intervals, and which labels are confused.

Precision is a proportion of the answers that give a label, recall one of the units that have it:
both have Wilson's interval. F1 is one in disguise: among the $u$ units that have the label or are
given it, $t$ have and are given it, and

$$J = t / u, \qquad F_1 = 2 J / (1 + J),$$

which rises with $J$, so that the ends of Wilson's interval of $J$ become those of $F_1$. Units are
counted one by one: several words of one text count as independent.

Reference: Wilson 1927, "Probable Inference, the Law of Succession, and Statistical Inference".
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from brodmann.analysis.statistics import wilson_interval
from brodmann.data.judging import NOTHING, Judged
from brodmann.files import Array

Interval = list[float] | None  # score and both ends


def label_scores(judged: Judged) -> list[dict[str, Any]]:
    """Scores of the labels that occur or are given, the most frequent first."""
    count = len(judged.names)
    support = np.bincount(judged.truth[judged.truth != NOTHING], minlength=count)
    given = np.bincount(judged.answer[judged.answer != NOTHING], minlength=count)
    both = judged.truth[(judged.truth == judged.answer) & (judged.truth != NOTHING)]
    hits = np.bincount(both, minlength=count)
    order = np.lexsort((np.arange(count), -given, -support))
    return [
        {
            "label": judged.names[place],
            "precision": share(hits[place], given[place]),
            "recall": share(hits[place], support[place]),
            "f1": f1_of(hits[place], given[place], support[place]),
            "support": int(support[place]),
            "given": int(given[place]),
        }
        for place in order
        if support[place] or given[place]
    ]


def share(part: int, whole: int) -> Interval:
    """A proportion with its interval; None of nothing."""
    if not whole:
        return None
    found = float(part / whole)
    return [found, *wilson_interval(found, int(whole))]


def f1_of(hits: int, given: int, support: int) -> Interval:
    """F1 with its interval, from the numbers of right answers, answers and units."""
    jaccard = share(hits, given + support - hits)
    return None if jaccard is None else [2 * value / (1 + value) for value in jaccard]


def confusions(judged: Judged) -> list[tuple[int, int, int]]:
    """(right, given, how often) of every confusion that occurs, the most frequent first."""
    wrong = judged.truth != judged.answer
    pairs = np.stack([judged.truth[wrong], judged.answer[wrong]], axis=1)
    if not len(pairs) or not len(judged.names):
        return []
    found, counts = np.unique(pairs, axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return [(int(found[i, 0]), int(found[i, 1]), int(counts[i])) for i in order]


def confusion_matrix(judged: Judged, chosen: Sequence[int]) -> Array:
    """How often each of the chosen labels, the rows, was answered as each of them, the columns."""
    place = np.full(len(judged.names) + 1, -1)  # the last one is NOTHING
    place[list(chosen)] = np.arange(len(chosen))
    rows, columns = place[judged.truth], place[judged.answer]
    kept = (rows >= 0) & (columns >= 0)
    matrix = np.zeros((len(chosen), len(chosen)), np.int64)
    np.add.at(matrix, (rows[kept], columns[kept]), 1)
    return matrix
