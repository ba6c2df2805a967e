"""By task or by language: which tasks are the same one, and why nothing can be compared."""

from typing import Any

import numpy as np
import pytest

from brodmann.reporting.blocks import Table, Words
from brodmann.reporting.record import Record, Study
from brodmann.reporting.sections.languages import pairs_of, section
from brodmann.results import HeadScores


def entry(named: str, language: str | None, head: str) -> dict[str, Any]:
    return {"named": named, "language": language, "head": head}


def run_of(data: dict[str, dict[str, Any]]) -> Record:
    values = np.random.default_rng(0).random((len(data), 3, 4))
    scores = HeadScores(tuple(data), values)
    return Record("run", {}, "", {"data": data}, scores=scores)


def builtin(*names: str, heads: bool) -> Record:
    """`topic-es` is builtin/topic:es, with an output head of its own or its task's."""
    data = {}
    for name in names:
        task, language = name.split("-")[:2]
        data[name] = entry(f"builtin/{task}:{language}", language, task if heads else name)
    return run_of(data)


def texts(run: Record) -> list[str]:
    found = section(Study("s", [run]))
    return [] if found is None else [block.text for block in found.blocks if type(block) is Words]


@pytest.mark.parametrize("heads", [True, False])
def test_the_same_task_needs_no_shared_head(heads: bool) -> None:
    run = builtin("topic-en", "topic-es", "sentiment-en", "sentiment-es", heads=heads)
    found = section(Study("s", [run]))
    assert found is not None
    table = next(block for block in found.blocks if isinstance(block, Table))
    assert [row[:2] for row in table.rows] == [
        ["same task, other language", "2"],
        ["same language, other task", "2"],
        ["both differ", "2"],
    ]


def test_two_datasets_with_one_head_are_one_task() -> None:
    run = run_of(
        {
            "ner-en": entry("wikigold", "en", "ner"),
            "ner-es": entry("conll2002:es", "es", "ner"),
            "own-en": entry("", "en", "own-en"),
        }
    )
    assert pairs_of(run) == {
        "ner-en": ("ner", "en"),
        "ner-es": ("ner", "es"),
        "own-en": ("own-en", "en"),
    }


def test_two_tasks_with_one_head_stay_two() -> None:
    """Where both stand in both languages the data say what is the same, not the output."""
    data = {
        f"{task}-{language}": entry(f"builtin/{task}:{language}", language, "team")
        for task in ("team", "club")
        for language in ("en", "es")
    }
    assert {task for task, _ in pairs_of(run_of(data)).values()} == {"builtin/team", "builtin/club"}


def test_a_pair_that_stands_twice_is_left_out() -> None:
    run = builtin("topic-en", "topic-en-2", "topic-es", "sentiment-en", "sentiment-es", heads=False)
    last = texts(run)[-1]
    assert last == "Left out, the same task and language as one before: topic-en-2."
    found = section(Study("s", [run]))
    assert found is not None
    table = next(block for block in found.blocks if isinstance(block, Table))
    assert [row[1] for row in table.rows] == ["2", "2", "2"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (
            {
                "a": entry("", "en", "a"),
                "b": entry("", "es", "b"),
            },
            "Not compared: no task has two languages here. Tasks of your own data are the same "
            "task if they name the same `head`.",
        ),
        (
            {"a": entry("", "en", "x"), "b": entry("", "es", "x")},
            "Not compared: no language has two tasks.",
        ),
        (
            {"a": entry("", "en", "x"), "b": entry("", "es", "x"), "c": entry("", None, "c")},
            "Not compared: no language is given for c.",
        ),
    ],
)
def test_why_nothing_is_compared(data: dict[str, Any], reason: str) -> None:
    assert texts(run_of(data)) == [reason]


def test_one_language_is_no_question() -> None:
    assert section(Study("s", [builtin("topic-en", "sentiment-en", heads=False)])) is None
    assert section(Study("s", [])) is None


def test_a_page_of_meta_learning_begins_with_what_it_found() -> None:
    """One pair clearly better, one not clear; nothing is called unfinished."""
    from brodmann.reporting.findings import meta_findings

    def pair(mean: float, low: float, high: float) -> dict[str, Any]:
        entry = {"shots": 16, "steps": 5, "starts": {}}
        difference = {"mean": mean, "low": low, "high": high}
        early = {**entry, "steps": 0, "differences": {"pretrained": {**difference, "mean": -9.0}}}
        return {"table": [early, {**entry, "differences": {"pretrained": difference}}]}

    found = {"pairs": {"a": pair(0.285, 0.05, 0.52), "b": pair(0.003, -0.089, 0.094)}}
    first, second = meta_findings(found)
    assert first == (
        "a: meta-training is better than pretrained (+28.5 [5.0, 52.0])",
        "after 5 steps on 16 examples",
    )
    assert second[0] == (
        "b: meta-training is not clearly different from pretrained (+0.3 [−8.9, 9.4])"
    )
    one_seed = {"mean": 0.1, "low": None, "high": None}
    entry = {"shots": 16, "steps": 5, "differences": {"pretrained": one_seed}}
    assert meta_findings({"pairs": {"a": {"table": [entry]}}}) == []
