r"""Intervals and tests: how much a number would change with other examples or other seeds.

Intervals of scores. A proportion (accuracy, exact match: every example is right or wrong) has
Wilson's interval,

$$\frac{1}{1 + z^2/n} \left( p + \frac{z^2}{2n} \pm
  z \sqrt{\frac{p (1 - p)}{n} + \frac{z^2}{4 n^2}} \right),$$

which is not empty at 0 and 100 %: 300 of 300 is [98.7, 100.0]. Every other metric has the
percentile interval of the bootstrap. If all resamples agree, that interval would be empty; then it
is Wilson's interval of the score, taken as a share of its range. A difference that no resample
changes reaches as far as Wilson's bound of a share that was never seen, $z^2 / (n + z^2)$.

Tests of paired differences are two-sided and calibrated. Over seeds it is Student's t: seeds are
few, and the scores of trained models are close to normal. Over examples it is a permutation test:
if two models are equally good, their answers to an example may be exchanged.

References: Wilson 1927, "Probable Inference, the Law of Succession, and Statistical Inference";
Efron & Tibshirani 1993, "An Introduction to the Bootstrap" (percentile interval); Phipson & Smyth
2010, "Permutation P-values Should Never Be Zero".
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from brodmann.data.kinds import metric_of
from brodmann.data.tasks import TaskSpec
from brodmann.errors import InputError
from brodmann.files import Array

LEVEL = 0.95
SIGNIFICANT = 0.05
LARGEST_WEIGHTS = 5_000_000  # numbers held at once: 40 MB
FEWEST_DRAWS = 20  # with fewer, a permutation p-value is never below 0.05
FEWEST_SEEDS = 3  # with two, Student's t finds next to nothing
SMALLEST = 1e-12  # differences below it are rounding
EVERY_SIGN = 12  # differences: up to this many, all 2^n signs are tried


def bootstrap_weights(examples: int, resamples: int, seed: int) -> Array:
    """Number of times each example is drawn, (resample, example); every row sums to `examples`."""
    generator = np.random.default_rng(seed)
    shares = np.full(examples, 1 / examples)
    return generator.multinomial(examples, shares, size=resamples).astype(np.float64)


def percentile_interval(values: Array, level: float = LEVEL) -> tuple[float, float]:
    tail = (1 - level) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)


def bootstrap_interval(
    score: Callable[[Array], Array],
    examples: int,
    *,
    resamples: int,
    seed: int,
    level: float = LEVEL,
) -> tuple[float, float]:
    """Percentile interval of `score(weights)`; the weights come in pieces, to save memory."""
    drawn = [score(weights) for weights in weights_in_pieces(examples, resamples, seed)]
    return percentile_interval(np.concatenate(drawn), level)


def weights_in_pieces(examples: int, resamples: int, seed: int) -> Iterator[Array]:
    """`bootstrap_weights` in pieces of as many resamples as memory should hold."""
    for start, count in _pieces(examples, resamples):
        yield bootstrap_weights(examples, count, seed + start)


def exchanges_in_pieces(examples: int, resamples: int, seed: int) -> Iterator[Array]:
    """Random halves for a permutation test, (resample, example): 1 keeps, 0 exchanges."""
    for start, count in _pieces(examples, resamples):
        generator = np.random.default_rng(seed + start)
        yield generator.integers(0, 2, size=(count, examples)).astype(np.float64)


def _pieces(examples: int, resamples: int) -> Iterator[tuple[int, int]]:
    at_once = max(1, LARGEST_WEIGHTS // examples)
    for start in range(0, resamples, at_once):
        yield start, min(at_once, resamples - start)


def score_interval(
    values: Array, spec: TaskSpec, *, resamples: int, seed: int = 0, level: float = LEVEL
) -> list[float] | None:
    """Interval of a primary metric over its examples (over whole sets, if they come in sets).

    `values` are the outcomes of the examples. The interval is about one model: it does not include
    how much another training run would change the score. A constant error has no interval.
    """
    examples = len(values)
    metric = metric_of(spec)
    score = metric.whole(values)
    if metric.proportion and values.shape[1] == 1 and set(np.unique(values)) <= {0, 1}:
        return list(wilson_interval(score, examples, level))
    low, high = bootstrap_interval(
        lambda weights: metric.resampled(values, weights),
        examples,
        resamples=resamples,
        seed=seed,
        level=level,
    )
    if high - low > SMALLEST:
        return [low, high]
    lowest = metric.lowest
    if not lowest <= score <= 1:
        return None
    ends = wilson_interval((score - lowest) / (1 - lowest), examples, level)
    return [lowest + (1 - lowest) * end for end in ends]


def wilson_interval(share: float, count: int, level: float = LEVEL) -> tuple[float, float]:
    """Interval of a proportion: `share` of `count` examples."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    shrink = 1 + z * z / count
    centre = (share + z * z / (2 * count)) / shrink
    reach = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / shrink
    return (
        0.0 if share == 0 else max(0.0, centre - reach),
        1.0 if share == 1 else min(1.0, centre + reach),
    )


