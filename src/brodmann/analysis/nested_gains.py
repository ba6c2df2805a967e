r"""How much a task gains, on examples that no choice has touched, over examples and seeds.

With scores $s_a^{(k)}, s_b^{(k)}$ of two ways of training over seeds $k = 1 \dots S$, the gain is
$\bar d = \frac{1}{S} \sum_k (s_a^{(k)} - s_b^{(k)})$. Its interval has two levels. Examples are
drawn with replacement, the same for both ways and all seeds, which gives $\bar d^*$. Seeds are too
few (one to five) to be drawn with replacement: two would be drawn equal half of the time, and the
interval would be far too narrow. Instead, the spread $\sigma$ of $d^{(k)}$ within a task is
pooled over the tasks, with $\nu = \sum_t (S_t - 1)$ degrees of freedom, and a draw is

$$\bar d^* + \frac{\sigma}{\sqrt{S}}\, t_\nu .$$

Looking at $m$ gains, or at several arrangements one after the other, needs wider intervals:
$1 - 0.05 / m$ each (Bonferroni), so that all of them hold together in 95 of 100 cases.

References: Davison & Hinkley 1997, "Bootstrap Methods and their Application", §3.8 (hierarchical
data); Dunn 1961, "Multiple Comparisons Among Means" (Bonferroni).
Departure: the seeds' level is Student's t with a pooled spread instead of a bootstrap.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from brodmann.analysis.statistics import (
    LEVEL,
    never_empty,
    percentile_interval,
    unseen_share,
    weights_in_pieces,
)
from brodmann.data.kinds import lower_is_better, resampled_scores
from brodmann.data.tasks import TaskSpec
from brodmann.files import Array

RESAMPLES = 2000
POINT = 0.01


@dataclass(frozen=True)
class SeedSpread:
    """Pooled standard deviation of gains over seeds, and its degrees of freedom (0: unknown)."""

    deviation: float
    freedom: int


@dataclass(frozen=True)
class Gain:
    """One gain with its interval."""

    mean: float
    error: float  # standard error over examples and seeds
    low: float
    high: float
    examples: int
    needed: int  # held-out examples with which a gain of one point would show
    seeds: int

    @property
    def verdict(self) -> str:
        if self.low > 0:
            return "gains"
        return "loses" if self.high < 0 else "no difference"


def seed_spread(differences: Sequence[Sequence[float]]) -> SeedSpread:
    """Pool the spread over seeds of several tasks' gains.

    >>> seed_spread([[0.1, 0.3], [0.0, 0.2]])
    SeedSpread(deviation=0.1414213562373095, freedom=2)
    """
    squares = sum(float(np.sum((np.array(d) - np.mean(d)) ** 2)) for d in differences if len(d))
    freedom = sum(max(len(d) - 1, 0) for d in differences)
    return SeedSpread(float(np.sqrt(squares / freedom)) if freedom else 0.0, freedom)


def seed_differences(one: Sequence[Array], other: Sequence[Array], spec: TaskSpec) -> list[float]:
    """Gain of every seed: scores of `one` minus those of `other`, signed so that more is better."""
    sign = -1 if lower_is_better(spec.metric) else 1
    found = []
    for a, b in zip(one, other, strict=True):
        weights = np.ones((1, len(a)))
        gain = resampled_scores(a, weights, spec) - resampled_scores(b, weights, spec)
        found.append(sign * float(gain[0]))
    return found


def paired_gain(
    one: Sequence[Array],
    other: Sequence[Array],
    spec: TaskSpec,
    *,
    spread: SeedSpread,
    level: float = LEVEL,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Gain:
    """The gain of `one` over `other`: outcomes (example, addend) per seed on the same examples."""
    sign = -1 if lower_is_better(spec.metric) else 1
    examples, seeds = len(one[0]), len(one)
    mean = float(np.mean(seed_differences(one, other, spec)))
    pieces = []
    for weights in weights_in_pieces(examples, resamples, seed):
        each = [
            resampled_scores(a, weights, spec) - resampled_scores(b, weights, spec)
            for a, b in zip(one, other, strict=True)
        ]
        pieces.append(sign * np.mean(each, axis=0))
    drawn = np.concatenate(pieces)
    over_examples = float(drawn.std(ddof=1))
    if spread.freedom:
        generator = np.random.default_rng([seed, 1])
        noise = generator.standard_t(spread.freedom, len(drawn))
        drawn = drawn + noise * spread.deviation / np.sqrt(seeds)
    low, high = never_empty(percentile_interval(drawn, level), unseen_share(examples, level))
    reach = NormalDist().inv_cdf((1 + level) / 2) * over_examples
    needed = max(examples, int(np.ceil(examples * (reach / POINT) ** 2)))
    return Gain(mean, float(drawn.std(ddof=1)), low, high, examples, needed, seeds)
