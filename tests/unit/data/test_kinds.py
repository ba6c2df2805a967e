"""Kinds of task: tokens find their words, spans their characters, windows cover everything."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import brodmann as bm
from brodmann.data.encoding import IGNORED, Encoded, encode_task
from brodmann.data.kinds import KINDS, every_score, tokens
from brodmann.data.tasks import TaskSpec
from brodmann.models.backbone.tiny import tiny_tokenizer

TOKENIZER = tiny_tokenizer()


def encoded(task: Any, max_length: int = 64, stride: int = 8, split: str = "train") -> Encoded:
    return encode_task(
        task.splits[split], task.spec, TOKENIZER, max_length=max_length, stride=stride, cache=False
    )


def right_outputs(task: Any, data: Encoded) -> list[np.ndarray[Any, Any]]:
    """Logits that say exactly what the labels say."""
    outputs = []
    for item in range(data.items):
        rows = slice(int(data.starts[item]), int(data.starts[item + 1]))
        kind = task.spec.kind
        if kind == "tokens":
            tags = data.labels["tags"][rows]
            outputs.append(10.0 * np.eye(len(task.spec.labels))[np.where(tags < 0, 0, tags)])
        elif kind == "span":
            logits = np.zeros((rows.stop - rows.start, 2))
            logits[data.labels["first"][item], 0] = logits[data.labels["last"][item], 1] = 20
            outputs.append(logits)
        elif kind == "choice":
            outputs.append(10.0 * np.eye(4)[data.labels["label"][item]])
        elif kind == "classification":
            outputs.append(10.0 * np.eye(len(task.spec.labels))[data.labels["label"][item]])
        elif kind == "multilabel":
            outputs.append(20.0 * data.labels["label"][item] - 10)
        else:
            outputs.append(data.labels["label"][item : item + 1])
    return outputs


@pytest.mark.parametrize("max_length", [64, 12])
def test_labels_through_encoding_and_prediction_score_one(
    tasks_of_every_kind: list[Any], max_length: int
) -> None:
    for task in tasks_of_every_kind:
        data = encoded(task, max_length)
        kind = KINDS[task.spec.kind]
        examples = task.splits["train"]
        predictions = kind.predict(right_outputs(task, data), data, examples, task.spec)
        scores = every_score(predictions, examples, task.spec)
        expected = {metric: 0.0 if "error" in metric else 1.0 for metric in scores}
        assert scores == pytest.approx(expected, abs=1e-3), task.name  # ties of values


def test_trivial_answers_are_the_majority() -> None:
    data = [{"text": str(i), "label": "a" if i % 4 else "b"} for i in range(40)]
    task = bm.load_task("t", kind="classification", train=data, validation=data)
    kind = KINDS["classification"]
    answers = kind.trivial(task.splits["train"], task.splits["validation"], task.spec)
    assert every_score(answers, task.splits["validation"], task.spec)["accuracy"] == 0.75


@settings(max_examples=60, deadline=None)
@given(
    words=st.lists(st.text(alphabet="abcé.,-'", min_size=1, max_size=6), min_size=1, max_size=40),
    max_length=st.integers(10, 40),
    stride=st.integers(0, 12),
)
def test_every_word_with_a_piece_is_read_exactly_once(
    words: list[str], max_length: int, stride: int
) -> None:
    spec = TaskSpec("t", "tokens", labels=tuple("OXYZ"), scheme="words")
    example = {"tokens": words, "tags": [i % 4 for i in range(len(words))]}
    data = tokens.encode([example], spec, TOKENIZER, max_length, stride)
    assert (np.diff(data.starts) <= max_length).all()
    found = data.places["word"][data.places["word"] >= 0]
    assert found.tolist() == list(range(len(words)))
    tags = data.labels["tags"][data.labels["tags"] != IGNORED]
    assert tags.tolist() == example["tags"]


def test_a_word_is_read_at_its_first_piece() -> None:
    spec = TaskSpec("t", "tokens", labels=("O", "X"), scheme="words")
    example = {"tokens": ["the", "zzzq", "cat"], "tags": [0, 1, 0]}
    data = tokens.encode([example], spec, TOKENIZER, 32, 8)
    pieces = TOKENIZER.convert_ids_to_tokens(data.ids.tolist())
    place = int(np.flatnonzero(data.places["word"] == 1)[0])
    assert pieces[place] == "z" and pieces[place + 1] == "##z"
    assert data.labels["tags"][place] == 1 and data.labels["tags"][place + 1] == IGNORED


@settings(max_examples=60, deadline=None)
@given(
    count=st.integers(1, 120),
    place=st.integers(0, 119),
    width=st.integers(1, 3),
    max_length=st.integers(24, 60),
    stride=st.integers(0, 20),
)
def test_an_answer_is_found_in_some_window_and_read_back(
    count: int, place: int, width: int, max_length: int, stride: int
) -> None:
    words = [f"w{i}" for i in range(count)]
    first = place % count
    answer = " ".join(words[first : first + width])
    context = " ".join(words)
    task = bm.load_task(
        "t",
        kind="span",
        train=[{"question": "where", "context": context, "answer": answer}],
        validation=[{"question": "where", "context": context, "answer": answer}],
    )
    data = encoded(task, max_length, stride)
    predictions = KINDS["span"].predict(
        right_outputs(task, data), data, task.splits["train"], task.spec
    )
    inside = data.labels["first"] > 0
    if stride >= 9 * width or data.items == 1:  # the overlap is wider than the answer
        assert inside.any()
    if inside.any():
        assert predictions[0]["answer"] == answer
        assert context[predictions[0]["start"] : predictions[0]["end"]] == answer


def test_unanswerable_questions_are_answered_with_nothing() -> None:
    data = [{"question": "q", "context": "the red cat", "answer": a} for a in ("red", "", "cat")]
    task = bm.load_task("t", kind="span", train=data, validation=data)
    assert task.spec.unanswerable
    made = encoded(task)
    predictions = KINDS["span"].predict(
        right_outputs(task, made), made, task.splits["train"], task.spec
    )
    assert [p["answer"] for p in predictions] == ["red", "", "cat"]
    assert predictions[1]["start"] is None


def test_losses_are_one_an_item_and_weigh_classes(tasks_of_every_kind: list[Any]) -> None:
    spec = TaskSpec("t", "classification", labels=("a", "b"), class_weights=(0.5, 2.0))
    logits = torch.tensor([[0.0, 0.0], [0.0, 0.0]])
    losses = KINDS["classification"].loss(logits, {"label": torch.tensor([0, 1])}, spec)
    assert losses.tolist() == pytest.approx([0.5 * np.log(2), 2 * np.log(2)])
    spec = TaskSpec("t", "tokens", labels=("a", "b"))
    tags = torch.tensor([[IGNORED, 0, 1], [IGNORED, IGNORED, IGNORED]])
    losses = KINDS["tokens"].loss(torch.zeros(2, 3, 2), {"tags": tags}, spec)
    assert losses.tolist() == pytest.approx([np.log(2), 0.0])


def test_truncated_texts_are_counted_and_pairs_keep_both_sides() -> None:
    long = " ".join(["cat"] * 50)
    rows = [{"a": long, "b": "dog", "label": "x"}, {"a": "cat", "b": "dog", "label": "y"}]
    task = bm.load_task(
        "t", kind="classification", train=rows, validation=rows, text="a", text_pair="b"
    )
    data = encoded(task, max_length=16)
    assert data.truncated == 1
    assert np.diff(data.starts).tolist() == [16, 5]
    assert data.types is not None and data.types[:16].sum() == 2  # "dog" and its separator


def test_regression_is_learnt_in_standard_units() -> None:
    rows = [{"text": str(i), "label": 1000.0 + i} for i in range(10)]
    task = bm.load_task("t", kind="regression", train=rows, validation=rows)
    assert task.spec.target_mean == 1004.5
    assert encoded(task).labels["label"].std() == pytest.approx(1.0, abs=1e-6)


def test_the_cache_gives_back_the_same_arrays_and_survives_damage(
    tasks_of_every_kind: list[Any], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRODMANN_CACHE", str(tmp_path))
    task = next(task for task in tasks_of_every_kind if task.spec.kind == "tokens")
    options: Any = {"max_length": 16, "stride": 4}
    fresh = encode_task(task.splits["train"], task.spec, TOKENIZER, **options)
    (file,) = (tmp_path / "tokens").iterdir()
    kept = encode_task(task.splits["train"], task.spec, TOKENIZER, **options)
    file.write_bytes(b"damaged")
    again = encode_task(task.splits["train"], task.spec, TOKENIZER, **options)
    for other in (kept, again):
        assert other.ids.tolist() == fresh.ids.tolist()
        assert other.places["word"].tolist() == fresh.places["word"].tolist()
        assert other.labels["tags"].tolist() == fresh.labels["tags"].tolist()
    encode_task(task.splits["train"], task.spec, TOKENIZER, max_length=17, stride=4)
    assert len(list((tmp_path / "tokens").iterdir())) == 2
