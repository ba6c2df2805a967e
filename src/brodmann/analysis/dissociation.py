r"""Dissociation: how much more a task suffers from losing its own heads than another task's.

$$RP_i(H_j) = P_{ij} / P_i \qquad
  D_i = \frac{1}{n-1} \sum_{j \ne i} RP_i(H_j) - RP_i(H_i) \qquad D = \frac{1}{n} \sum_i D_i$$

where $P_{ij}$ is task $i$'s score with the heads $H_j$ of task $j$ off, $P_i$ with nothing off.
All values are fractions. A score $P_i \le 0$ (or none) makes $RP_i$ meaningless: such a task has no
$D_i$ but a reason why. $D$ is undefined as soon as one $D_i$ is: a mean over the remaining tasks
would be another quantity under the same name.

`verdict` is the rule of the paper, applied to two numbers. A `finding` uses their intervals, too:
it is the verdict that every point of the two intervals shares, or `unclear` if they share none.

Reference: Li et al. 2023, "Interpreting and Exploiting Functional Specialization in Multi-Head
Attention under Multi-task Learning", §4.1, eq. 5-7; the verdicts follow its §6.1 and Table 9.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from brodmann.errors import InputError
from brodmann.results import Head

DISTINCT = 0.10  # from this D on, a double dissociation is distinct, and a single one single
LEARNT = 0.25  # share of the way from the trivial to a perfect score; less is undertrained
NEAR_GUESSING = 0.9  # share of the loss of guessing; a training loss above it has hardly fallen
UNCLEAR = "unclear"

Ends = Sequence[float] | None  # of an interval


@dataclass
class DissociationScores:
    """D of each task, their mean, and every pair inside the run; None if undefined.

    `undefined` gives the reason for every task without a D; if there is one, the mean is None.
    """

    per_task: list[float | None]
    mean: float | None
    pairwise: list[list[float | None]]  # [i][j] = RP_i(H_j) - RP_i(H_i)
    undefined: dict[int, str]


def dissociation_scores(
    performance: Sequence[Sequence[float]],
    base: Sequence[float],
    *,
    undefined: Mapping[int, str] | None = None,
) -> DissociationScores:
    """D of each task, of each pair, and the mean, from the scores with heads off.

    `performance[i][j]` is task i's score with task j's heads off, `base[i]` with nothing off.
    `undefined` names tasks that are known to have no D, with the reason.
    """
    matrix, intact = np.asarray(performance, float), np.asarray(base, float)
    count = len(intact)
    if matrix.shape != (count, count):
        raise InputError(
            f"performance of shape {matrix.shape} for {count} base scores: expected a square"
        )
    if count < 2:
        raise InputError("dissociation needs at least two tasks")
    per_task: list[float | None] = []
    pairwise: list[list[float | None]] = []
    reasons: dict[int, str] = dict(undefined or {})
    for i in range(count):
        reason = reasons.get(i) or _undefined(intact[i], matrix[i])
        if reason is not None:
            reasons[i] = reason
            per_task.append(None)
            pairwise.append([None] * count)
            continue
        relative = matrix[i] / intact[i]
        against = [float(relative[j] - relative[i]) for j in range(count)]
        others = [against[j] for j in range(count) if j != i]
        per_task.append(sum(others) / len(others))
        pairwise.append([None if j == i else against[j] for j in range(count)])
    defined = [d for d in per_task if d is not None]
    mean = sum(defined) / count if len(defined) == count else None
    return DissociationScores(per_task, mean, pairwise, reasons)


def _undefined(base: float, row: np.ndarray) -> str | None:
    if not math.isfinite(base):
        return "its base score is not a number"
    if base <= 0:
        return f"its base score is {base:.3g}, so a ratio to it means nothing"
    if not np.isfinite(row).all():
        return "a score with heads off is not a number"
    return None


def verdict(d_a: float | None, d_b: float | None) -> str:
    """The paper's verdict on a pair: double-distinct, double, single, inverted or none."""
    if d_a is None or d_b is None:
        return "undefined"
    if d_a > 0 and d_b > 0:
        return "double-distinct" if (d_a + d_b) / 2 >= DISTINCT else "double"
    if max(d_a, d_b) > DISTINCT and min(d_a, d_b) < 0:
        return "single"
    return "inverted" if d_a < 0 and d_b < 0 else "none"


