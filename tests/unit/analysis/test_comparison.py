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


def test_the_papers_test_rejects_too_often_over_seeds() -> None:
    """Why it is used for the papers' tables only."""
    generator = np.random.default_rng(1)
    a, b = generator.standard_normal((2, 400, 10))
    found = [paired_bootstrap(a[i], b[i], resamples=400, seed=i) < 0.05 for i in range(400)]
    assert 0.10 < np.mean(found) < 0.22


SPECS = {
    "first": TaskSpec("first", "classification", labels=("a", "b"), metric="accuracy"),
    "second": TaskSpec("second", "regression", metric="pearson"),
}


def a_run(seed: int, right: float, name: str = "r", **changes: Any) -> Run:
    generator = np.random.default_rng(seed)
    truth = generator.standard_normal(200)
    guess = right * truth + generator.standard_normal(200)
    outcomes = {
        "first": (generator.random((300, 1)) < right).astype(float),
        "second": np.stack([truth, guess], axis=1),
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


def test_three_seeds_and_more_decide() -> None:
    """Student's t over the seeds; the permutation over examples stays beside it."""
    from scipy.stats import ttest_rel

    arms = {
        "plain": [a_run(seed, 0.7) for seed in range(4)],
        "other": [a_run(seed, 0.72) for seed in range(1, 5)],
    }
    result = compare(arms, baseline="plain", resamples=300)
    against = result["arms"]["other"]["against"]
    assert against["test"] == "two-sided t-test over 3 seeds"
    pairs = [(a_run(seed, 0.72), a_run(seed, 0.7)) for seed in (1, 2, 3)]
    one, other = ([run.score("first")[0] for run in runs] for runs in zip(*pairs, strict=True))
    entry = against["per_task"]["first"]
    expected = ttest_rel(one, other)
    assert entry["p"] == pytest.approx(expected.pvalue) == entry["over_seeds"]["p"]
    assert entry["difference"] == pytest.approx(np.mean(one) - np.mean(other))
    ends = expected.confidence_interval()
    assert entry["interval"] == pytest.approx([ends.low, ends.high])
    assert entry["significant"] == (entry["p"] < 0.05)
    assert entry["over_examples"]["interval"] != entry["interval"]
    assert against["dissociation"]["difference"] == pytest.approx(0.02)
    few = compare({arm: runs[:2] for arm, runs in arms.items()}, baseline="plain", resamples=300)
    against = few["arms"]["other"]["against"]
    assert against["test"] == "two-sided permutation test over validation examples"
    assert against["per_task"]["first"]["over_seeds"] is None


@pytest.mark.slow
def test_exchanging_answers_is_the_permutation_test_of_their_differences() -> None:
    from brodmann.analysis import paired_permutation

    one, other = a_run(0, 0.6), a_run(1, 0.66)
    result = compare({"a": [one], "b": [other]}, baseline="a", resamples=20_000)
    entry = result["arms"]["b"]["against"]["per_task"]["first"]
    expected = paired_permutation(
        other.outcomes["first"][:, 0], one.outcomes["first"][:, 0], resamples=20_000, seed=9
    )
    assert entry["p"] == pytest.approx(expected, abs=0.015)


@pytest.mark.slow
def test_equal_arms_are_rarely_starred() -> None:
    """Both kinds of metric, one seed each: 5 %, not 7 to 9."""
    found = []
    for number in range(150):
        arms = {"a": [a_run(2 * number, 0.7)], "b": [a_run(2 * number + 1, 0.7)]}
        against = compare(arms, baseline="a", resamples=100)["arms"]["b"]["against"]
        found += [against["per_task"][task]["significant"] for task in SPECS]
    assert np.mean(found) == pytest.approx(0.05, abs=0.035)


def test_the_same_answers_have_an_interval_that_is_not_empty() -> None:
    arms = {"a": [a_run(0, 0.7)], "b": [a_run(0, 0.7)]}
    entry = compare(arms, baseline="a", resamples=50)["arms"]["b"]["against"]["per_task"]["first"]
    assert entry["difference"] == 0 and entry["p"] == 1.0 and not entry["significant"]
    assert entry["interval"] == pytest.approx([-0.01264, 0.01264], abs=1e-5)


def test_an_undefined_d_is_counted_and_has_its_reason() -> None:
    runs = [a_run(seed, 0.6) for seed in range(3)]
    runs[1].dissociation, runs[1].undefined = None, "second: its base score is 0"
    result = compare({"a": runs, "b": [a_run(5, 0.6)]}, baseline="a", resamples=20)
    arm = result["arms"]["a"]
    assert arm["dissociation_over"] == [2, 3] and arm["dissociation"] == pytest.approx((0.6, 0.0))
    assert arm["undefined"] == {"r": "second: its base score is 0"}
    for run in runs:
        run.dissociation, run.undefined = None, ""
    arm = compare({"a": runs, "b": [a_run(5, 0.6)]}, baseline="a", resamples=20)["arms"]["a"]
    assert arm["dissociation"] is None and arm["dissociation_over"] == [0, 0]


def test_few_shot_differences_are_paired_by_seed() -> None:
    def rows(count: int) -> list[dict[str, Any]]:
        return [
            {
                "start": start,
                "amount": "4",
                "seed": seed,
                "score": 0.5 + 0.1 * (start == "b") + 0.01 * seed * (start == "b"),
            }
            for start in "ab"
            for seed in range(count)
        ]

    one = over_seeds(rows(1), ["a", "b"], ["4"])["4"]
    assert one["b"]["against"]["interval"] is None and "against" not in one["a"]
    two = over_seeds(rows(2), ["a", "b"], ["4"])["4"]["b"]["against"]
    assert two["p"] is None and not two["significant"]
    found = over_seeds(rows(5), ["a", "b"], ["4"])["4"]["b"]
    assert found["mean"] == pytest.approx((0.62, 0.0158), abs=1e-4)
    assert found["against"]["difference"] == pytest.approx(0.12)
    assert found["against"]["significant"] and found["against"]["seeds"] == 5
    low, high = found["against"]["interval"]
    assert low < 0.12 < high
    assert found["paired_bootstrap_p"] == 0.0  # the papers' own
    assert "paired_bootstrap_p" not in over_seeds(rows(4), ["a", "b"], ["4"])["4"]["b"]


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
