"""Shares of the training data: one inside the other, classes in proportion, seeded."""

import itertools

import pytest

import brodmann as bm
from brodmann.data.draws.shares import with_share
from brodmann.errors import InputError


def a_task() -> bm.Task:
    rows = [{"text": f"text {i}", "label": "abc"[(i % 10 > 4) + (i % 10 > 7)]} for i in range(200)]
    return bm.load_task("t", kind="classification", train=rows, validation=rows[:20])


def texts(task: bm.Task) -> list[str]:
    return [example["text"] for example in task.splits["train"]]


def test_larger_shares_hold_smaller_ones() -> None:
    task = a_task()
    shares = [texts(with_share(task, share / 200, seed=0)) for share in range(1, 201)]
    assert [len(one) for one in shares] == list(range(1, 201))
    assert all(set(small) < set(large) for small, large in itertools.pairwise(shares))
    assert texts(with_share(task, 0.1, 0)) == [t for t in texts(task) if t in set(shares[19])]
    assert with_share(task, 1.0, 0) is task


def test_classes_keep_their_proportions_and_seeds_differ() -> None:
    task = a_task()
    labels = [example["label"] for example in with_share(task, 0.1, 0).splits["train"]]
    counts = sorted(labels.count(label) for label in set(labels))
    assert counts == [4, 6, 10]  # of 40, 60 and 100
    assert texts(with_share(task, 0.1, 0)) == texts(with_share(task, 0.1, 0))
    assert texts(with_share(task, 0.1, 0)) != texts(with_share(task, 0.1, 1))


def test_less_than_one_example_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"0\.004 of the 200 training examples of 't' is less than"
    ):
        with_share(a_task(), 0.004, 0)
