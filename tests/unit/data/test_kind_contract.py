"""What every kind owes: the functions of `Kind`, and metrics that score any resample as drawn.

A kind is taken up by its line in `KINDS` and its task in `every_kind`; a metric by its line in the
kind's `METRICS`.
"""

import inspect
import re
import types
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import every_kind

import brodmann as bm
from brodmann.data.encoding import Encoded, encode_task
from brodmann.data.judging import NOTHING, Judged
from brodmann.data.kinds import (
    KINDS,
    Kind,
    every_score,
    lower_is_better,
    metric_of,
    outcomes,
    resampled_scores,
    trivial_score,
)
from brodmann.data.metrics import Metric
from brodmann.models.backbone.tiny import tiny_tokenizer

MEMBERS = {name: member for name, member in vars(Kind).items() if not name.startswith("_")}
CASES = [(kind, metric) for kind in KINDS for metric in KINDS[kind].METRICS]


@cache
def tasks() -> dict[str, list[Any]]:
    """Tasks by kind: one of every kind, one with sets, and one whose tags mark no entities."""
    rows = [
        {"text": f"t {i}", "label": "abc"[i * i % 3], "set": f"q{i * i % 7}"} for i in range(18)
    ]
    words = [{"tokens": ["a", f"b{i}", "c"], "tags": ["X", "YZ"[i % 2], "X"]} for i in range(12)]
    more = [
        {"name": "sets", "kind": "classification", "set": "set", "train": rows, "validation": rows},
        {"name": "words", "kind": "tokens", "train": words, "validation": words},
    ]
    found: dict[str, list[Any]] = {}
    for task in bm.load_tasks([*every_kind(), *more]):
        found.setdefault(task.spec.kind, []).append(task)
    return found


@cache
def encoded(name: str, kind: str) -> Encoded:
    task = next(task for task in tasks()[kind] if task.name == name)
    return encode_task(
        task.splits["train"], task.spec, tiny_tokenizer(), max_length=24, stride=4, cache=False
    )


def some_predictions(task: Any, seed: int) -> list[dict[str, Any]]:
    """What the kind makes of random outputs in the form of its head."""
    kind, data = KINDS[task.spec.kind], encoded(task.name, task.spec.kind)
    random = np.random.default_rng(seed)
    examples = task.splits["train"]
    outputs = []
    for item in range(data.items):
        example = examples[int(data.item_example[item])]
        length = int(data.starts[item + 1] - data.starts[item])
        shape = {
            "sequence": (kind.outputs(task.spec),),
            "choice": (len(example.get("choices", ())),),
            "span": (length, 2),
            "tokens": (length, kind.outputs(task.spec)),
        }[kind.HEAD]
        outputs.append(2 * random.standard_normal(shape))
    return kind.predict(outputs, data, examples, task.spec)


def units(task: Any) -> list[list[int]]:
    """The examples of every unit that is drawn as a whole, in the order of the outcomes."""
    examples = task.splits["train"]
    if "set" not in task.spec.columns:
        return [[place] for place in range(len(examples))]
    names = sorted({str(example["set"]) for example in examples})
    return [[i for i, e in enumerate(examples) if str(e["set"]) == name] for name in names]


