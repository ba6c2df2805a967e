"""Intervals of gains: coverage over simulated examples and seeds, and their parts."""

import numpy as np
import pytest

from brodmann.analysis.nested_gains import SeedSpread, paired_gain, seed_differences, seed_spread
from brodmann.data.tasks import TaskSpec

SPEC = TaskSpec("t", "classification", labels=("a", "b"), metric="accuracy")
NONE = SeedSpread(0.0, 0)


def drawn(generator: np.random.Generator, chances: np.ndarray) -> np.ndarray:
    return (generator.random(len(chances)) < chances).astype(float)[:, None]


def test_the_spread_is_pooled_within_tasks() -> None:
    first = np.random.default_rng(0).normal(size=(4, 3))
    found = seed_spread(first.tolist())
    assert found.freedom == 8
    assert found.deviation == pytest.approx(np.sqrt(first.var(axis=1, ddof=1).mean()))
    assert seed_spread([[0.3], [0.1]]) == SeedSpread(0.0, 0)


def test_equal_ways_have_no_gain_and_the_interval_is_not_empty() -> None:
    values = [np.ones((50, 1))]
    gain = paired_gain(values, values, SPEC, spread=NONE)
    assert gain.mean == 0 and gain.low < 0 < gain.high and gain.verdict == "no difference"


def test_more_looks_and_seeds_that_differ_widen_the_interval() -> None:
    generator = np.random.default_rng(1)
    one, other = ([drawn(generator, np.full(200, p)) for _ in range(2)] for p in (0.8, 0.7))
    plain = paired_gain(one, other, SPEC, spread=NONE)
    wider = paired_gain(one, other, SPEC, spread=NONE, level=0.99)
    noisy = paired_gain(one, other, SPEC, spread=SeedSpread(0.05, 4))
    width = plain.high - plain.low
    assert wider.high - wider.low > width and noisy.high - noisy.low > width
    assert plain.mean == pytest.approx(np.mean(seed_differences(one, other, SPEC)))


def test_with_the_examples_that_are_needed_a_point_shows() -> None:
    generator = np.random.default_rng(2)
    one, other = ([drawn(generator, np.full(400, p))] for p in (0.8, 0.7))
    gain = paired_gain(one, other, SPEC, spread=NONE)
    more = gain.needed // 400
    again = paired_gain(
        [np.tile(one[0], (more, 1))], [np.tile(other[0], (more, 1))], SPEC, spread=NONE
    )
    assert (again.high - again.low) / 2 == pytest.approx(0.01, rel=0.1)


def test_the_interval_covers_the_expected_gain_over_new_examples_and_seeds() -> None:
    """Every seed has its own luck, every task its own difficulty: 95 % hold the true gain."""
    generator = np.random.default_rng(3)
    held, tried, noise, true = 0, 120, 0.03, 0.05
    for _ in range(tried):
        tasks = []
        for _ in range(4):
            easy = generator.uniform(0.4, 0.9, size=150)
            shared = [np.clip(easy + true + generator.normal(0, noise), 0, 1) for _ in range(2)]
            alone = [np.clip(easy + generator.normal(0, noise), 0, 1) for _ in range(2)]
            tasks.append(
                ([drawn(generator, p) for p in shared], [drawn(generator, p) for p in alone])
            )
        spread = seed_spread([seed_differences(a, b, SPEC) for a, b in tasks])
        gain = paired_gain(*tasks[0], SPEC, spread=spread)
        held += gain.low <= true <= gain.high
    assert 0.9 <= held / tried <= 1.0
