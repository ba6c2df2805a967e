"""Intervals that are never empty, and tests that reject a true hypothesis as often as they say."""

from typing import Any

import numpy as np
import pytest

from brodmann.analysis import paired_permutation, paired_t
from brodmann.analysis.statistics import (
    difference_over_seeds,
    never_empty,
    paired_interval,
    score_interval,
    unseen_share,
    wilson_interval,
)
from brodmann.data.tasks import TaskSpec
from brodmann.errors import InputError


def spec(metric: str, kind: str = "classification") -> TaskSpec:
    return TaskSpec("t", kind, labels=("a", "b"), metric=metric)


@pytest.mark.parametrize(("right", "of"), [(300, 300), (0, 300), (299, 300), (150, 300), (1, 2)])
def test_a_proportion_has_wilsons_interval(right: int, of: int) -> None:
    from scipy.stats import binomtest

    expected = binomtest(right, of).proportion_ci(method="wilson")
    values = np.repeat([1.0, 0.0], [right, of - right])[:, None]
    for metric in ("accuracy", "exact_match"):
        found = score_interval(values, spec(metric), resamples=10)
        assert found == pytest.approx([expected.low, expected.high])


def test_three_hundred_of_three_hundred_is_not_certain() -> None:
    found = score_interval(np.ones((300, 1)), spec("accuracy"), resamples=10)
    assert found == [pytest.approx(0.9874, abs=5e-5), 1.0]
    assert wilson_interval(0.0, 300) == (0.0, pytest.approx(0.0126, abs=5e-5))


# True, predicted and actual positives of both labels: the first is always answered.
SAME_ANSWER = np.array([[1.0, 1, 1, 0, 0, 0], [0, 1, 0, 0, 0, 1]])


@pytest.mark.parametrize(
    ("metric", "kind", "values", "expected"),
    [
        # Every F1 is 1: as a share of 300.
        ("entity_f1", "tokens", np.ones((300, 3)), (0.9873, 1.0)),
        # Nothing found although it is there: F1 is 0 in every resample.
        ("f1", "classification", np.tile([0.0, 0.0, 1.0], (300, 1)), (0.0, 0.0127)),
        # Always the same answer: Matthews is 0, and its range is -1 to 1.
        ("matthews", "classification", np.repeat(SAME_ANSWER, 150, axis=0), (-0.112, 0.112)),
        # An error without variation has no range to be a share of.
        ("mean_squared_error", "regression", np.full((300, 1), 2.0), None),
    ],
)
def test_a_bootstrap_that_knows_nothing_is_not_empty(
    metric: str, kind: str, values: Any, expected: Any
) -> None:
    found = score_interval(values, spec(metric, kind), resamples=100)
    assert found == (None if expected is None else pytest.approx(list(expected), abs=1e-3))


def test_other_metrics_keep_the_bootstrap() -> None:
    generator = np.random.default_rng(0)
    values = generator.random((200, 1))  # span F1: between 0 and 1
    low, high = score_interval(values, spec("f1", "span"), resamples=2000)  # type: ignore[misc]
    error = values.std() / 200**0.5
    assert (low, high) == pytest.approx(
        (values.mean() - 1.96 * error, values.mean() + 1.96 * error), abs=0.005
    )
    # Tokens of one text stand and fall together: its accuracy is no proportion of tokens.
    texts = np.stack([generator.integers(0, 2, 40) * 10.0, np.full(40, 10.0)], axis=1)
    wide = score_interval(texts, spec("accuracy", "tokens"), resamples=500)
    assert wide is not None and wide[1] - wide[0] > 2 * (wilson_interval(0.5, 400)[1] - 0.5)


def test_a_difference_that_no_resample_moves_reaches_as_far_as_what_was_not_seen() -> None:
    assert never_empty((0.1, 0.2), 0.05) == [0.1, 0.2]
    assert never_empty((0.1, 0.1), 0.05) == pytest.approx([0.05, 0.15])
    assert unseen_share(300) == pytest.approx(0.01264, abs=1e-5)


def test_paired_tests_are_scipys() -> None:
    from scipy.stats import permutation_test, ttest_rel

    generator = np.random.default_rng(0)
    a, b = generator.normal([[0.5], [0.0]], 1.0, (2, 8))
    assert paired_t(a, b) == pytest.approx(ttest_rel(a, b).pvalue)
    exact = permutation_test(
        (a, b), lambda x, y: np.mean(x - y), permutation_type="samples", n_resamples=np.inf
    )
    assert paired_permutation(a, b) == pytest.approx(exact.pvalue)
    ends = ttest_rel(a, b).confidence_interval()
    found = paired_interval(a, b)
    assert (found["low"], found["high"]) == pytest.approx((ends.low, ends.high))
    many = generator.normal([[0.15], [0.0]], 1.0, (2, 200))
    assert paired_permutation(*many, resamples=20_000) == pytest.approx(
        ttest_rel(*many).pvalue, abs=0.01
    )


def test_differences_without_spread_are_judged_by_their_signs() -> None:
    assert paired_t([1.0, 1.0, 1.0], [0.5, 0.5, 0.5]) == pytest.approx(2 / 2**3)
    assert paired_t([1.0, 1.0], [1.0, 1.0]) == 1.0
    assert paired_t([1.0], [0.0]) is None
    assert paired_interval([1.0, 1.0], [0.5, 0.5]) == {"mean": 0.5, "low": None, "high": None}
    assert difference_over_seeds([0.6, 0.8], [0.5, 0.5])["p"] is None  # two seeds
    found = difference_over_seeds([0.6, 0.8, 0.7], [0.5, 0.5, 0.5])
    assert found["seeds"] == 3 and found["difference"] == pytest.approx(0.2)
    assert found["interval"] == pytest.approx([0.2 - 0.2484, 0.2 + 0.2484], abs=1e-4)
    with pytest.raises(InputError) as raised:
        paired_t([1.0], [1.0, 2.0])
    assert str(raised.value) == "expected two lists of equal length, found 1 and 2"


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_the_t_test_over_seeds_is_calibrated(seeds: int) -> None:
    generator = np.random.default_rng(seeds)
    differences = generator.standard_normal((2000, seeds))
    rejected = [(paired_t(row, np.zeros(seeds)) or 1.0) < 0.05 for row in differences]
    assert np.mean(rejected) == pytest.approx(0.05, abs=0.015)


@pytest.mark.parametrize("examples", [300, 1000])
def test_the_permutation_test_over_examples_is_calibrated(examples: int) -> None:
    """Two equally good systems whose answers go together, as those of two seeds do."""
    generator = np.random.default_rng(examples)
    rejected = []
    for number in range(600):
        hard = generator.random(examples) < 0.2
        a, b = (np.where(hard, generator.random(examples) < 0.5, 1.0) for _ in range(2))
        rejected.append(paired_permutation(a, b, resamples=300, seed=number) <= 0.05)
    assert 0.02 < np.mean(rejected) < 0.07  # in steps of an example, so a little below 5 %
