"""Episodes: support and query never overlap, classes are balanced, the key decides all."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brodmann.data.draws.episodes import EpisodeSource
from brodmann.data.loading import load_tasks
from brodmann.errors import InputError


def task_of(texts: list[str], labels: list[int]) -> Any:
    rows = [{"text": t, "label": f"{y}"} for t, y in zip(texts, labels, strict=True)]
    description = {"name": "t", "kind": "classification", "train": rows, "validation": rows[:2]}
    return load_tasks([{**description, "labels": ["0", "1", "2"]}])[0]


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_support_and_query_never_overlap(data: Any) -> None:
    """Neither in examples nor in texts, however often a text stands in the data."""
    count = data.draw(st.integers(12, 30))
    texts = [f"text {data.draw(st.integers(0, 40))}" for _ in range(count)]
    labels = [0, 1, *(data.draw(st.integers(0, 2)) for _ in range(count - 2))]  # two at least
    different = len(set(texts))
    support = data.draw(st.integers(1, max(1, different - 1)))
    query = different - support
    if query < 1:
        return
    task = task_of(texts, labels)
    episode = EpisodeSource(task, support=support, query=query).draw("0/1")
    assert len(episode.support) == support and len(episode.query) == query
    read = [[texts[place] for place in places] for places in (episode.support, episode.query)]
    assert set(read[0]).isdisjoint(read[1])
    assert len(set(read[0] + read[1])) == support + query


def test_classes_come_equally_often_and_the_key_decides() -> None:
    texts = [f"text {i}" for i in range(60)]
    task = task_of(texts, [0] * 40 + [1] * 10 + [2] * 10)
    source = EpisodeSource(task, support=6, query=9)
    episode = source.draw("0/5")
    labels = [0] * 40 + [1] * 10 + [2] * 10
    for places, each in ((episode.support, 2), (episode.query, 3)):
        assert [sum(labels[p] == label for p in places) for label in range(3)] == [each] * 3
    assert source.draw("0/5") == episode
    assert len({source.draw(f"0/{step}") for step in range(20)}) == 20


def test_too_few_examples_are_said_so() -> None:
    task = task_of(["a", "b", "a", "c"], [0, 1, 0, 2])
    with pytest.raises(InputError) as error:
        EpisodeSource(task, support=2, query=2)
    assert str(error.value) == (
        "task 't': 3 different training examples are too few for 2 to adapt to and 2 to evaluate on"
    )


def questions(contexts: list[int]) -> Any:
    """A question an entry, about the context of that number."""
    rows = [
        {"context": f"text {c} is red", "question": f"which {i}?", "answer": "red"}
        for i, c in enumerate(contexts)
    ]
    description = {"name": "q", "kind": "span", "train": rows, "validation": rows[:2]}
    return load_tasks([description])[0]


def premises(texts: list[int]) -> Any:
    rows = [
        {"text": f"premise {c}", "text_pair": f"claim {i}", "label": str(i % 2)}
        for i, c in enumerate(texts)
    ]
    description = {"name": "p", "kind": "classification", "text_pair": "text_pair"}
    return load_tasks([{**description, "train": rows, "validation": rows[:2]}])[0]


@pytest.mark.parametrize("make", [questions, premises])
def test_support_and_query_share_no_first_text(make: Any) -> None:
    of_place = [place // 3 for place in range(30)]
    source = EpisodeSource(make(of_place), support=4, query=6)
    assert not source.note
    repeated = 0
    for step in range(30):
        episode = source.draw(f"0/{step}")
        assert len(episode.support) == 4 and len(episode.query) == 6
        support, query = ({of_place[p] for p in side} for side in (episode.support, episode.query))
        assert support.isdisjoint(query)
        repeated += len(query) < 6
    assert repeated  # all questions about a context are used, not only the first


@pytest.mark.parametrize(("make", "what"), [(questions, "contexts"), (premises, "first texts")])
def test_too_few_first_texts_are_said_so(make: Any, what: str) -> None:
    task = make([place // 10 for place in range(20)])
    source = EpisodeSource(task, support=4, query=6)
    assert source.note == (
        f"{task.name}: 20 examples over 2 {what} are too few to keep {what} apart: one may be "
        "among those to adapt to and those to evaluate on"
    )
    episode = source.draw("0/0")
    assert len(set(episode.support) | set(episode.query)) == 10
