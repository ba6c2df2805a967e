"""Scores of labels against scikit-learn and the bootstrap; confusions against a slow count."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix as judge_matrix
from sklearn.metrics import precision_recall_fscore_support

from brodmann.analysis.label_scores import confusion_matrix, confusions, f1_of, label_scores
from brodmann.data.judging import NOTHING, Judged
from brodmann.files import Array


def judged(truth: Array, answer: Array, labels: int) -> Judged:
    names = [f"l{place}" for place in range(labels)]
    wrong = (truth != answer).astype(float)
    rows = np.arange(len(truth))
    return Judged("text", names, rows, truth, answer, wrong, 1 - wrong, 1 - wrong)


def some_answers(seed: int, count: int, labels: int) -> tuple[Array, Array]:
    random = np.random.default_rng(seed)
    truth = random.integers(0, labels, size=count)
    return truth, np.where(random.random(count) < 0.6, truth, random.integers(0, labels, count))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 999), st.integers(1, 60), st.integers(2, 6))
def test_scores_are_those_of_scikit_learn(seed: int, count: int, labels: int) -> None:
    truth, answer = some_answers(seed, count, labels)
    expected = precision_recall_fscore_support(truth, answer, labels=range(labels), zero_division=0)
    for entry in label_scores(judged(truth, answer, labels)):
        place = int(entry["label"][1:])
        for name, column in zip(("precision", "recall", "f1"), expected[:3], strict=True):
            value, low, high = entry[name] or (0.0, 0.0, 1.0)
            assert value == pytest.approx(column[place])
            assert 0 <= low <= value + 1e-12 and value <= high + 1e-12 <= 1 + 2e-12
        assert entry["support"] == expected[3][place]


def test_the_interval_of_f1_agrees_with_the_bootstrap() -> None:
    truth, answer = some_answers(0, 800, 2)
    entry, *_ = label_scores(judged(truth, answer, 2))
    place = int(entry["label"][1:])
    random, drawn = np.random.default_rng(1), []
    for _ in range(1000):
        rows = random.integers(0, 800, size=800)
        right, given = truth[rows] == place, answer[rows] == place
        drawn.append(2 * (right & given).sum() / (right.sum() + given.sum()))
    low, high = np.quantile(drawn, [0.025, 0.975])
    assert entry["f1"][1:] == pytest.approx([low, high], abs=0.012)


def test_an_interval_holds_the_true_f1_as_often_as_it_says() -> None:
    """1,000 samples of 150 from a population whose F1 is known, far from one half."""
    random, held = np.random.default_rng(2), 0
    # right and given, right only, given only, neither
    chances = np.array([0.3, 0.06, 0.04, 0.6])
    true = 2 * 0.3 / (2 * 0.3 + 0.06 + 0.04)
    for both, missed, spurious, _ in random.multinomial(150, chances, size=1000):
        found = f1_of(both, both + spurious, both + missed)
        assert found is not None
        held += found[1] <= true <= found[2]
    assert 0.93 <= held / 1000 <= 0.97


def test_what_never_occurs_has_no_score() -> None:
    found = label_scores(judged(np.array([0, 0]), np.array([0, 1]), 4))
    assert [entry["label"] for entry in found] == ["l0", "l1"]
    assert found[1]["recall"] is None and found[1]["precision"][0] == 0
    assert f1_of(0, 0, 0) is None


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 999), st.integers(1, 60), st.integers(2, 6))
def test_confusions_are_counted(seed: int, count: int, labels: int) -> None:
    truth, answer = some_answers(seed, count, labels)
    one = judged(truth, answer, labels)
    found = confusions(one)
    pairs = Counter((int(t), int(a)) for t, a in zip(truth, answer, strict=True) if t != a)
    assert {(t, a): n for t, a, n in found} == dict(pairs)
    assert [n for *_, n in found] == sorted(pairs.values(), reverse=True)
    whole = confusion_matrix(one, range(labels))
    assert (whole == judge_matrix(truth, answer, labels=range(labels))).all()
    assert (confusion_matrix(one, [1, 0]) == whole[[1, 0]][:, [1, 0]]).all()


def test_nothing_has_a_row_and_a_column_of_its_own() -> None:
    one = judged(np.array([0, 1, NOTHING]), np.array([0, NOTHING, 1]), 2)
    assert confusion_matrix(one, [0, 1, 2]).tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0]]
    assert confusion_matrix(one, [0, 1]).tolist() == [[1, 0], [0, 0]]
