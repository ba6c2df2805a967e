"""Sampling by uncertainty against a literal transcription, and its stream."""

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import brodmann as bm
from brodmann.data.kinds import KINDS
from brodmann.data.sampling.stream import BatchStream
from brodmann.data.sampling.uncertainty import UncertaintyStream, chosen, in_order, uncertainties


def literal(
    entropies: list[list[tuple[float, float]] | None], counts: list[int], b: int, formula: str
) -> set[tuple[int, int]]:
    """Algorithm 1, one candidate after the other."""
    tasks = len(entropies)
    batch: set[tuple[int, int]] = set()
    takes: dict[int, int] = {}
    some = any(one is not None for one in entropies)
    last = 1 if some and b > 1 else 0
    for task, one in enumerate(entropies):
        if one is None:  # no entropy: a fixed number of places, from all over its candidates
            takes[task] = min(max(1, b // tasks), counts[task], b - sum(takes.values()) - last)
    task = 0
    while not some and sum(takes.values()) < min(b, sum(counts)):  # what is left goes round
        takes[task % tasks] += takes[task % tasks] < counts[task % tasks]
        task += 1
    for task, take in takes.items():
        batch |= {(task, number * counts[task] // take) for number in range(take)}
    left = b - len(batch)
    scored = []
    u = {
        task: [h / bound if bound > 0 else 0.0 for h, bound in one]
        for task, one in enumerate(entropies)
        if one is not None
    }
    largest_u = max((sum(v) / len(v) for v in u.values() if v), default=0.0) or 1.0
    largest_h = max((sum(h for h, _ in one) / len(one) for one in entropies if one), default=0.0)
    for task, values in u.items():
        for place, value in enumerate(values):
            if formula == "paper":
                score = value / (largest_h or 1.0)
            else:
                score = value * (sum(values) / len(values) / largest_u)
            scored.append((score, task, place))
    while left and scored:
        best = max(scored, key=lambda entry: (entry[0], -entry[1], -entry[2]))
        scored.remove(best)
        batch.add((best[1], best[2]))
        left -= 1
    return batch


# Few distinct values, so that ties happen; sums of quarters are exact.
ENTROPY = st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.sampled_from([1.0, 2.0, 0.0]))
TASK = st.one_of(st.none(), st.lists(ENTROPY, min_size=1, max_size=6))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(TASK, min_size=1, max_size=5),
    st.integers(1, 12),
    st.sampled_from(["published", "paper"]),
)
def test_the_choice_is_algorithm_1(entropies: Any, budget: int, formula: str) -> None:
    counts = [4 if one is None else len(one) for one in entropies]
    arrays = [
        None if one is None else (np.array([h for h, _ in one]), np.array([b for _, b in one]))
        for one in entropies
    ]
    found = chosen(arrays, counts, budget, formula)
    got = {(task, int(place)) for task, places in enumerate(found) for place in places}
    assert got == literal(entropies, counts, budget, formula)


def test_the_published_formula_favours_uncertain_tasks_and_the_papers_cannot() -> None:
    sure = (np.array([0.6, 0.1]), np.ones(2))
    unsure = (np.array([0.5, 0.9]), np.ones(2))
    published = uncertainties([sure, unsure], "published")
    paper = uncertainties([sure, unsure], "paper")
    assert published[0] is not None and published[1] is not None
    assert paper[0] is not None and paper[1] is not None
    assert published[0][0] < published[1][0]  # 0.6 of a sure task below 0.5 of an unsure one
    assert paper[0][0] > paper[1][0]
    np.testing.assert_allclose(published[0], [0.6 * 0.35 / 0.7, 0.1 * 0.35 / 0.7])
    np.testing.assert_allclose(paper[1], [0.5 / 0.7, 0.9 / 0.7])


def test_places_without_entropy_move_on_and_leave_room() -> None:
    found = [None, (np.ones(4), np.ones(4)), None]
    taken = [chosen(found, [8, 4, 8], 6, turn=turn) for turn in range(8)]
    assert {len(places[0]) for places in taken} == {2}
    assert {int(place) for places in taken for place in places[0]} == set(range(8))
    tight = [chosen([None, None, None, found[1]], [4, 4, 4, 4], 2, turn=turn) for turn in range(3)]
    assert all(len(places[3]) == 1 and sum(map(len, places)) == 2 for places in tight)
    assert {task for places in tight for task in range(3) if len(places[task])} == {0, 1, 2}


def test_regressions_alone_fill_the_batch_and_one_place_goes_round() -> None:
    taken = [chosen([None] * 3, [8, 8, 8], 8, turn=turn) for turn in range(3)]
    assert [[len(own) for own in places] for places in taken] == [[3, 3, 2], [2, 3, 3], [3, 2, 3]]
    assert [len(own) for own in chosen([None] * 2, [1, 8], 6)] == [1, 5]  # a small task has no more
    one = [chosen([None, (np.ones(4), np.ones(4)), None], [4] * 3, 1, turn=t) for t in range(6)]
    assert all(sum(map(len, places)) == 1 for places in one)
    assert {task for places in one for task in range(3) if len(places[task])} == {0, 1, 2}
    assert len(one[0][0]) == 1


def test_the_share_of_all_data_counts_distinct_examples() -> None:
    stream = a_stream()
    stream.used[0][:5], stream.used[1][:1] = True, True
    facts = stream.log_facts(["a", "b"])
    assert facts["used"] == {"a": 0.5, "b": pytest.approx(1 / 7)}
    assert facts["used_of_all"] == pytest.approx(6 / 17)


def shannon(probabilities: Any) -> float:
    return -sum(p * math.log(p) for p in probabilities if p > 0)


def test_entropies_of_every_kind_against_the_definition() -> None:
    torch.manual_seed(0)
    logits = torch.randn(3, 4)
    everything = torch.ones(3, 4, dtype=torch.bool)
    found, bound = KINDS["classification"].entropy(logits, everything)  # type: ignore[misc]
    for row in range(3):
        assert found[row] == pytest.approx(shannon(logits[row].softmax(0).tolist()), abs=1e-6)
    assert bound.tolist() == pytest.approx([math.log(4)] * 3)

    found, bound = KINDS["multilabel"].entropy(logits, everything)  # type: ignore[misc]
    yes = logits.sigmoid()
    for row in range(3):
        each = [shannon([p, 1 - p]) for p in yes[row].tolist()]
        assert found[row] == pytest.approx(sum(each) / 4, abs=1e-6)
    assert bound.tolist() == pytest.approx([math.log(2)] * 3)

    real = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1], [1, 1, 1, 0]]).bool()
    padded = logits.masked_fill(~real, torch.finfo(torch.float32).min)
    found, bound = KINDS["choice"].entropy(padded, real)  # type: ignore[misc]
    for row, count in enumerate((2, 4, 3)):
        expected = shannon(logits[row, :count].softmax(0).tolist())
        assert found[row] == pytest.approx(expected, abs=1e-6)
        assert bound[row] == pytest.approx(math.log(count))

    both = torch.randn(3, 4, 2)
    found, bound = KINDS["span"].entropy(both, real)  # type: ignore[misc]
    for row, count in enumerate((2, 4, 3)):
        ends = [shannon(both[row, :count, end].softmax(0).tolist()) for end in (0, 1)]
        assert found[row] == pytest.approx(sum(ends) / 2, abs=1e-6)
        assert bound[row] == pytest.approx(math.log(count))

    tags = torch.randn(3, 4, 5)
    found, bound = KINDS["tokens"].entropy(tags, real)  # type: ignore[misc]
    for row, count in enumerate((2, 4, 3)):
        each = [shannon(tags[row, token].softmax(0).tolist()) for token in range(count)]
        assert found[row] == pytest.approx(sum(each) / count, abs=1e-6)
    assert bound.tolist() == pytest.approx([math.log(5)] * 3)
    assert KINDS["regression"].entropy is None


