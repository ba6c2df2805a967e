"""Resampling: how much a number would move with other validation examples.

Reference: Efron & Tibshirani 1993, "An Introduction to the Bootstrap" (percentile interval).
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from brodmann.artifacts import Array
from brodmann.errors import InputError

LARGEST_WEIGHTS = 5_000_000  # numbers held at once: 40 MB
FEWEST_DRAWS = 20  # with fewer a permutation p-value is never below 0.05


def bootstrap_weights(examples: int, resamples: int, seed: int) -> Array:
    """How often each example is drawn, (resample, example); every row adds up to `examples`."""
    generator = np.random.default_rng(seed)
    shares = np.full(examples, 1 / examples)
    return generator.multinomial(examples, shares, size=resamples).astype(np.float64)


def percentile_interval(values: Array, level: float = 0.95) -> tuple[float, float]:
    tail = (1 - level) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)


def bootstrap_interval(
    score: Callable[[Array], Array],
    examples: int,
    *,
    resamples: int,
    seed: int,
    level: float = 0.95,
) -> tuple[float, float]:
    """Percentile interval of `score(weights)`; the weights come in pieces, for memory's sake."""
    drawn = [score(weights) for weights in weights_in_pieces(examples, resamples, seed)]
    return percentile_interval(np.concatenate(drawn), level)


def weights_in_pieces(examples: int, resamples: int, seed: int) -> Iterator[Array]:
    """`bootstrap_weights` of many examples, so many resamples at a time as memory should hold."""
    at_once = max(1, LARGEST_WEIGHTS // examples)
    for start in range(0, resamples, at_once):
        yield bootstrap_weights(examples, min(at_once, resamples - start), seed + start)


def random_draw_p_value(observed: float, draws: Array) -> float | None:
    """Share of random draws at least as low as the observed value, (1 + k) / (r + 1)."""
    if len(draws) < FEWEST_DRAWS:
        return None
    return float((1 + np.sum(np.asarray(draws) <= observed)) / (len(draws) + 1))


def paired_interval(
    a: Sequence[float], b: Sequence[float], level: float = 0.95
) -> dict[str, float | None]:
    """Mean of a - b over seeds with Student's interval, which is right also for few of them."""
    from scipy import stats

    if len(a) != len(b) or not len(a):
        raise InputError(f"expected two lists of equal length, found {len(a)} and {len(b)}")
    differences = np.asarray(a, float) - np.asarray(b, float)
    mean, count = float(differences.mean()), len(differences)
    if count < 2:
        return {"mean": mean, "low": None, "high": None}
    error = float(differences.std(ddof=1)) / count**0.5
    reach = float(stats.t.ppf((1 + level) / 2, count - 1)) * error
    return {"mean": mean, "low": mean - reach, "high": mean + reach}


def mean_and_spread(values: Sequence[float] | Array) -> tuple[float, float | None]:
    """Mean and standard deviation over seeds (None for one seed)."""
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return float(np.mean(values)), spread
