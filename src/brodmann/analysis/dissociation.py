r"""Dissociation: how much more a task suffers from losing its own heads than another task's.

$$RP_i(H_j) = P_{ij} / P_i \qquad
  D_i = \frac{1}{n-1} \sum_{j \ne i} RP_i(H_j) - RP_i(H_i) \qquad D = \frac{1}{n} \sum_i D_i$$

where $P_{ij}$ is task $i$'s score with the heads $H_j$ of task $j$ off, $P_i$ with nothing off.
All values are fractions. A score $P_i \le 0$ (or none) makes $RP_i$ meaningless: such a task has no
$D_i$, with the reason beside it, and $D$ is the mean over the tasks that have one.

Reference: Li et al. 2023, "Interpreting and Exploiting Functional Specialization in Multi-Head
Attention under Multi-task Learning", §4.1, eq. 5-7; the verdicts follow its §6.1 and Table 9.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from brodmann.errors import InputError
from brodmann.results import Head

DISTINCT = 0.10  # D from which a double dissociation is called distinct, and a single one single
LEARNT = 0.25  # of the way from the trivial answer to a perfect one; less is undertrained


@dataclass
class DissociationScores:
    """D of each task, their mean, and every pair inside the run; None where undefined."""

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
    """`performance[i][j]`: task i evaluated, task j's heads off; `base[i]`: nothing off.

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
    mean = sum(defined) / len(defined) if defined else None
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
    """What a pair of tasks shows: double-distinct, double, single, inverted or none."""
    if d_a is None or d_b is None:
        return "undefined"
    if d_a > 0 and d_b > 0:
        return "double-distinct" if (d_a + d_b) / 2 >= DISTINCT else "double"
    if max(d_a, d_b) > DISTINCT and min(d_a, d_b) < 0:
        return "single"
    return "inverted" if d_a < 0 and d_b < 0 else "none"


def verdicts(scores: DissociationScores) -> list[list[str]]:
    """Of every pair inside one run, from its pairwise D."""
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
    """How many of each task's heads stand in each layer (Li et al. 2023, Figure 4)."""
    return [
        [sum(layer == place for layer, _ in chosen) for place in range(layers)] for chosen in heads
    ]


def undertrained(base: float, trivial: float) -> str | None:
    """Why a task has hardly been learnt, or None: its dissociation then means little."""
    if trivial >= 1 or (base - trivial) / (1 - trivial) >= LEARNT:
        return None
    return (
        f"base score {100 * base:.1f} % is near the {100 * trivial:.1f} % "
        "that answers without reading the text get"
    )
