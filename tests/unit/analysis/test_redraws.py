"""Importance redrawn from sums over parts of its examples."""

import numpy as np
import pytest

import brodmann as bm
from brodmann.analysis.redraws import redrawn, redrawn_dissociation


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
        "redraws: the scores have no sums over parts of the examples: measure importance again, "
        "with an estimator other than 'iterative'"
    )
    with pytest.raises(bm.InputError, match="the sums over parts of the examples do not fit them"):
        bm.HeadScores(("a",), np.ones((1, 3, 4)), {}, (), np.ones((1, 5, 3, 3)), np.ones((1, 5)))


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
