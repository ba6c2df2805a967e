"""The sizes chosen within a budget are the best there are, and guard the worst task."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brodmann.analysis.mask_search import cheapest, choose


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), share=st.floats(0.0, 1.0))
def test_no_choice_within_the_budget_is_better(seed: int, share: float) -> None:
    generator = np.random.default_rng(seed)
    losses = [np.sort(generator.random(4)) for _ in range(4)]
    costs = [np.sort(generator.integers(0, 20, 4))[::-1].astype(float) for _ in range(4)]
    least, most = (sum(f(c) for c in costs) for f in (np.min, np.max))
    budget = float(least + share * (most - least))
    found = cheapest(losses, costs, budget, bins=4000)
    assert found is not None
    price = sum(c[k] for c, k in zip(costs, found, strict=True))
    assert price <= budget + 1e-9
    allowed = [
        sum(of[k] for of, k in zip(losses, places, strict=True))
        for places in itertools.product(range(4), repeat=4)
        if sum(c[k] for c, k in zip(costs, places, strict=True)) <= budget - most / 500
    ]
    ours = sum(of[k] for of, k in zip(losses, found, strict=True))
    assert not allowed or ours <= min(allowed) + 1e-9


def test_a_budget_below_the_least_has_no_choice() -> None:
    assert cheapest([np.zeros(2)], [np.array([3.0, 2.0])], 1.9) is None
    assert choose([np.zeros((1, 2))], [np.array([3.0, 2.0])], 1.9, np.ones(1)) is None


def test_the_worst_task_is_guarded_and_not_the_mean() -> None:
    """Each of two tasks needs one block; the mean would sacrifice the second task."""
    needs_first = np.array([[0.0, 1.0], [0.0, 0.0]])
    needs_second = np.array([[0.0, 0.0], [0.0, 0.9]])
    also_second = np.array([[0.0, 0.0], [0.0, 0.5]])
    shared = np.array([[0.0, 0.6], [0.0, 0.55]])
    blocks = [needs_first, needs_second, also_second, shared]
    costs = [np.array([1.0, 0.0])] * 4
    by_mean = cheapest([b.mean(axis=0) for b in blocks], costs, 2.0)
    assert by_mean == [0, 1, 1, 0]  # the second task loses 1.4
    found = choose(blocks, costs, 2.0, np.ones(2))
    assert found is not None and found.losses.max() == pytest.approx(1.0)


def test_a_task_that_does_not_matter_is_left_out() -> None:
    blocks = [np.array([[0.0, 9.0], [0.0, 0.0]]), np.array([[0.0, 0.0], [0.0, 0.1]])]
    costs = [np.array([1.0, 0.0])] * 2
    found = choose(blocks, costs, 1.0, np.array([0.0, 1.0]))
    assert found is not None and found.places == [1, 0]
