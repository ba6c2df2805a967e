"""Importance redrawn from sums over parts of its examples, and what it does to the interval."""

from typing import Any

import numpy as np
import pytest

import brodmann as bm
from brodmann.analysis.redraws import redrawn, redrawn_dissociation
from brodmann.measuring.iap import forward_passes


def some_scores(normalize: str = "none") -> bm.HeadScores:
    generator = np.random.default_rng(0)
    counts = np.array([[10.0] * 10, [10.0] * 5 + [0.0] * 5])
    sums = generator.random((2, 10, 3, 4)) * counts[:, :, None, None]
    values = sums.sum(axis=1) / counts.sum(axis=1)[:, None, None]
    scores = bm.HeadScores(("a", "b"), values, {"normalize": "none"}, (), sums, counts)
    return scores.normalized(normalize)


def test_redraws_are_means_over_drawn_parts() -> None:
    scores = some_scores()
    many = redrawn(scores, 400, seed=0)
    assert many[0].part_sums is None and many[0].tasks == scores.tasks
    values = np.stack([one.values for one in many])
    assert values.mean(axis=0) == pytest.approx(scores.values, abs=0.03)
    assert scores.part_sums is not None
    parts = scores.part_sums[0] / 10  # the spread of a mean over ten parts
    assert values[:, 0].std(axis=0) == pytest.approx(parts.std(axis=0) / 10**0.5, rel=0.2)
    assert np.array_equal(
        redrawn(scores, 3, seed=1)[2].values, redrawn(scores, 3, seed=1)[2].values
    )
    layers = redrawn(some_scores("layer"), 2, seed=0)[1].values
    assert np.linalg.norm(layers, axis=2) == pytest.approx(np.ones((2, 3)))


def test_scores_without_sums_cannot_be_redrawn() -> None:
    scores = bm.HeadScores(("a", "b"), np.ones((2, 3, 4)))
    with pytest.raises(bm.InputError) as raised:
        redrawn(scores, 2, seed=0)
    assert str(raised.value) == (
        "redraws: the scores have no sums over parts of the examples: measure importance again, by "
        "another estimator than 'iterative'"
    )
    with pytest.raises(bm.InputError, match="the sums over parts of the examples do not fit them"):
        bm.HeadScores(("a",), np.ones((1, 3, 4)), {}, (), np.ones((1, 5, 3, 3)), np.ones((1, 5)))


def test_sums_over_parts_make_up_the_scores(tasks_of_every_kind: list[Any], tmp_path: Any) -> None:
    tasks = [tasks_of_every_kind[0], tasks_of_every_kind[6]]
    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks)
    for options in ({}, {"granularity": "token"}, {"estimator": "leave_one_out"}):
        options = {**options, "examples": 12}
        scores = bm.head_importance(model, tasks, batch_size=5, **options)
        assert scores.part_sums is not None and scores.part_counts is not None
        assert scores.part_sums.shape == (2, 10, 3, 4)
        mean = scores.part_sums.sum(axis=1) / scores.part_counts.sum(axis=1)[:, None, None]
        assert scores.values == pytest.approx(mean)
        other = bm.head_importance(model, tasks, batch_size=16, **options)
        assert other.part_sums == pytest.approx(scores.part_sums, rel=1e-3, abs=1e-5)
    scores.save(tmp_path / "importance.json")
    again = bm.HeadScores.load(tmp_path / "importance.json")
    assert np.array_equal(again.part_sums, scores.part_sums)
    assert np.array_equal(again.part_counts, scores.part_counts)
    places = bm.head_importance(model, tasks, examples=4, estimator="iterative", step=0.5)
    assert places.part_sums is None