def unseen_share(count: int, level: float = LEVEL) -> float:
    """Wilson's upper bound of a share seen in none of `count` examples."""
    return wilson_interval(0.0, count, level)[1]


def never_empty(ends: Sequence[float], reach: float) -> list[float]:
    """The interval or, if all resamples agreed, one that extends by `reach` to both sides."""
    low, high = ends
    return [low, high] if high - low > SMALLEST else [low - reach, high + reach]


def random_draw_p_value(observed: float, draws: Array) -> float | None:
    """Share of random draws at least as low as the observed value, (1 + k) / (r + 1)."""
    if len(draws) < FEWEST_DRAWS:
        return None
    return float((1 + np.sum(np.asarray(draws) <= observed)) / (len(draws) + 1))


def permutation_p_value(observed: float, drawn: Array) -> float:
    """Two-sided p: share of the permuted differences as far from 0, the observed one included."""
    reached = np.abs(np.asarray(drawn)) >= abs(observed) - SMALLEST
    return float((1 + np.sum(reached)) / (len(drawn) + 1))


def paired_permutation(
    a: Sequence[float], b: Sequence[float], resamples: int = 10_000, seed: int = 0
) -> float:
    """Two-sided p of the mean of a - b over the same items, by flipping the signs of differences.

    Up to 12 differences, all signs are tried, and the p-value is exact.
    """
    differences = _differences(a, b)
    count = len(differences)
    observed = float(differences.mean())
    if count <= EVERY_SIGN:
        signs = np.array(list(itertools.product((-1.0, 1.0), repeat=count)))
        reached = np.abs(signs @ differences / count) >= abs(observed) - SMALLEST
        return float(reached.mean())
    drawn = [
        (2 * kept - 1) @ differences / count for kept in exchanges_in_pieces(count, resamples, seed)
    ]
    return permutation_p_value(observed, np.concatenate(drawn))


def paired_t(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Two-sided p of the mean of a - b over seeds, by Student's t; None for a single seed.

    Equal differences have no spread to compare with: their signs decide.
    """
    from scipy import stats

    differences = _differences(a, b)
    if len(differences) < 2:
        return None
    if np.ptp(differences) <= SMALLEST:
        return paired_permutation(a, b)
    error = float(differences.std(ddof=1)) / len(differences) ** 0.5
    return float(2 * stats.t.sf(abs(differences.mean()) / error, len(differences) - 1))


def paired_interval(a: Sequence[float], b: Sequence[float], level: float = LEVEL) -> dict[str, Any]:
    """Mean of a - b over seeds with Student's interval, which is valid for few seeds, too.

    One seed, or differences without any spread, give no interval.
    """
    from scipy import stats

    differences = _differences(a, b)
    mean, count = float(differences.mean()), len(differences)
    if count < 2 or np.ptp(differences) <= SMALLEST:
        return {"mean": mean, "low": None, "high": None}
    error = float(differences.std(ddof=1)) / count**0.5
    reach = float(stats.t.ppf((1 + level) / 2, count - 1)) * error
    return {"mean": mean, "low": mean - reach, "high": mean + reach}


def difference_over_seeds(a: Sequence[float], b: Sequence[float]) -> dict[str, Any]:
    """Paired difference over seeds, as in tables: mean, interval, p and number of seeds."""
    found = paired_interval(a, b)
    ends = None if found["low"] is None else [found["low"], found["high"]]
    p = paired_t(a, b) if len(a) >= FEWEST_SEEDS else None
    return {"difference": found["mean"], "interval": ends, "p": p, "seeds": len(a)}


def _differences(a: Sequence[float], b: Sequence[float]) -> Array:
    first, second = np.asarray(a, float), np.asarray(b, float)
    if first.shape != second.shape or first.ndim != 1 or not len(first):
        raise InputError(
            f"expected two lists of equal length, found {len(first)} and {len(second)}"
        )
    return np.asarray(first - second)


def mean_and_spread(values: Sequence[float] | Array) -> tuple[float, float | None]:
    """Mean and standard deviation over seeds (None for one seed)."""
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return float(np.mean(values)), spread


def rank_auc(own: Array, foreign: Array) -> float:
    """How often a foreign score exceeds an own one; ties count half (area under the ROC curve)."""
    ordered = np.sort(own)
    below = np.searchsorted(ordered, foreign, side="left")
    up_to = np.searchsorted(ordered, foreign, side="right")
    return float((below + up_to).mean() / (2 * len(ordered)))
