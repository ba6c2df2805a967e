"""AG-Pair: the rules hold, and no larger set of pairs keeps them."""

import itertools
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import brodmann as bm
from brodmann.data.draws.pairs import Pair, balanced_pairs
from brodmann.errors import InputError


def used_texts(classes: Sequence[int], pairs: Sequence[Pair]) -> int:
    """How many texts are used; fails where a rule is broken."""
    times = Counter(place for one, two, _ in pairs for place in (one, two))
    assert set(times.values()) <= {2}  # every text in exactly two pairs
    assert len({frozenset(pair[:2]) for pair in pairs}) == len(pairs)  # no pair twice
    assert all(one != two and (classes[one] == classes[two]) == same for one, two, same in pairs)
    assert 2 * sum(same for *_, same in pairs) == len(pairs)  # half share their class
    assert len(times) == len(pairs)
    return len(times)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 5), st.integers(1, 12), st.integers(0, 3))
def test_balanced_classes_are_used_whole(count: int, quarter: int, seed: int) -> None:
    classes = [place % count for place in range(4 * quarter * count)]
    pairs = balanced_pairs(classes, seed)
    assert used_texts(classes, pairs) == len(classes)
    assert pairs == balanced_pairs(classes, seed)
    if len(classes) > 12:
        assert pairs != balanced_pairs(classes, seed + 1)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=6))
def test_any_classes_keep_the_rules_and_reach_the_bound(sizes: list[int]) -> None:
    classes = [c for c, size in enumerate(sizes) for _ in range(size)]
    used = used_texts(classes, balanced_pairs(classes, 0))
    for more in range(used + 2, sum(sizes) + 1, 2):
        too_many = sum(min(size, more // 4) for size in sizes) < more // 2
        assert too_many or more < 2 * len(sizes)  # tiny ones are searched through below


def largest_by_search(sizes: Sequence[int]) -> int:
    """The most texts over every graph in which texts have two pairs or none."""
    classes = [c for c, size in enumerate(sizes) for _ in range(size)]
    edges = list(itertools.combinations(range(len(classes)), 2))
    best = 0

    def extend(place: int, times: list[int], balance: int) -> None:
        nonlocal best
        if place == len(edges):
            if balance == 0 and set(times) <= {0, 2}:
                best = max(best, sum(times) // 2)
            return
        one, two = edges[place]
        if place and edges[place - 1][0] != one and times[edges[place - 1][0]] == 1:
            return  # a text that no later pair can reach is left with one
        extend(place + 1, times, balance)
        if times[one] < 2 and times[two] < 2:
            times[one] += 1
            times[two] += 1
            extend(place + 1, times, balance + (1 if classes[one] == classes[two] else -1))
            times[one] -= 1
            times[two] -= 1

    extend(0, [0] * len(classes), 0)
    return best


@pytest.mark.parametrize("total", range(1, 7))
def test_no_larger_set_keeps_the_rules(total: int) -> None:
    for parts in range(1, total + 1):
        for sizes in itertools.combinations_with_replacement(range(1, total + 1), parts):
            if sum(sizes) == total:
                classes = [c for c, size in enumerate(sizes) for _ in range(size)]
                found = used_texts(classes, balanced_pairs(classes, 0))
                assert found == largest_by_search(sizes), sizes


def test_a_pair_task_from_a_named_and_from_an_own_task() -> None:
    limit = {"train": 80, "validation": 40, "test": 40}
    named = bm.load_tasks([{"pair_of": {"use": "builtin/topic", "limit": limit}}])[0]
    assert named.name == "topic_pair" and named.spec.labels == ("different", "same")
    assert named.sizes == limit and named.spec.pair
    assert Counter(example["label"] for example in named.splits["train"]) == {0: 40, 1: 40}
    base = bm.load_tasks([{"use": "builtin/topic", "limit": limit}])[0]
    texts = Counter(e[side] for e in named.splits["train"] for side in ("text", "text_pair"))
    assert texts == Counter(e["text"] for e in base.splits["train"] for _ in range(2))

    rows = [{"text": f"text {i}", "label": "big" if i % 10 else "small"} for i in range(100)]
    own = bm.load_task(
        "mine",
        pair_of={"name": "sizes", "kind": "classification", "train": rows, "validation": rows},
    )
    assert own.sizes == {"train": 40, "validation": 40}
    assert (
        "mine: 40 pairs of 100 train texts: the most in which every text occurs twice"
        in own.notes[1]  # the first says that both splits are the same
    )
    for wrong, message in (
        ({"pair_of": "builtin/paraphrase"}, "pair_of needs a classification of single texts"),
        ({"pair_of": "builtin/topic", "data": "x.csv"}, "pair_of and data cannot be combined"),
    ):
        with pytest.raises(InputError, match=message):
            bm.load_tasks([wrong])


def test_a_limit_chooses_texts_before_they_are_paired() -> None:
    """At the size of the small recipe of Table 4: each text used stands in exactly two pairs."""
    topics = ("World", "Sports", "Business", "Sci/Tech")
    rows = [{"text": f"news {place}", "label": topics[place % 4]} for place in range(8000)]
    others = [{**row, "text": f"more {row['text']}"} for row in rows[:3200]]
    task = bm.load_task(
        "ag_pair",
        pair_of={"name": "ag", "kind": "classification", "train": rows, "validation": others},
        limit={"train": 2000, "validation": 800},
    )
    assert task.sizes == {"train": 2000, "validation": 800}
    for split, size in task.sizes.items():
        examples = task.splits[split]
        times = Counter(e[side] for e in examples for side in ("text", "text_pair"))
        assert set(times.values()) == {2} and len(times) == size, split
        assert Counter(e["label"] for e in examples) == {0: size // 2, 1: size // 2}
    assert task.notes == [
        f"ag_pair: {size} texts (limit {limit}): the most in which every text occurs twice and "
        "half share their class"
        for size, limit in (
            ("2,000 pairs of 8,000 train", "2,000"),
            ("800 pairs of 3,200 validation", "800"),
        )
    ]


def test_a_limit_takes_what_unequal_classes_allow() -> None:
    rows = [{"text": f"t{i}", "label": "big" if i % 10 else "small"} for i in range(100)]
    sizes = {"name": "sizes", "kind": "classification", "train": rows, "validation": rows}
    assert bm.load_task("mine", pair_of=sizes, limit=20).sizes == {"train": 20, "validation": 40}
    assert (
        bm.load_task("mine", pair_of=sizes, limit=23).sizes["train"] == 20
    )  # halves of two classes
    with pytest.raises(InputError) as raised:
        bm.load_task("mine", pair_of=sizes, limit=3)
    assert str(raised.value) == (
        "task 'mine': pair_of: train has too few texts or classes for pairs, or a limit below 4"
    )


@given(st.lists(st.integers(0, 30), min_size=2, max_size=5), st.integers(4, 60))
@settings(max_examples=60, deadline=None)
def test_any_limit_keeps_the_rules(sizes: list[int], most: int) -> None:
    classes = [c for c, size in enumerate(sizes) for _ in range(size)]
    whole = len(balanced_pairs(classes, 0))
    assert used_texts(classes, limited := balanced_pairs(classes, 0, most)) <= most
    if whole and most % 4 == 0 and most >= 2 * len(sizes):
        assert len(limited) == min(whole, most)
