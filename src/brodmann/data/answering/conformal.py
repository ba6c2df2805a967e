r"""Sets of labels, intervals of numbers and p-values, with a coverage that holds for any model.

With the scores $s_1 … s_n$ of held-out examples (the higher, the stranger) and one of a new text,

$$p = \frac{1 + |\{i : s_i \ge s\}|}{n + 1}, \qquad
  \hat q = \text{the } \lceil (n + 1)\, c \rceil\text{-th smallest } s_i$$

For a class or a choice, $s = 1 - p_y$, and the set of all labels with $s \le \hat q$ contains the
right one with probability of at least $c$ (and is the smallest that does, on average). For a
number, $s = |y - \hat y|$, and $\hat y \pm \hat q$ contains it. This holds on average over texts
like the held-out ones, not for each kind of text. With fewer than $c / (1 - c)$ examples, no score
is high enough, and the set has every label. A set always holds the answer itself.

References: Vovk et al. 2005, "Algorithmic Learning in a Random World"; Sadinle et al. 2019, "Least
Ambiguous Set-Valued Classifiers with Bounded Error Levels".
"""

import math
from collections.abc import Sequence

import numpy as np

from brodmann.files import Array

KEPT = 2000  # scores stored per task


def thinned(scores: Array) -> Array:
    """The scores in rising order; of many, evenly spaced ones that keep both ends."""
    ordered = np.sort(np.asarray(scores, dtype=np.float32))
    if len(ordered) <= KEPT:
        return ordered
    return np.asarray(ordered[np.linspace(0, len(ordered) - 1, KEPT).round().astype(int)])


def p_values(held_out: Array, scores: Array) -> Array:
    """How usual each score is among the held-out ones, which are in rising order."""
    stranger = len(held_out) - np.searchsorted(held_out, np.float32(scores), side="left")
    return np.asarray((1 + stranger) / (len(held_out) + 1))


def reach(held_out: Array, coverage: float) -> float:
    """The score that a share `coverage` of new examples does not exceed."""
    place = math.ceil((len(held_out) + 1) * coverage - 1e-9)  # 0.9 · 10 is not above 9
    return math.inf if place > len(held_out) else float(held_out[place - 1])


def label_region(probabilities: Sequence[float], furthest: float) -> list[int]:
    """The labels that are no stranger than `furthest`, most probable first; at least one."""
    order = np.argsort(-np.asarray(probabilities), kind="stable")
    limit = np.float32(furthest)
    kept = [int(place) for place in order if np.float32(1 - probabilities[place]) <= limit]
    return kept or [int(order[0])]
