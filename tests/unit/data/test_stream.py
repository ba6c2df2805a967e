"""The stream of batches: exact visits, exact resume, shares of tasks, buckets of length."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brodmann.data.sampling.samplers import SAMPLERS, make_stream
from brodmann.data.sampling.stream import BatchStream, Draw, Entropies

BY_SIZE = sorted(name for name, sampler in SAMPLERS.items() if not sampler.by_example)


def stream(sizes: list[int], sampling: str = "proportional", **options: Any) -> BatchStream:
    lengths = [np.random.default_rng(s).integers(5, 100, size=s) for s in sizes]
    usual = {"parameters": {}, "batch_size": 4, "epochs": 2, "seed": 0}
    return make_stream(sampling, lengths, **{**usual, **options})


def feedback(candidates: Sequence[np.ndarray]) -> list[Entropies]:
    """A made-up model: each item has its own uncertainty; the last task has no entropy."""
    found: list[Entropies] = [
        ((items * 7 % 11) / 11, np.ones(len(items))) for items in candidates[:-1]
    ]
    return [*found, None]


def everything(of: BatchStream) -> list[Draw]:
    return [of.next(feedback) for _ in range(len(of) - of.drawn)]


def plain(draw: Draw) -> tuple[int, dict[int, list[int]]]:
    return draw.epoch, {task: items.tolist() for task, items in draw.items.items()}


def task_of(draw: Draw) -> int:
    (task,) = draw.items
    return task


def items_of(draw: Draw) -> np.ndarray:
    (items,) = draw.items.values()
    return items


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=5), st.integers(1, 9), st.integers(0, 3))
def test_proportional_visits_every_example_exactly_once_an_epoch(
    sizes: list[int], batch_size: int, seed: int
) -> None:
    draws = everything(stream(sizes, batch_size=batch_size, seed=seed))
    for epoch in (1, 2):
        for task, size in enumerate(sizes):
            seen = [d.items[task] for d in draws if task in d.items and d.epoch == epoch]
            assert sorted(np.concatenate(seen).tolist()) == list(range(size))


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(SAMPLERS)), st.integers(0, 30), st.integers(0, 3))
def test_a_restored_stream_goes_on_as_if_nothing_had_happened(
    sampling: str, place: int, seed: int
) -> None:
    whole = stream([30, 50, 7], sampling, seed=seed)
    for _ in range(place):
        whole.next(feedback)
    state = whole.state()
    rest = everything(whole)
    other = stream([30, 50, 7], sampling, seed=seed)
    other.restore(state)
    again = everything(other)
    assert len(rest) == len(again)
    for a, b in zip(rest, again, strict=True):
        assert plain(a) == plain(b)


def test_other_samplers_walk_without_replacement_and_reshuffle() -> None:
    draws = [d for d in everything(stream([8, 80], "uniform", epochs=4)) if 0 in d.items]
    for first, second in zip(draws[0::2], draws[1::2], strict=False):
        assert sorted([*items_of(first), *items_of(second)]) == list(range(8))
    orders = {tuple(items_of(d).tolist()) for d in draws}
    assert len(orders) > 2


def test_an_epoch_has_as_many_batches_under_every_sampler_and_their_shares() -> None:
    for sampling in SAMPLERS:
        of = stream([400, 1600], sampling, epochs=1)
        draws = everything(of)
        assert len(draws) == 500
        if sampling not in BY_SIZE:
            continue
        share = np.mean([task_of(d) for d in draws])
        expected = {"uniform": 0.5, "sqrt": 2 / 3, "temperature": 2 / 3}.get(sampling, 0.8)
        assert share == pytest.approx(expected, abs=0.06)


def test_buckets_save_padding_and_are_still_shuffled() -> None:
    of, plain = stream([2000], batch_size=16), stream([2000], batch_size=16, bucketing=False)

    def padded(draws: list[Draw]) -> int:
        return sum(int(of.lengths[0][items_of(d)].max()) * len(items_of(d)) for d in draws)

    draws = everything(of)
    assert padded(everything(plain)) > 1.5 * padded(draws)
    means = [of.lengths[0][items_of(d)].mean() for d in draws[:125]]
    assert abs(np.corrcoef(means, np.arange(125))[0, 1]) < 0.3
    first, second = ([items_of(d).tolist() for d in half] for half in (draws[:125], draws[125:]))
    assert first != second


@pytest.mark.parametrize("sampling", sorted(SAMPLERS))
def test_the_share_of_the_data_used_is_counted_exactly(sampling: str) -> None:
    of = stream([30, 50, 7], sampling)
    before = of.log_facts("abc")
    assert (before["used"], before["used_of_all"]) == ({"a": 0, "b": 0, "c": 0}, 0)
    seen: list[set[int]] = [set(), set(), set()]
    for _ in range(len(of)):
        for task, items in of.next(feedback).items.items():
            seen[task] |= set(items.tolist())
        facts = of.log_facts("abc")
        assert list(facts["used"].values()) == pytest.approx(
            [len(one) / size for one, size in zip(seen, (30, 50, 7), strict=True)]
        )
        assert facts["used_of_all"] == pytest.approx(sum(map(len, seen)) / 87)
    other = stream([30, 50, 7], sampling)
    other.restore(of.state())
    assert other.log_facts("abc") == of.log_facts("abc")
