"""The null distribution of D: only heads of a task's own give a small p."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from brodmann.analysis.dissociation import dissociation_scores, overlap
from brodmann.analysis.null import (
    exchanged,
    exchanges_needed,
    null_distribution,
    orders_of,
    reordered,
)
from brodmann.results import Head

HEADS = [(layer, head) for layer in range(6) for head in range(12)]
Scorer = Callable[[Any], np.ndarray]  # choices of heads → (task, choice) of RP


def null_of(heads: list[list[Head]], relative: Scorer, exchanges: int, seed: int) -> Any:
    families = [heads, *exchanged(heads, exchanges, seed)]
    return null_distribution([relative(family) for family in families], seed)


def a_model(generator: np.random.Generator, tasks: int, own: float) -> tuple[Any, Scorer]:
    """Chosen heads, and a scorer: a head costs every task its weight, its owner `own` more.

    What a choice costs on the examples judged is uncertain: each has a noise of its own.
    """
    weight = dict(zip(HEADS, generator.gamma(1.0, 1.0, len(HEADS)) / len(HEADS), strict=True))
    owner = dict(zip(HEADS, generator.integers(0, tasks, len(HEADS)), strict=True))
    seen: dict[tuple[Head, ...], np.ndarray] = {}

    def cost(task: int, head: Head) -> float:
        return weight[head] * (1 + own * (owner[head] == task))

    def importance(task: int) -> list[Head]:
        noise = np.exp(0.5 * generator.standard_normal(len(HEADS)))
        values = {h: cost(task, h) * float(n) for h, n in zip(HEADS, noise, strict=True)}
        return sorted(sorted(HEADS, key=lambda h: -values[h])[:21])

    def relative(family: Any) -> np.ndarray:
        for off in family:
            if tuple(off) not in seen:
                lost = [sum(cost(task, head) for head in off) for task in range(tasks)]
                noise = 0.02 * generator.standard_normal(tasks)
                seen[tuple(off)] = 1 - np.array(lost) + noise
        return np.stack([seen[tuple(off)] for off in family], axis=1)

    return [importance(task) for task in range(tasks)], relative


@pytest.mark.parametrize("tasks", [2, 3, 5])
def test_heads_of_ones_own_have_a_small_p(tasks: int) -> None:
    generator = np.random.default_rng(0)
    heads, relative = a_model(generator, tasks, own=2.0)
    found = null_of(heads, relative, exchanges_needed(tasks), seed=1)
    assert found["p"] is not None and found["p"] <= 0.05
    assert found["highest"] < float(reordered(relative(heads), orders_of(tasks, 0))[0].mean())


@pytest.mark.parametrize("tasks", [2, 3, 4])
def test_heads_that_matter_to_all_alike_are_rejected_in_one_of_twenty(tasks: int) -> None:
    generator = np.random.default_rng(tasks)
    found = []
    for number in range(300):
        heads, relative = a_model(generator, tasks, own=0.0)
        found.append(null_of(heads, relative, exchanges_needed(tasks), seed=number)["p"])
    assert np.mean(np.array(found) <= 0.05) == pytest.approx(0.05, abs=0.03)
    assert np.mean(np.array(found) <= 0.5) == pytest.approx(0.5, abs=0.08)


def test_dealt_heads_keep_all_but_their_owner() -> None:
    generator = np.random.default_rng(0)
    chosen = [sorted(map(tuple, generator.permutation(HEADS)[:21].tolist())) for _ in range(4)]
    everybodys = (5, 11)
    heads = [sorted({*own, everybodys})[:22] for own in chosen]
    heads = [own if everybodys in own else [*own[:-1], everybodys] for own in heads]
    total = sorted(itertools.chain(*heads))
    for dealt in exchanged(heads, 20, seed=3):
        assert sorted(itertools.chain(*dealt)) == total  # every head as often as before
        assert [len(set(own)) for own in dealt] == [len(own) for own in heads]
        assert all(everybodys in own for own in dealt)
    two = exchanged(heads[:2], 200, seed=0)
    shared = overlap(heads[:2])[0][1]
    assert all(overlap(dealt)[0][1] == pytest.approx(shared) for dealt in two)
    # Of what only one of them has, every head goes to the first one in half of the draws.
    mine = sorted(set(heads[0]) ^ set(heads[1]))
    share = np.mean([[head in dealt[0] for head in mine] for dealt in two], axis=0)
    assert share == pytest.approx(np.full(len(mine), len(heads[0]) / (2 * len(heads[0]))), abs=0.15)
    assert exchanged(heads, 3, seed=3) == exchanged(heads, 20, seed=3)[:3]


def test_an_order_gives_every_task_anothers_heads() -> None:
    generator = np.random.default_rng(0)
    relative = generator.random((4, 4))
    orders = orders_of(4, 0)
    assert len(orders) == 24 and orders[0].tolist() == [0, 1, 2, 3]
    for order, values in zip(orders, reordered(relative, orders), strict=True):
        expected = dissociation_scores(relative[:, order], np.ones(4)).per_task
        assert values == pytest.approx(expected)
    many = orders_of(8, 0)
    assert len(many) == 1000 and many[0].tolist() == list(range(8))


def test_p_counts_the_observed_choice_and_needs_twenty_values() -> None:
    own = np.array([[0.2, 0.9], [0.9, 0.2]])
    assert null_distribution([own])["p"] is None  # two values: 0.5 at best
    found = null_distribution([own, *[np.full((2, 2), 0.5)] * 9])
    assert (found["p"], found["values"]) == (pytest.approx(1 / 20), 20)
    assert found["mean"] == pytest.approx(0.0)
    same = null_distribution([np.full((2, 2), 0.5)] * 10)
    assert same["p"] == 1.0  # the same heads for all: nothing is anybody's
    assert [exchanges_needed(tasks) for tasks in (2, 3, 4, 5, 9)] == [9, 3, 0, 0, 0]
