"""Confident learning against a slow loop, its properties, and planted label errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import brodmann as bm
from brodmann.analysis.label_errors import class_thresholds, suspected
from brodmann.files import Array


def some_chances(seed: int, count: int, classes: int) -> tuple[Array, Array]:
    random = np.random.default_rng(seed)
    chances = random.dirichlet(np.ones(classes), size=count)
    return random.integers(0, classes, size=count), chances


def slow_suspects(given: Array, chances: Array) -> dict[int, int]:
    """The definition, one example and one class at a time: row → the class it seems to have."""
    classes = range(chances.shape[1])
    thresholds = {}
    for j in classes:
        own = [chances[k][j] for k in range(len(given)) if given[k] == j]
        thresholds[j] = sum(own) / len(own) if own else float("inf")
    found = {}
    for k, p in enumerate(chances):
        confident = [j for j in classes if p[j] > thresholds[j] - 1e-12]
        best = max(confident, key=lambda j: p[j], default=None)
        if best is not None and best != given[k] and max(classes, key=lambda j: p[j]) != given[k]:
            found[k] = best
    return found


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 999), st.integers(1, 40), st.integers(2, 5))
def test_suspects_are_the_off_diagonal_of_the_confident_joint(
    seed: int, count: int, classes: int
) -> None:
    labels, chances = some_chances(seed, count, classes)
    rows, believed, margin = suspected(labels, chances)
    assert dict(zip(rows.tolist(), believed.tolist(), strict=True)) == slow_suspects(
        labels, chances
    )
    assert (np.diff(margin) >= 0).all() and (margin <= 0).all()


def test_a_worked_example() -> None:
    """Row 2 has label 0 but more of class 1 (0.7) than the mean of class 1 (0.75, 0.6 → 0.675)."""
    chances = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.25, 0.75], [0.4, 0.6]])
    labels = np.array([0, 0, 0, 1, 1])
    assert class_thresholds(labels, chances).tolist() == pytest.approx([2 / 3, 0.675])
    rows, believed, margin = suspected(labels, chances)
    assert (rows.tolist(), believed.tolist()) == ([2], [1])
    assert margin.tolist() == pytest.approx([-0.4])


@given(st.integers(0, 99))
@settings(deadline=None)
def test_the_order_of_examples_does_not_matter(seed: int) -> None:
    labels, chances = some_chances(seed, 30, 3)
    order = np.random.default_rng(seed).permutation(30)
    rows = suspected(labels, chances)[0]
    again = suspected(labels[order], chances[order])[0]
    assert sorted(order[again].tolist()) == sorted(rows.tolist())


def test_a_class_without_examples_is_never_suggested() -> None:
    labels = np.array([0, 0, 1])
    chances = np.array([[0.2, 0.1, 0.7], [0.5, 0.3, 0.2], [0.1, 0.8, 0.1]])
    assert class_thresholds(labels, chances)[2] == np.inf
    assert len(suspected(labels, chances)[0]) == 0


def test_nothing_is_suspected_of_right_and_certain_labels() -> None:
    labels = np.arange(12) % 3
    assert len(suspected(labels, np.eye(3)[labels])[0]) == 0
    empty = suspected(np.zeros(0, np.int64), np.zeros((0, 3)))
    assert [len(part) for part in empty] == [0, 0, 0]


def test_classes_that_are_alike_share_a_threshold() -> None:
    chances = np.array([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]])
    labels = np.array([0, 0, 1])
    assert class_thresholds(labels, chances, alike=True).tolist() == pytest.approx([0.7, 0.7])
    assert len(suspected(labels, chances, alike=True)[0]) == 0  # 0.6 is below 0.7
    assert suspected(labels, chances)[0].tolist() == []  # and below 0.8


@pytest.mark.parametrize("seed", range(3))
def test_planted_label_errors_are_found(seed: int) -> None:
    """A tenth of all labels of a generated task is wrong; the model is fitted to such labels.

    Nearly all suspects are planted, where of the rows that the model merely answers otherwise
    half are. A threshold that is the mean of a class leaves out some of the others.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    (task,) = bm.load_tasks([{"use": "builtin/topic", "limit": {"train": 1500, "validation": 400}}])
    random = np.random.default_rng(seed)
    texts, labels, flipped = {}, {}, {}
    for split in ("train", "validation"):
        examples = task.splits[split]
        texts[split] = [example["text"] for example in examples]
        right = np.array([example["label"] for example in examples])
        flipped[split] = random.random(len(right)) < 0.1
        other = (right + random.integers(1, 4, size=len(right))) % 4
        labels[split] = np.where(flipped[split], other, right)
    words = TfidfVectorizer(ngram_range=(1, 2)).fit(texts["train"])
    model = LogisticRegression().fit(words.transform(texts["train"]), labels["train"])
    chances = model.predict_proba(words.transform(texts["validation"]))
    rows, believed, _ = suspected(labels["validation"], chances)
    planted = set(np.flatnonzero(flipped["validation"]).tolist())
    found = set(rows.tolist())
    precision, recall = len(found & planted) / len(found), len(found & planted) / len(planted)
    assert precision >= 0.85 and recall >= 0.5
    otherwise = set(np.flatnonzero(chances.argmax(axis=1) != labels["validation"]).tolist())
    assert precision >= len(otherwise & planted) / len(otherwise) + 0.25
    truth = np.array([example["label"] for example in task.splits["validation"]])
    restored = [believed[i] == truth[row] for i, row in enumerate(rows) if row in planted]
    assert np.mean(restored) >= 0.9
