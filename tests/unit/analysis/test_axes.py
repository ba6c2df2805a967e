"""Heads by task or by language: planted maps are recognised, random ones are not."""

import numpy as np
import pytest

from brodmann.analysis.axes import AXES, pooled_maps, specialization_axes
from brodmann.results import HeadScores

PAIRS = [(task, language) for task in "abcd" for language in ("en", "es", "de")]
NAMES = tuple(f"{task}-{language}" for task, language in PAIRS)


def maps(axis: int, seed: int = 0) -> HeadScores:
    """Every task (axis 0) or language (axis 1) has a map of its own, with some noise."""
    generator = np.random.default_rng(seed)
    own = {key: generator.random((4, 6)) for key in {pair[axis] for pair in PAIRS}}
    noisy = [own[pair[axis]] + 0.05 * generator.random((4, 6)) for pair in PAIRS]
    return HeadScores(NAMES, np.array(noisy))


@pytest.mark.parametrize("axis", [0, 1])
def test_a_planted_axis_is_found(axis: int) -> None:
    found = specialization_axes(PAIRS, maps(axis), 0.25)
    assert found is not None and found["p"] < 0.01
    assert (found["difference"] > 0.3) if axis == 0 else (found["difference"] < -0.3)
    table = found["axes"]
    assert table[AXES[axis]]["overlap"] > 0.8 and table[AXES[axis]]["spearman"] > 0.9
    assert [table[kind]["comparisons"] for kind in AXES] == [12, 18, 36]
    assert table[AXES[0]]["dissociation"] is None  # not measured


@pytest.mark.slow
def test_random_maps_show_nothing() -> None:
    generator = np.random.default_rng(1)
    small = 0
    for seed in range(20):
        scores = HeadScores(NAMES, generator.random((12, 4, 6)))
        found = specialization_axes(PAIRS, scores, 0.25, seed=seed)
        assert found is not None
        small += found["p"] < 0.05
    assert small <= 4


@pytest.mark.parametrize(
    ("tasks", "languages", "possible"), [(2, 2, False), (3, 2, False), (4, 2, True)]
)
def test_few_pairs_cannot_show_a_difference(tasks: int, languages: int, possible: bool) -> None:
    pairs = [(f"t{i}", f"l{j}") for i in range(tasks) for j in range(languages)]
    own = np.random.default_rng(0).random((tasks, 4, 6))
    scores = HeadScores(tuple(map(str, pairs)), np.array([own[int(t[1:])] for t, _ in pairs]))
    found = specialization_axes(pairs, scores, 0.25)
    assert found is not None and found["p"] >= found["smallest_p"] - 0.01
    assert (found["smallest_p"] < 0.05) is possible


def test_pooled_maps_are_means_of_shares() -> None:
    scores = maps(0)
    pooled = pooled_maps(PAIRS, scores)
    by_task, by_language = pooled["tasks, over languages"], pooled["languages, over tasks"]
    assert by_task.tasks == ("a", "b", "c", "d") and by_language.tasks == ("en", "es", "de")
    shares = scores.values / scores.values.sum(axis=(1, 2), keepdims=True)
    assert np.allclose(by_task.values[1], shares[3:6].mean(axis=0))
    assert np.allclose(by_language.values[2], shares[2::3].mean(axis=0))


def test_one_axis_alone_is_no_comparison() -> None:
    scores = HeadScores(("a", "b"), np.ones((2, 2, 2)))
    assert specialization_axes([("a", "en"), ("b", "en")], scores, 0.5) is None
    assert specialization_axes([("a", "en"), ("a", "es")], scores, 0.5) is None


def test_heads_that_are_gone_make_no_maps_alike() -> None:
    """30 % of the heads are off and 0 for every pair; as ties they would correlate all maps."""
    generator = np.random.default_rng(3)
    values = generator.random((12, 10, 10)) + 0.1
    gone = [(int(place) // 10, int(place) % 10) for place in generator.permutation(100)[:30]]
    for layer, head in gone:
        values[:, layer, head] = 0
    found, tied = (
        specialization_axes(PAIRS, HeadScores(NAMES, values, removed=removed), 0.25)
        for removed in (tuple(gone), ())
    )
    assert found is not None and tied is not None
    for kind in AXES:
        assert abs(found["axes"][kind]["spearman"]) < 0.08
        assert tied["axes"][kind]["spearman"] > 0.5  # the test can tell them apart
