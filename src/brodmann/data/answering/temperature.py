r"""Temperature: one number per task that makes its probabilities honest.

$$p = \mathrm{softmax}(z / T), \qquad
  T = \arg\min_T \sum_i -\log p_{y_i}(z_i / T) + \tfrac{1}{2} (\log T)^2$$

over the decisions of held-out examples: one per text for a class or choice, two per window for the
ends of a span, one per word for tags, one per label (yes or no) for several labels. The best answer
stays the same. The last term weighs as much as one decision and keeps $T$ finite if all decisions
are right.

Two numbers say how honest probabilities are, both 0 at best. The expected calibration error sorts
the decisions by the probability of the answer given into 15 bins of equal width, and is the mean
distance of that probability from the share of right answers,
$\sum_b \frac{n_b}{n} |\mathrm{acc}_b - \mathrm{conf}_b|$. Brier's score is the mean of
$\sum_k (p_k - [k = y])^2$.

References: Guo et al. 2017, "On Calibration of Modern Neural Networks", §3 and §4.2; Brier 1950,
"Verification of Forecasts Expressed in Terms of Probability".
Departures: the last term.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from brodmann.data.answering.decisions import Decisions, softmax
from brodmann.files import Array

BINS = 15
REACH = (0.05, 20.0)  # temperatures that are tried
STEPS = 60  # of the search, each of which shortens the range by a third
CUT = 100_000  # decisions to fit one number on; more would only take longer


def fit_temperature(decisions: Decisions) -> float:
    """The temperature with the highest likelihood, by golden-section search over its logarithm."""
    keep = slice(None, None, max(1, len(decisions.right) // CUT))
    logits, right = decisions.logits[keep], decisions.right[keep]
    if not len(right):
        return 1.0

    def cost(log: float) -> float:
        return float(_surprises(logits / np.exp(log), right).sum()) + log * log / 2

    low, high = np.log(REACH)
    golden = (np.sqrt(5) - 1) / 2
    for _ in range(STEPS):
        left, there = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, there) if cost(left) < cost(there) else (left, high)
    return float(np.exp((low + high) / 2))


def _surprises(logits: Array, right: Array) -> Array:
    """-log of the probability of the right answers."""
    top = logits.max(axis=1)
    total = top + np.log(np.exp(logits - top[:, None]).sum(axis=1))
    return np.asarray(total - logits[np.arange(len(right)), right])


def tempered(outputs: Sequence[Array], temperature: float) -> list[Array]:
    return list(outputs) if temperature == 1.0 else [logits / temperature for logits in outputs]


def honesty(decisions: Decisions, temperature: float | Array = 1.0) -> dict[str, Any]:
    """Calibration error, Brier's score and the bins of a reliability plot.

    The temperature may differ between decisions. A bin is (mean probability, share of right
    answers, number of decisions); empty ones are left out.
    """
    found = softmax(decisions.logits / np.reshape(temperature, (-1, 1)))
    count = len(decisions.right)
    rows = np.arange(count)
    confidence = found.max(axis=1)
    hit = found.argmax(axis=1) == decisions.right
    place = np.minimum((confidence * BINS).astype(int), BINS - 1)
    sizes = np.bincount(place, minlength=BINS)
    means = np.bincount(place, confidence, BINS), np.bincount(place, hit, BINS)
    bins = [
        [float(sums[b] / sizes[b]) for sums in means] + [int(sizes[b])]
        for b in np.flatnonzero(sizes)
    ]
    target = np.zeros_like(found)
    target[rows, decisions.right] = 1
    return {
        "ece": sum(n * abs(right - said) for said, right, n in bins) / count,
        "brier": float(((found - target) ** 2).sum(axis=1).mean()),
        "bins": bins,
    }