def finding(
    d_a: float | None, d_b: float | None, ends_a: Ends, ends_b: Ends, ends_mean: Ends = None
) -> str:
    """The verdict that holds over both intervals, or `unclear`.

    `ends_mean` is the interval of the pair's D, (D_A + D_B) / 2, which decides about `distinct`;
    without it, the mean of the lower ends is used, which is lower.
    """
    if d_a is None or d_b is None:
        return "undefined"
    if ends_a is None or ends_b is None:
        return UNCLEAR
    (low_a, high_a), (low_b, high_b) = ends_a, ends_b
    if low_a > 0 and low_b > 0:
        lowest = (low_a + low_b) / 2 if ends_mean is None else ends_mean[0]
        return "double-distinct" if lowest >= DISTINCT else "double"
    corners = {verdict(a, b) for a in (low_a, high_a) for b in (low_b, high_b)}
    return corners.pop() if len(corners) == 1 else UNCLEAR


def findings(
    pairwise: Sequence[Sequence[float | None]], intervals: Mapping[str, Any]
) -> list[list[str]]:
    """The finding of every pair inside one run, from its pairwise D and their intervals."""
    count = len(pairwise)
    each = intervals.get("pairwise") or [[None] * count for _ in range(count)]
    means = intervals.get("pairs") or [[None] * count for _ in range(count)]
    return [
        [
            ""
            if i == j
            else finding(pairwise[i][j], pairwise[j][i], each[i][j], each[j][i], means[i][j])
            for j in range(count)
        ]
        for i in range(count)
    ]


def verdicts(scores: DissociationScores) -> list[list[str]]:
    """The paper's verdict for every pair inside one run, from its pairwise D."""
    count = len(scores.per_task)
    return [
        [
            "" if i == j else verdict(scores.pairwise[i][j], scores.pairwise[j][i])
            for j in range(count)
        ]
        for i in range(count)
    ]


def overlap(heads: Sequence[Sequence[Head]]) -> list[list[float]]:
    """|H_A ∩ H_B| / K of every pair (Li et al. 2023, Table 11)."""
    sets = [set(chosen) for chosen in heads]
    return [[len(a & b) / max(len(a), 1) for b in sets] for a in sets]


def heads_per_layer(heads: Sequence[Sequence[Head]], layers: int) -> list[list[int]]:
    """Number of each task's heads in each layer (Li et al. 2023, Figure 4)."""
    return [
        [sum(layer == place for layer, _ in chosen) for place in range(layers)] for chosen in heads
    ]


def clearly_learnt(ends: Ends, trivial: float, *, lower: bool = False) -> bool:
    """Whether even the worse end of a score's interval is well away from the trivial score.

    `lower`: the score is an error, and the way goes from the trivial error to none.
    """
    if ends is None:
        return False
    worse, perfect = (ends[1], 0.0) if lower else (ends[0], 1.0)
    return trivial != perfect and (worse - trivial) / (perfect - trivial) >= LEARNT


def undertrained(
    base: float,
    trivial: float,
    loss: float | None = None,
    guessing: float | None = None,
    *,
    learnt: bool = False,
) -> str | None:
    """Why a task is hardly trained, so that its dissociation means little, or None.

    Either its score is near that of an answer without reading, or its last training loss is still
    near the loss of guessing, unless the interval of its score shows that it has `learnt`.
    """
    if trivial < 1 and (base - trivial) / (1 - trivial) < LEARNT:
        return (
            f"its score, {100 * base:.1f} %, is "
            + ("no better than" if base <= trivial else "little better than")
            + f" answering without reading the text ({100 * trivial:.1f} %)"
        )
    near = loss is not None and guessing is not None and loss > NEAR_GUESSING * guessing
    if near and not learnt:
        return f"training loss {loss:.3f} is near the {guessing:.3f} of guessing"
    return None