def repeated(
    task: Any, predictions: list[dict[str, Any]], weights: list[int]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Predictions and examples, each as often as its unit was drawn; a set drawn twice is two."""
    drawn = [
        (place, copy)
        for members, times in zip(units(task), weights, strict=True)
        for copy in range(times)
        for place in members
    ]
    examples = [dict(task.splits["train"][place]) for place, _ in drawn]
    for example, (_, copy) in zip(examples, drawn, strict=True):
        if "set" in example:
            example["set"] = (example["set"], copy)
    return [predictions[place] for place, _ in drawn], examples


def test_every_kind_has_a_task_and_every_metric_one_that_defines_it() -> None:
    assert set(tasks()) == set(KINDS)
    for kind, metric in CASES:
        assert any(KINDS[kind].METRICS[metric].defined(t.spec) for t in tasks()[kind]), metric


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_is_what_its_protocol_says(name: str) -> None:
    """Every member, with the same parameters in the same order."""
    kind = KINDS[name]
    for member, declared in MEMBERS.items():
        found = getattr(kind, member)
        if isinstance(declared, types.FunctionType):
            expected = list(inspect.signature(declared).parameters)[1:]  # without self
            assert list(inspect.signature(found).parameters) == expected, member
    assert kind.HEAD in ("sequence", "choice", "span", "tokens")
    assert set(kind.TARGETS) <= {*kind.REQUIRED, *kind.OPTIONAL}
    assert kind.METRICS and all(type(metric) is Metric for metric in kind.METRICS.values())
    for task in tasks()[name]:
        primary = kind.METRICS[kind.primary(task.spec)]
        assert primary.defined(task.spec) and not primary.lower_is_better


def test_a_name_has_one_direction_in_all_kinds() -> None:
    for kind, metric in CASES:
        assert KINDS[kind].METRICS[metric].lower_is_better == lower_is_better(metric), metric
    assert not lower_is_better("unknown") and not lower_is_better(None)


def test_an_unknown_metric_is_named() -> None:
    spec = replace(tasks()["span"][0].spec, metric="f2")
    with pytest.raises(bm.InputError) as caught:
        metric_of(spec)
    assert str(caught.value) == "task 'where': unknown metric 'f2'; known: f1, exact_match"


def test_scores_are_those_that_the_task_defines() -> None:
    found = {
        task.name: list(every_score(some_predictions(task, 0), task.splits["train"], task.spec))
        for task in (*tasks()["classification"], *tasks()["tokens"])
    }
    labels = ["accuracy", "f1", "macro_f1", "matthews"]
    tags = ["accuracy", "macro_f1"]
    assert found == {
        "single": labels,
        "pair": labels,
        "sets": [*labels, "exact_match"],
        "tag": [*tags, "entity_f1", "entity_precision", "entity_recall"],
        "words": tags,
    }


@pytest.mark.parametrize(("kind", "name"), CASES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_weights_are_repeated_examples(kind: str, name: str, data: Any) -> None:
    """From examples to predictions to scores; drawn k times counts like k equal examples."""
    metric = KINDS[kind].METRICS[name]
    task = data.draw(st.sampled_from([t for t in tasks()[kind] if metric.defined(t.spec)]))
    spec = replace(task.spec, metric=name)
    predictions = some_predictions(task, data.draw(st.integers(0, 99)))
    examples = task.splits["train"]
    scores = every_score(predictions, examples, spec)
    values = outcomes(predictions, examples, spec)
    count = len(units(task))
    assert values.shape[0] == count and values.dtype == np.float64
    some = st.lists(st.integers(0, 3), min_size=count, max_size=count).filter(any)
    weights = np.array([[1] * count, *data.draw(st.lists(some, min_size=1, max_size=4))], float)
    found = resampled_scores(values, weights, spec)
    assert found[0] == scores[name]  # to the bit: there is one formula
    for row, score in zip(weights, found, strict=True):
        again = every_score(*repeated(task, predictions, row.astype(int).tolist()), spec)
        assert score == pytest.approx(again[name], rel=1e-9, abs=1e-9)
        assert np.isfinite(score)
        if not metric.lower_is_better:
            assert score <= 1 + 1e-12 and (score >= metric.lowest - 1e-12 or name == "r2")
    if metric.proportion and values.shape[1] == 1:
        assert set(np.unique(values)) <= {0, 1}


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 99))
def test_mistakes_are_counted_as_the_metrics_count_them(name: str, seed: int) -> None:
    for task in tasks()[name]:
        predictions, examples = some_predictions(task, seed), task.splits["train"]
        judged = KINDS[name].judge(predictions, examples, task.spec)
        count = len(examples)
        assert judged.unit and len(judged.wrong) == len(judged.sure) == count
        assert len(judged.certainty) == count and (judged.wrong >= 0).all()
        assert len(judged.example) == len(judged.truth) == len(judged.answer)
        assert ((judged.example >= 0) & (judged.example < count)).all()
        for side in (judged.truth, judged.answer):
            assert ((side >= NOTHING) & (side < len(judged.names))).all()
        known = np.concatenate([judged.sure, judged.certainty])
        known = known[~np.isnan(known)]
        assert ((known >= 0) & (known <= 1 + 1e-6)).all()
        scores = every_score(predictions, examples, task.spec)
        assert_agrees_with_scores(judged, scores)
        for beliefs in judged.beliefs or ():
            assert beliefs.chances.shape == (len(beliefs.given), len(beliefs.names))
            assert np.allclose(beliefs.chances.sum(axis=1), 1, atol=1e-5)


def assert_agrees_with_scores(judged: Judged, scores: dict[str, float]) -> None:
    right = float((judged.wrong == 0).mean())
    hits = int(((judged.truth == judged.answer) & (judged.truth != NOTHING)).sum())
    given, there = (int((side != NOTHING).sum()) for side in (judged.answer, judged.truth))
    if judged.values is not None:
        assert (judged.wrong**2).mean() == pytest.approx(scores["mean_squared_error"])
    elif judged.unit == "entity":
        assert (hits / given if given else 0) == pytest.approx(scores["entity_precision"])
        assert (hits / there if there else 0) == pytest.approx(scores["entity_recall"])
    elif judged.unit == "word":
        assert (judged.truth == judged.answer).mean() == pytest.approx(scores["accuracy"])
    elif judged.unit == "label":
        assert right == pytest.approx(scores["exact_match"])
        f1 = 2 * hits / (given + there) if given + there else 0
        assert f1 == pytest.approx(scores["micro_f1"])
    else:
        assert right == pytest.approx(scores.get("accuracy", scores.get("exact_match")))


@pytest.mark.parametrize("name", KINDS)
def test_a_case_quotes_only_where_it_says_so(name: str) -> None:
    """What remains without texts has no letter of an example beyond labels and numbers."""
    for task in tasks()[name]:
        for prediction, example in zip(
            some_predictions(task, 1), task.splits["train"], strict=True
        ):
            case = KINDS[name].case(prediction, example, task.spec)
            assert case.truth and case.answer and case.text
            hidden = {"red", "big", "old", "sad", "cat", "yes", "maybe"}
            assert not hidden & set(re.findall(r"\w+", f"{case.truth} {case.answer}"))


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_answers_without_reading_have_a_score(kind: str, name: str) -> None:
    for task in tasks()[kind]:
        if KINDS[kind].METRICS[name].defined(task.spec):
            judged = replace(task, spec=replace(task.spec, metric=name))
            assert np.isfinite(trivial_score(judged, "validation"))
