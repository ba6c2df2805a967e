"""The papers' own tables, undefined cases, and resampling checked against scipy."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import brodmann as bm
from brodmann.analysis import dissociation_scores, finding, statistics, verdict
from brodmann.analysis.dissociation import (
    clearly_learnt,
    findings,
    heads_per_layer,
    overlap,
    undertrained,
    verdicts,
)
from brodmann.analysis.statistics import (
    bootstrap_interval,
    bootstrap_weights,
    percentile_interval,
    random_draw_p_value,
)

TASKS = ["MNLI", "QQP", "QNLI", "AG", "SST-2"]
# SPEC Table 3: rows are the task whose heads are off, columns the task that is evaluated.
TABLE_3 = [
    [58.23, 71.52, 61.39, 91.99, 85.32],
    [62.54, 69.43, 60.80, 91.54, 85.13],
    [59.29, 70.96, 57.50, 91.88, 86.35],
    [65.88, 76.28, 69.35, 80.01, 85.09],
    [69.50, 77.40, 73.96, 86.51, 82.45],
]
TABLE_3_BASE = [83.91, 87.64, 90.26, 94.50, 92.05]


def test_table_3_of_the_paper() -> None:
    """The paper prints 7.28, 5.26, 11.07, 9.84, 3.28: QNLI and AG swapped (see its Table 10)."""
    found = dissociation_scores(np.transpose(TABLE_3), TABLE_3_BASE)
    percent = [100 * d for d in found.per_task if d is not None]
    assert percent == pytest.approx([7.24, 5.26, 9.83, 11.08, 3.28], abs=0.005)
    assert found.mean is not None and found.mean * 100 == pytest.approx(sum(percent) / 5)


@pytest.mark.parametrize(
    ("base", "own", "other", "expected"),
    [
        ((94.13, 91.13), (85.94, 52.95), (92.44, 65.04), (6.905, 13.267, 10.086)),
        ((94.46, 90.72), (56.17, 53.66), (64.52, 64.85), (8.842, 12.337, 10.590)),
        ((94.29, 92.47), (89.51, 86.01), (92.32, 89.76), (2.982, 4.051, 3.517)),
    ],
)
def test_table_4_of_the_paper(base: Any, own: Any, other: Any, expected: Any) -> None:
    found = dissociation_scores([[own[0], other[0]], [other[1], own[1]]], base)
    assert found.mean is not None
    values = [*found.per_task, found.mean]
    assert [100 * v for v in values if v is not None] == pytest.approx(expected, abs=0.01)
    assert found.pairwise[0][1] == found.per_task[0] and found.pairwise[1][0] == found.per_task[1]


@given(
    st.integers(2, 5).flatmap(
        lambda n: st.tuples(
            st.lists(st.lists(st.floats(0, 1), min_size=n, max_size=n), min_size=n, max_size=n),
            st.lists(st.floats(0.1, 1), min_size=n, max_size=n),
            st.permutations(range(n)),
        )
    )
)
def test_the_order_of_tasks_and_the_unit_do_not_matter(case: Any) -> None:
    matrix, base, order = np.array(case[0]), np.array(case[1]), list(case[2])
    plain = dissociation_scores(matrix, base)
    moved = dissociation_scores(matrix[np.ix_(order, order)], base[order])
    assert moved.per_task == pytest.approx([plain.per_task[i] for i in order])
    assert dissociation_scores(100 * matrix, 100 * base).mean == pytest.approx(plain.mean)
    rows = [[d for d in row if d is not None] for row in plain.pairwise]
    assert plain.per_task == pytest.approx([float(np.mean(row)) for row in rows])


def test_a_meaningless_ratio_is_undefined_with_its_reason() -> None:
    found = dissociation_scores(
        [[0.1, 0.2, 0.2], [0.8, 0.4, 0.6], [0.5, 0.5, 0.25]], [0.0, 0.8, 0.5]
    )
    assert found.per_task[0] is None and found.pairwise[0] == [None] * 3
    assert found.undefined == {0: "its base score is 0, so a ratio to it means nothing"}
    assert found.per_task[1:] == pytest.approx([0.375, 0.5])
    assert found.mean is None  # not the mean of the other two
    pair = dissociation_scores([[0.5, 0.6], [-0.1, 0]], [0.8, -0.05])
    assert pair.per_task == [pytest.approx(0.125), None] and pair.mean is None
    assert verdicts(found)[0][1] == "undefined"
    nothing = dissociation_scores([[1, 1], [1, 1]], [float("nan"), -0.1])
    assert nothing.mean is None and nothing.undefined[0] == "its base score is not a number"
    with pytest.raises(bm.InputError, match="at least two tasks"):
        dissociation_scores([[1.0]], [1.0])
    with pytest.raises(bm.InputError, match="expected a square"):
        dissociation_scores([[1.0, 1.0]], [1.0])


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        ((0.15, 0.06), "double-distinct"),
        ((0.05, 0.06), "double"),
        ((0.2, -0.01), "single"),
        ((-0.01, 0.2), "single"),
        ((0.09, -0.01), "none"),
        ((-0.01, -0.2), "inverted"),
        ((0.0, 0.3), "none"),
        ((None, 0.3), "undefined"),
    ],
)
def test_verdicts(pair: Any, expected: str) -> None:
    assert verdict(*pair) == expected and verdict(*reversed(pair)) == expected


@pytest.mark.parametrize(
    ("ends_a", "ends_b", "ends_mean", "expected"),
    [
        ((0.05, 0.2), (0.01, 0.3), (0.11, 0.2), "double-distinct"),
        ((0.05, 0.2), (0.01, 0.3), (0.09, 0.2), "double"),
        ((0.05, 0.2), (0.01, 0.3), None, "double"),  # (0.05 + 0.01) / 2
        ((0.2, 0.3), (0.1, 0.3), None, "double-distinct"),
        ((-0.095, 0.226), (0.01, 0.3), (0.11, 0.2), "unclear"),
        ((0.11, 0.2), (-0.2, -0.01), None, "single"),
        ((0.09, 0.2), (-0.2, -0.01), None, "unclear"),  # single or none
        ((-0.2, -0.1), (-0.3, -0.1), None, "inverted"),
        ((-0.2, -0.1), (-0.3, 0.1), None, "unclear"),
        ((-0.2, -0.1), (0.0, 0.08), None, "none"),
        (None, (0.1, 0.2), None, "unclear"),
    ],
)
def test_a_finding_holds_over_both_intervals(
    ends_a: Any, ends_b: Any, ends_mean: Any, expected: str
) -> None:
    assert finding(0.1, 0.1, ends_a, ends_b, ends_mean) == expected
    assert finding(0.1, 0.1, ends_b, ends_a, ends_mean) == expected
    assert finding(None, 0.1, ends_a, ends_b, ends_mean) == "undefined"


@given(
    st.lists(st.floats(-0.3, 0.3), min_size=4, max_size=4),
    st.lists(st.floats(0, 1), min_size=2, max_size=2),
)
def test_a_finding_is_the_verdict_of_every_point(ends: list[float], at: list[float]) -> None:
    """But for `distinct`, which the interval of their mean decides."""
    a, b = sorted(ends[:2]), sorted(ends[2:])
    found = finding(0.1, 0.1, a, b)
    if found != "unclear":
        inside = (low + share * (high - low) for (low, high), share in zip((a, b), at, strict=True))
        assert verdict(*inside).removesuffix("-distinct") == found.removesuffix("-distinct")


def test_findings_of_all_pairs() -> None:
    pairwise = [[None, 0.2, 0.2], [0.2, None, None], [0.2, None, None]]
    high = [0.15, 0.3]
    intervals = {"pairwise": [[None, high, high], [high, None, None], [[-0.1, 0.3], None, None]]}
    found = findings(pairwise, intervals)
    assert found == [
        ["", "double-distinct", "unclear"],
        ["double-distinct", "", "undefined"],
        ["unclear", "undefined", ""],
    ]
    assert findings(pairwise, {})[0][1] == "unclear"  # no interval was measured


def test_overlap_and_heads_per_layer() -> None:
    heads = [[(0, 0), (0, 1), (1, 0)], [(0, 1), (1, 0), (2, 2)]]
    assert overlap(heads) == [[1.0, 2 / 3], [2 / 3, 1.0]]
    assert heads_per_layer(heads, 3) == [[2, 1, 0], [1, 1, 1]]


def test_hardly_learnt_tasks_are_marked() -> None:
    assert undertrained(0.47, 0.34) is not None and undertrained(0.6, 0.34) is None
    assert undertrained(0.1, 0.0) is not None and undertrained(0.5, 0.0) is None
    assert undertrained(0.725, 0.5, 0.5, 0.693) is None
    assert undertrained(0.725, 0.5, 0.686, 0.693) == (
        "training loss 0.686 is near the 0.693 of guessing"
    )
    assert undertrained(0.725, 0.5, 0.686, None) is None
    assert undertrained(0.728, 0.5, 0.686, 0.693, learnt=True) is None
    assert undertrained(0.0, 0.0) == (
        "its score, 0.0 %, is no better than answering without reading the text (0.0 %)"
    )


def test_an_interval_clearly_above_the_trivial_score_means_learnt() -> None:
    assert clearly_learnt([0.687, 0.765], 0.5)
    assert not clearly_learnt([0.57, 0.84], 0.5)  # 40 examples: a lucky score looks like this
    assert not clearly_learnt(None, 0.5) and not clearly_learnt([1.0, 1.0], 1.0)
    assert clearly_learnt([0.3, 0.5], 1.0, lower=True)
    assert not clearly_learnt([0.3, 0.9], 1.0, lower=True)


def test_the_interval_is_scipys_on_the_same_resamples() -> None:
    from scipy.stats import bootstrap

    values = np.random.rand(40)
    weights = bootstrap_weights(40, 3000, seed=0)
    assert (weights.sum(axis=1) == 40).all()
    ours = percentile_interval(weights @ values / 40)
    theirs = bootstrap((values,), np.mean, n_resamples=3000, method="percentile", rng=1)
    assert ours == pytest.approx(theirs.confidence_interval, abs=0.01)
    given_ = percentile_interval(np.arange(101.0), 0.9)
    assert given_ == pytest.approx((5.0, 95.0))


def test_an_interval_in_pieces_is_that_of_all_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.rand(40)

    def mean(weights: Any) -> Any:
        assert len(weights) * 40 <= statistics.LARGEST_WEIGHTS
        return weights @ values / 40

    whole = bootstrap_interval(mean, 40, resamples=3000, seed=0)
    assert whole == percentile_interval(mean(bootstrap_weights(40, 3000, seed=0)))
    monkeypatch.setattr(statistics, "LARGEST_WEIGHTS", 4000)
    in_pieces = bootstrap_interval(mean, 40, resamples=3000, seed=0)
    assert in_pieces == pytest.approx(whole, abs=0.01) and in_pieces != whole
    assert in_pieces == bootstrap_interval(mean, 40, resamples=3000, seed=0)


def test_p_value_against_random_draws() -> None:
    assert random_draw_p_value(0.1, np.linspace(0.2, 1, 20)) == pytest.approx(1 / 21)
    assert random_draw_p_value(0.2, np.linspace(0.2, 1, 20)) == pytest.approx(2 / 21)
    assert random_draw_p_value(0.1, np.ones(19)) is None
