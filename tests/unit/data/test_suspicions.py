"""Data that are probably not what their owner meant: one sentence each, whole."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import brodmann as bm

Rows = list[dict[str, Any]]


def texts(count: int, *, start: int = 0) -> list[str]:
    return [f"text of the customer number {i}" for i in range(start, start + count)]


def classified(count: int, labels: Any = ("a", "b"), *, start: int = 0) -> Rows:
    rows = enumerate(texts(count, start=start))
    return [{"text": text, "label": labels[i % len(labels)]} for i, text in rows]


def notes(train: Rows, kind: str = "classification", **more: Any) -> list[str]:
    """Without the sentence about the hold-out, which is not about anything odd."""
    task = bm.load_task("mine", kind=kind, train=train, **more)
    return [note for note in task.notes if "held out" not in note]


def test_ordinary_data_raise_no_suspicion() -> None:
    assert notes(classified(40)) == []
    assert notes(classified(40), validation=classified(20, start=40)) == []
    assert notes(classified(40, [str(i) for i in range(5)])) == []  # stars
    assert notes(classified(120, [f"class {i}" for i in range(30)])) == []


def test_validation_that_was_trained_on(tmp_path: Path) -> None:
    rows = classified(40)
    path = tmp_path / "mine.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["text", "label"])
        writer.writeheader()
        writer.writerows(rows)
    task = bm.load_task(
        "mine", kind="classification", train=str(path), validation=str(path), test=rows[:8]
    )
    assert task.notes == [
        "mine: every one of its 40 validation examples is also a training example, so their scores "
        "say nothing about new texts: name another validation file or leave it out to hold out a "
        "tenth",
        "mine: every one of its 8 test examples is also a training example, so their scores say "
        "nothing about new texts: name another test file",
    ]
    some = [*rows[:5], *classified(20, start=40)]
    assert notes(rows, validation=some) == [
        "mine: 5 of its 25 validation examples (20 %) are also training examples: scores are "
        "better than on new texts"
    ]
    assert notes(rows, validation=some[3:]) == []  # two texts that stand in both are chance


def test_a_label_of_its_own_for_every_row_cannot_be_learnt() -> None:
    with pytest.raises(bm.InputError) as error:
        notes(classified(200, [f"ticket {i}" for i in range(200)]))
    assert str(error.value) == (
        "task 'mine': each of its 200 examples has a label of its own ('ticket 0', 'ticket 1', …), "
        "so nothing can be learnt: is 'label' the right column?"
    )
    with pytest.raises(bm.InputError) as error:
        notes(classified(50, [i / 4 for i in range(50)]))
    assert str(error.value) == (
        "task 'mine': each of its 50 examples has a label of its own ('0', '0.25', …), so nothing "
        "can be learnt: is 'label' the right column? (they are numbers: use kind = \"regression\")"
    )
    assert notes(classified(4, ["a", "b", "c", "d"]), validation=classified(2, start=4)) == []


def test_labels_with_one_example_each() -> None:
    labels = [f"ticket {i}" for i in range(30)]
    rows = [*classified(30, labels), {"text": "one more", "label": "ticket 0"}]
    assert notes(rows, validation=classified(5, labels, start=99)) == [
        "mine: 29 of its 30 labels have one training example only: is 'label' the right column?"
    ]


@pytest.mark.parametrize(
    ("labels", "many"), [(list(range(25)), "25"), ([0.5, 1.5, 2.25, 3.0, 4.0, 5.5], "6")]
)
def test_numbers_as_classes(labels: list[float], many: str) -> None:
    train, validation = classified(100, labels), classified(25, labels, start=100)
    assert notes(train, validation=validation) == [
        f'mine: its {many} labels are all numbers: kind = "regression" learns them as values, '
        '"classification" as classes without an order'
    ]


def test_labels_that_stand_only_in_validation() -> None:
    train, more = classified(20), classified(6, ["a", "c", "d"], start=20)
    assert notes(train, validation=more) == [
        "mine: 2 labels occur in validation but not in train: 'c', 'd'"
    ]
    assert notes(train, validation=classified(4, start=20), test=more[:2]) == [
        "mine: 1 label occurs in test but not in train: 'c'"
    ]
    tags = [{"tokens": ["Ann", "runs"], "tags": ["B-PER", "O"]}] * 3
    other = [{"tokens": ["Rome", "waits"], "tags": ["B-LOC", "O"]}]
    train = [{"tokens": [f"w{i}"], "tags": ["O"]} for i in range(4)]
    assert notes([*tags, *train], "tokens", validation=other) == [
        "mine: 1 label occurs in validation but not in train: 'B-LOC'"
    ]
    several = [{"text": text, "label": ["x", "y"]} for text in texts(4)]
    new = [{"text": "new", "label": ["x", "z"]}]
    assert notes(several, "multilabel", validation=new) == [
        "mine: 1 label occurs in validation but not in train: 'z'"
    ]


def test_validation_whose_labels_are_written_otherwise() -> None:
    with pytest.raises(bm.InputError) as error:
        notes(classified(20, ["negative", "positive"]), validation=classified(4, [0, 1], start=20))
    assert str(error.value) == (
        "task 'mine': no label of validation ('0', '1') occurs in train ('negative', "
        "'positive'): use the same labels in both files"
    )
    named = {"labels": ["negative", "positive"], "validation": classified(4, [0, 1], start=20)}
    assert notes(classified(20, ["negative", "positive"]), **named) == []


def test_labels_that_differ_in_case_or_spaces() -> None:
    assert notes(classified(40, ["nyt", "NYT", "post"])) == [
        "mine: the labels 'NYT' and 'nyt' differ only in case or spaces but count as different ones"
    ]
    assert notes(classified(60, ["new york", "New  York", "Rome", "rome", "x"])) == [
        "mine: the labels 'New  York' and 'new york' differ only in case or spaces but count as "
        "different ones (1 more such pair)"
    ]


def test_a_text_with_two_labels() -> None:
    rows = [*classified(40), {"text": texts(1)[0], "label": "b"}]
    assert notes(rows, validation=classified(6, start=50)) == [
        "mine: 1 training text has more than one label (for example 'text of the customer number "
        "0')"
    ]
    rows = [{"text": text, "label": label} for text in texts(20) for label in ("a", "b")]
    assert notes(rows, validation=classified(6, start=50)) == [
        "mine: 20 training texts have more than one label (for example 'text of the customer "
        'number 0\'): if a text may have several labels, use kind = "multilabel", one row per text'
    ]


@pytest.mark.parametrize("code", ["A-{:05d}", "{}", "550e8400-{:04d}-41d4"])
def test_identifiers_as_text(code: str) -> None:
    rows = [{"id": code.format(i + 1), "label": "ab"[i % 2]} for i in range(40)]
    task = bm.load_task("mine", kind="classification", train=rows, text="id", validation=rows[:2])
    first, second = code.format(1), code.format(2)
    assert task.notes[-1] == (
        f"mine: the column 'id' looks like identifiers ('{first}', '{second}', …): is it the right "
        "one for 'text'?"
    )


def test_the_same_text_everywhere_cannot_be_learnt() -> None:
    rows = [{"text": "the same", "label": "ab"[i % 2]} for i in range(40)]
    with pytest.raises(bm.InputError) as error:
        notes(rows)
    assert str(error.value) == (
        "task 'mine': all 40 examples have the same input ('the same'), so nothing can be learnt: "
        "check the column 'text'"
    )


def tagged(tags: list[str]) -> Rows:
    return [{"tokens": [f"word{i}", "more"], "tags": [tags[i % len(tags)], "O"]} for i in range(20)]


@pytest.mark.parametrize(
    ("tags", "sentence"),
    [
        (
            ["B_PER", "I_PER"],
            "tags such as 'B_PER', 'I_PER' follow no known scheme, so words are scored by "
            "accuracy: write B-X and I-X to score entities",
        ),
        (
            ["PER-B", "PER-I"],
            "tags such as 'PER-B', 'PER-I' follow no known scheme, so words are scored by "
            "accuracy: write B-X and I-X to score entities",
        ),
        (
            ["B-PER", "I-PER", "LOC"],
            "tags such as 'LOC' follow no known scheme, so words are scored by accuracy: write B-X "
            "and I-X to score entities",
        ),
        (
            ["B-PER", "E-PER", "S-PER"],
            "tags such as 'B-PER', 'E-PER', … are BIOES: set tag_scheme = \"bioes\" to score "
            "entities (now: accuracy of words)",
        ),
        (
            ["B-PER", "L-PER", "U-PER"],
            "tags with L-, U- follow no known scheme, so words are scored by accuracy: write B-X "
            "and I-X to score entities",
        ),
        (
            ["PER", "LOC"],
            "tags such as 'LOC', 'PER' have no B- or I- before them, so words are scored by "
            "accuracy: write B-X and I-X to score entities",
        ),
    ],
)
def test_tags_of_no_known_scheme(tags: list[str], sentence: str) -> None:
    task = bm.load_task("mine", kind="tokens", train=tagged(tags), validation=tagged(tags)[:1])
    assert task.notes[-1] == f"mine: {sentence}"
    assert task.spec.metric == "accuracy"


def test_parts_of_speech_are_no_entities() -> None:
    words = ["NOUN", "VERB", "ADV"]
    rows = [{"tokens": [f"w{i}", "x"], "tags": [words[i % 3], "ADJ"]} for i in range(20)]
    assert notes(rows, "tokens") == []


def test_notes_reach_the_terminal_and_the_page(
    tmp_path: Path, command: Callable[..., tuple[int, str, str]]
) -> None:
    rows = classified(40, ["nyt", "NYT"])
    with open(tmp_path / "mine.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["text", "label"])
        writer.writeheader()
        writer.writerows(rows)
    (tmp_path / "mine.toml").write_text(
        f'name = "one"\noutput = "{tmp_path}/runs"\n[[tasks]]\nname = "mine"\n'
        'kind = "classification"\ntrain = "mine.csv"\n[model]\nbackbone = "builtin:tiny"\n'
        "[training]\nmax_steps = 1\n[map]\nexamples = 4\n"
    )
    code, out, err = command("run", tmp_path / "mine.toml")
    assert (code, err) == (0, "")
    sentence = "the labels 'NYT' and 'nyt' differ only in case or spaces but count as different"
    assert f"note: mine: {sentence} ones\n" in out
    page = (tmp_path / "runs/one/report.html").read_text(encoding="utf-8")
    assert sentence.replace("'", "&#39;") in page
