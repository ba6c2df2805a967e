"""Runs that differ in their seed: means say over how many, differences are paired."""

from typing import Any

import pytest
from scipy.stats import ttest_rel

from brodmann.analysis.seed_groups import differences, over_seeds


def a_cell(seed: int, scores: list[float], d: list[float | None], **varied: Any) -> dict[str, Any]:
    names = ["a", "b"]
    defined = [value for value in d if value is not None]
    return {
        "state": "done",
        "varied": {"tasks": names, "seed": seed, **varied},
        "splits": {
            "validation": {
                name: {"metric": "accuracy", "score": score}
                for name, score in zip(names, scores, strict=True)
            }
        },
        "dissociation": {
            "tasks": names,
            "base": scores,
            "per_task": d,
            "mean": sum(defined) / len(defined),  # as earlier versions stored it
            "undefined": {
                n: "its base score is 0" for n, v in zip(names, d, strict=True) if v is None
            },
            "undertrained": {},
        },
    }


def test_a_mean_says_over_how_many_runs_it_was_taken() -> None:
    rows = [
        a_cell(0, [0.8, 0.7], [0.1, 0.3]),
        a_cell(1, [0.9, 0.0], [0.5, None]),
        a_cell(2, [0.7, 0.8], [0.3, 0.1]),
    ]
    found = over_seeds(rows)
    assert found is not None
    assert (found["seeds"], found["runs"], found["left_out"]) == (2, 3, 1)
    assert found["mean"] == pytest.approx([0.2, 0.0])
    assert found["undefined"] == {"1": "b: its base score is 0"}
    assert found["per_task"][0][0] == pytest.approx(0.3)  # in all three runs
    assert found["per_task"][1][0] == pytest.approx(0.2)
    none = over_seeds([rows[1], a_cell(3, [0.9, 0.0], [0.5, None])])
    assert none is not None and none["mean"] is None and none["seeds"] == 0
    assert over_seeds(rows[:1]) is None


def test_settings_are_compared_seed_by_seed() -> None:
    plain = [a_cell(s, [0.7 + 0.02 * s, 0.6], [0.1, 0.1]) for s in range(4)]
    other = [a_cell(s, [0.75 + 0.03 * s, 0.6], [0.2, 0.1 + 0.01 * s], x=1) for s in (1, 2, 3)]
    alone = [a_cell(9, [0.5, 0.5], [0.0, 0.0], x=2)]
    failed = [{"state": "failed", "varied": {"tasks": ["a", "b"], "seed": 0, "x": 3}}]
    (found,) = differences({"plain": plain, "other": other, "alone": alone, "failed": failed})
    assert (found["setting"], found["against"]) == ("other", "plain")
    a = [0.75 + 0.03 * s for s in (1, 2, 3)]
    b = [0.7 + 0.02 * s for s in (1, 2, 3)]
    expected = ttest_rel(a, b)
    entry = found["per_task"]["a"]
    assert entry["p"] == pytest.approx(expected.pvalue) and entry["seeds"] == 3
    ends = expected.confidence_interval()
    assert entry["interval"] == pytest.approx([ends.low, ends.high])
    assert found["average"]["difference"] == pytest.approx(entry["difference"] / 2)
    assert found["dissociation"]["difference"] == pytest.approx(0.06)
    assert found["per_task"]["b"]["interval"] is None  # no difference in any seed
