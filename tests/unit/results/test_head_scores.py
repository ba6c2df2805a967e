"""The choice of heads by their importance, and how scores are saved."""

from typing import Any

import numpy as np
import pytest

import brodmann as bm


def test_the_choice_of_heads_is_exact_and_ties_go_by_place() -> None:
    scores = bm.HeadScores(("a", "b"), [[[1, 3], [3, 0], [2, 3]], [[0, 0], [0, 0], [0, 5]]])
    assert scores.top(0.5, "a") == [(0, 1), (1, 0), (2, 1)]
    assert scores.top(0.34, "b") == [(0, 0), (2, 1)] and scores.least(0.34, "b") == [(0, 0), (0, 1)]
    assert scores.top(0.16) == [] and scores.least(1.0) == sorted(scores.ranking())
    wide = bm.HeadScores(("a",), np.arange(100.0).reshape(1, 10, 10))
    assert len(wide.top(0.58)) == 58  # 0.58 · 100 is 57.99… in floats
    assert scores.together()[2, 1] == pytest.approx((3 / 12 + 1) / 2)
    norms = np.linalg.norm(scores.normalized("layer").values, axis=2)
    assert set(np.round(norms.ravel(), 6)) <= {0.0, 1.0}
    with pytest.raises(bm.InputError, match=r"alpha = 1\.2: expected a share from 0 to 1"):
        scores.top(1.2)
    with pytest.raises(bm.InputError, match="no scores for the task 'c'"):
        scores.top(0.2, "c")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda scores: scores.top("a", 0.3),
            "top('a', 0.3): expected the share of heads first, then the task: top(0.3, 'a')",
        ),
        (
            lambda scores: scores.least("a"),
            "least('a'): expected the share of heads first, then the task: least(0.3, 'a')",
        ),
        (lambda scores: scores.top("0.3", "a"), "alpha = '0.3': expected a share from 0 to 1"),
        (lambda scores: scores.top(0.3, 1), "task = 1: expected the name of a task"),
        (lambda scores: scores.random("a", 0), "alpha = 'a': expected a share from 0 to 1"),
        (lambda scores: scores.top(True), "alpha = True: expected a share from 0 to 1"),
    ],
)
def test_swapped_arguments_are_named(call: Any, message: str) -> None:
    with pytest.raises(bm.InputError) as raised:
        call(bm.HeadScores(("a",), np.ones((1, 2, 3))))
    assert str(raised.value) == message


def test_a_share_may_be_a_numpy_number() -> None:
    scores = bm.HeadScores(("a",), np.arange(6.0).reshape(1, 2, 3))
    assert scores.top(np.float32(0.5)) == scores.top(np.float64(0.5)) == scores.top(0.5)


def test_scores_survive_saving(tmp_path: Any) -> None:
    scores = bm.HeadScores(("a",), np.random.rand(1, 2, 3), {"seed": 3}, ((0, 1),))
    scores.save(tmp_path / "importance.json")
    loaded = bm.HeadScores.load(tmp_path / "importance.json")
    assert np.array_equal(loaded.values, scores.values) and loaded.removed == ((0, 1),)
    assert loaded.settings == {"seed": 3}
    frame = loaded.to_frame()
    assert list(frame.columns) == ["task", "layer", "head", "score"] and len(frame) == 6
    (tmp_path / "other.json").write_text('{"schema_version": 1}')
    with pytest.raises(bm.InputError, match=r"other\.json: not head scores"):
        bm.HeadScores.load(tmp_path / "other.json")
    with pytest.raises(bm.InputError, match="not finite"):
        bm.HeadScores(("a",), [[[float("nan")]]])