def a_stream(**options: Any) -> UncertaintyStream:
    sizes = [np.arange(10) % 5 + 3, np.arange(7) % 5 + 3]
    return UncertaintyStream(sizes, batch_size=4, epochs=3, seed=1, **options)


def test_candidates_come_without_replacement_and_a_walk_ends_before_the_next() -> None:
    stream = a_stream()
    assert len(stream) == 3 * (3 + 2)  # as many steps as under every sampler
    first = [stream.candidates() for _ in range(3)]
    assert sorted(np.concatenate([one[0] for one in first]).tolist()) == list(range(10))
    assert sorted(np.concatenate([one[1] for one in first[:2]]).tolist()) == list(range(7))


def test_the_stream_goes_on_where_it_was() -> None:
    def step(stream: UncertaintyStream, random: Any) -> list[list[int]]:
        items = stream.candidates()
        found = [(random.random(len(own)), np.ones(len(own))) for own in items]
        return [own.tolist() for own in stream.choose(items, found)]

    straight, random = a_stream(), np.random.default_rng(0)
    whole = [step(straight, random) for _ in range(9)]
    stopped, random = a_stream(), np.random.default_rng(0)
    begin = [step(stopped, random) for _ in range(4)]
    again = a_stream()
    again.restore(json.loads(json.dumps(stopped.state())))
    assert begin + [step(again, random) for _ in range(5)] == whole
    assert again.log_facts(["a", "b"]) == straight.log_facts(["a", "b"])
    assert [used.sum() for used in again.used] == [used.sum() for used in straight.used]


def test_shares_of_several_processes_come_in_order() -> None:
    items = [np.arange(5), np.arange(3), np.arange(2)]
    whole = [(np.arange(5) / 10, np.ones(5)), (np.arange(3) / 7, np.ones(3)), None]
    shares: list[Any] = [
        [None if one is None else (one[0][rank::2], one[1][rank::2]) for one in whole]
        for rank in range(2)
    ]
    for expected, found in zip(whole, in_order(shares, items), strict=True):
        if expected is None or found is None:
            assert expected is found
            continue
        np.testing.assert_array_equal(expected[0], found[0])


@pytest.mark.parametrize(
    ("parameters", "words"),
    [({"formula": "papr"}, "did you mean 'paper'"), ({"tau": 2}, "has no parameter 'tau'")],
)
def test_wrong_parameters_are_one_line(
    tasks_of_every_kind: list[Any], parameters: dict[str, Any], words: str
) -> None:
    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks_of_every_kind)
    with pytest.raises(bm.InputError, match=words):
        bm.fit(model, tasks_of_every_kind, sampling="uncertainty", sampling_parameters=parameters)


def test_candidates_are_drawn_at_random_and_not_by_length() -> None:
    """The lengths inside a draw spread like those of the whole task."""
    generator = np.random.default_rng(0)
    lengths = generator.integers(5, 120, size=3200)
    options = {"batch_size": 32, "epochs": 1, "seed": 0}
    stream = UncertaintyStream([lengths], bucketing=True, **options)
    spreads = [lengths[stream.candidates()[0]].std() for _ in range(50)]
    assert np.mean(spreads) == pytest.approx(lengths.std(), rel=0.05)
    bucketed = BatchStream([lengths], bucketing=True, **options)
    assert np.mean([lengths[bucketed.take(0)].std() for _ in range(50)]) < 0.2 * lengths.std()