def test_the_spread_over_redraws() -> None:
    base = [0.8, 0.5]
    matrices = [[[0.4, 0.8], [0.5, 0.25]], [[0.6, 0.8], [0.5, 0.25]]]
    heads = [[(0, 0), (0, 1)], [(1, 0), (1, 1)]]
    again = [[[(0, 0), (0, 1)], [(1, 0), (2, 0)]], [[(0, 0), (2, 2)], [(1, 0), (2, 0)]]]
    found = redrawn_dissociation(matrices, base, heads, again, {})
    assert found["per_task"] == [pytest.approx([0.5, 0.25]), pytest.approx([0.5, 0.5])]
    assert found["mean"] == pytest.approx([0.5, 0.375])
    assert found["spread"]["mean"] == pytest.approx(np.std([0.5, 0.375], ddof=1))
    assert found["spread"]["per_task"] == pytest.approx([np.std([0.5, 0.25], ddof=1), 0.0])
    assert found["kept"] == [0.75, 0.5]
    undefined = redrawn_dissociation(matrices, base, heads, again, {1: "lower is better"})
    assert undefined["mean"] == [None, None] and undefined["spread"]["mean"] is None
    assert undefined["per_task"][0] == pytest.approx([0.5, 0.25])


def test_redraws_widen_the_intervals_of_a_whole_dissociation(tasks_of_every_kind: Any) -> None:
    tasks = [tasks_of_every_kind[0], tasks_of_every_kind[1]]
    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks)
    bm.fit(model, tasks, epochs=2, learning_rate=1e-3, batch_size=8)
    scores = bm.head_importance(model, tasks)
    read: list[int] = []
    result = bm.dissociation(
        model, tasks, scores, alpha=0.25, draws=0, resamples=200, redraws=4, exchanges=9,
        progress=read.append,
    )  # fmt: skip
    most = forward_passes(2, shares=1, draws=0, redraws=4, exchanges=9)
    assert most == 1 + 2 * (1 + 4 + 9) and sum(read) <= most * 16
    assert result.redrawn is not None and len(result.redrawn["mean"]) == 4
    assert result.intervals["over"] == ["validation examples", "importance examples"]
    for wide, narrow in (
        (result.intervals["mean"], result.intervals["examples_only"]["mean"]),
        *zip(
            result.intervals["per_task"],
            result.intervals["examples_only"]["per_task"],
            strict=True,
        ),
    ):
        assert wide[1] - wide[0] >= narrow[1] - narrow[0] > 0
    assert result.null is not None and result.null["values"] == 20
    assert 1 / 20 <= result.null["p"] <= 1
    plain = bm.dissociation(model, tasks, scores, alpha=0.25, draws=0, resamples=200)
    assert plain.redrawn is None and plain.null is None  # without draws there are no tests
    assert plain.intervals["mean"] == result.intervals["examples_only"]["mean"]
    assert plain.intervals["over"] == ["validation examples"]
    for options, message in (
        ({"redraws": 1}, "redraws = 1: one redraw has no spread: expected 0, or 2 or more"),
        ({"exchanges": -1}, "exchanges = -1: input should be greater than or equal to 0"),
    ):
        with pytest.raises(bm.InputError) as raised:
            bm.dissociation(model, tasks, scores, alpha=0.25, **options)
        assert str(raised.value) == f"dissociation: {message}"


def test_what_is_measured_unless_something_else_is_asked_for() -> None:
    def passes(tasks: int, draws: int, **more: Any) -> int:
        return forward_passes(
            tasks, shares=1, draws=draws, redraws=more.get("redraws"), exchanges=None, **(
                {"sums": more["sums"]} if "sums" in more else {}
            )
        )  # fmt: skip

    assert passes(2, 0) == 1 + 2  # no draws, no tests
    assert passes(2, 20) == 1 + 20 + 2 * (1 + 5 + 9)
    assert passes(3, 20) == 1 + 20 + 3 * (1 + 5 + 3)
    assert passes(5, 20) == 1 + 20 + 5 * (1 + 5)  # 120 orders of the tasks need no pass
    assert passes(5, 20, sums=False) == 1 + 20 + 5  # iterative places have nothing to redraw
    assert passes(5, 20, redraws=2) == 1 + 20 + 5 * (1 + 2)
