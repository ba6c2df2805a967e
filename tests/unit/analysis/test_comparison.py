"""Comparisons: the paired bootstrap by its definition, and tables over seeds."""

from typing import Any

import numpy as np
import pytest

from brodmann.analysis import paired_bootstrap
from brodmann.analysis.comparison import Run, compare, over_seeds
from brodmann.analysis.statistics import bootstrap_weights
from brodmann.data.tasks import TaskSpec
from brodmann.errors import InputError


def test_the_paired_bootstrap_follows_its_definition() -> None:
    generator = np.random.default_rng(0)
    b = generator.random(60)
    a = b + 0.03 + 0.1 * generator.standard_normal(60)
    observed = (a - b).mean()
    drawn = [
        (np.repeat(a - b, row.astype(int))).mean() for row in bootstrap_weights(60, 4000, seed=3)
    ]
    expected = np.mean([d >= 2 * observed for d in drawn])
    assert 0 < expected < 0.2
    assert paired_bootstrap(a, b, resamples=4000, seed=3) == pytest.approx(expected)
    assert paired_bootstrap(b, a, resamples=4000, seed=3) == pytest.approx(expected)  # turned round
    assert paired_bootstrap(b, b) == 1.0
    assert paired_bootstrap(b + 1, b) == 0.0
    with pytest.raises(InputError, match="two lists of equal length"):
        paired_bootstrap([1.0], [1.0, 2.0])


def test_no_difference_is_rarely_significant() -> None:
    generator = np.random.default_rng(1)
    found = []
    for seed in range(200):
        a, b = generator.random((2, 50))
        found.append(paired_bootstrap(a, b, resamples=500, seed=seed) < 0.05)
    assert 0.01 < np.mean(found) < 0.2  # near its level, one-sided in the direction observed


SPECS = {
    "first": TaskSpec("first", "classification", labels=("a", "b"), metric="accuracy"),
    "second": TaskSpec("second", "regression", metric="pearson"),
}


def a_run(seed: int, right: float, name: str = "r", **changes: Any) -> Run:
    generator = np.random.default_rng(seed)
    truth = generator.standard_normal(200)
    guess = right * truth + generator.standard_normal(200)
    x, y = truth - truth.mean(), guess - guess.mean()
    outcomes = {
        "first": (generator.random((300, 1)) < right).astype(float),
        "second": np.stack([x, y, x * x, y * y, x * y], axis=1),
    }
    return Run(name, seed, changes.get("specs", SPECS), changes.get("outcomes", outcomes), right)


def test_arms_over_seeds() -> None:
    arms = {
        "plain": [a_run(seed, 0.6) for seed in range(3)],
        "better": [a_run(seed + 10, 0.8) for seed in range(3)],
    }
    result = compare(arms, baseline="plain", resamples=500)
    better = result["arms"]["better"]
    scores = [[run.score(task)[0] for task in SPECS] for run in arms["better"]]
    assert better["scores"]["first"] == pytest.approx([row[0] for row in scores])
    assert better["average"] == pytest.approx(
        (np.mean(scores), np.std(np.mean(scores, axis=1), ddof=1))
    )
    assert better["task_sigma"][0] == pytest.approx(np.mean(np.std(scores, axis=1, ddof=1)))
    assert better["dissociation"] == pytest.approx((0.8, 0.0))
    against = better["against"]
    assert against["improved"] == 2 and against["worse"] == 0
    first = against["per_task"]["first"]
    assert (
        first["significant"] and first["interval"][0] < first["difference"] < first["interval"][1]
    )
    assert against["average"]["significant"]
    assert result["arms"]["plain"]["against"] is None
    assert compare(arms, baseline="plain", resamples=500) == result


def test_only_common_tasks_are_compared_and_equal_ones_count_as_no_worse() -> None:
    same = a_run(0, 0.5)
    fewer = Run("fewer", 0, {"first": SPECS["first"]}, {"first": same.outcomes["first"]})
    result = compare({"a": [same], "b": [fewer]}, baseline="a", resamples=50)
    assert result["tasks"] == ["first"] and result["left_out"] == ["second"]
    against = result["arms"]["b"]["against"]
    counts = (against["improved"], against["at_least_as_good"], against["worse"])
    assert counts == (0, 1, 0)


def test_tasks_may_stand_in_another_order() -> None:
    turned = {name: SPECS[name] for name in reversed(SPECS)}
    arms = {"a": [a_run(0, 0.5)], "b": [a_run(1, 0.6, specs=turned)]}
    assert compare(arms, baseline="a", resamples=50)["tasks"] == list(SPECS)


def test_few_seeds_give_no_verdict() -> None:
    def rows(count: int) -> list[dict[str, Any]]:
        return [
            {"start": start, "amount": "4", "seed": seed, "score": 0.5 + 0.1 * (start == "b")}
            for start in "ab"
            for seed in range(count)
        ]

    assert "p" not in over_seeds(rows(4), ["a", "b"], ["4"])["4"]["b"]
    assert "significant" not in over_seeds(rows(5), ["a", "b"], ["4"])["4"]["b"]
    found = over_seeds(rows(10), ["a", "b"], ["4"])["4"]["b"]
    assert found["significant"] and found["mean"] == pytest.approx((0.6, 0.0))


def test_runs_that_cannot_be_compared_are_named() -> None:
    short = {"first": np.ones((10, 1)), "second": np.ones((200, 5))}
    other = {"third": SPECS["first"]}
    for runs, message in (
        ({"a": [a_run(0, 0.5)], "b": [a_run(0, 0.5, outcomes=short)]}, "judged on other examples"),
        (
            {"a": [a_run(0, 0.5)], "b": [a_run(0, 0.5, specs=other)]},
            "r: was judged on third, the others on first, second: no task is common to all",
        ),
        ({"a": [a_run(0, 0.5)], "b": []}, "arm 'b' has no run"),
    ):
        with pytest.raises(InputError, match=message):
            compare(runs, baseline="a")
    with pytest.raises(InputError, match="no arm 'c' to compare with"):
        compare({"a": [a_run(0, 0.5)]}, baseline="c")
