"""From descriptions to tasks: labels, divisions, limits, weights, and what is wrong."""

import typing
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import brodmann as bm
from brodmann.data.description import TaskDescription
from brodmann.data.task_options import TaskOptions


def rows(count: int = 40, classes: int = 2) -> list[dict[str, Any]]:
    return [{"text": f"text {i}", "label": f"c{i % classes}"} for i in range(count)]


def problem(**description: Any) -> str:
    with pytest.raises(bm.InputError) as caught:
        bm.load_task("t", **{"kind": "classification", "train": rows(), **description})
    return str(caught.value)


def test_labels_are_found_in_a_stable_order_and_given_ones_kept() -> None:
    numbers = [{"text": str(i), "label": label} for i, label in enumerate([10, 9, "10", 9.0, 2])]
    assert bm.load_task("t", kind="classification", train=numbers * 4).spec.labels == (
        "2",
        "9",
        "10",
    )
    given = bm.load_task("t", kind="classification", train=rows(), labels=["c1", "c0"])
    assert given.spec.labels == ("c1", "c0")
    assert {e["text"]: e["label"] for e in given.splits["train"]}.get("text 1", 0) == 0


def test_a_whole_number_counts_the_given_names() -> None:
    data = [{"text": str(i), "label": i % 2} for i in range(20)]
    task = bm.load_task("t", kind="classification", train=data, labels=["no", "yes"])
    assert all(e["label"] == int(e["text"]) % 2 for e in task.splits["train"])
    assert problem(train=data, labels=["0", "2"]) == (
        "t.train row 2: task 't': label '1' is not one of the task's 2 labels; known: 0, 2"
    )


def test_no_validation_split_is_divided_by_the_stated_rule() -> None:
    task = bm.load_task("t", kind="classification", train=rows(200, 4), validation_share=0.2)
    again = bm.load_task("t", kind="classification", train=rows(200, 4), validation_share=0.2)
    assert task.splits == again.splits
    assert Counter(e["label"] for e in task.splits["validation"]) == dict.fromkeys(range(4), 10)
    assert task.notes == [
        "t: no validation split: 40 of 200 training examples held out (stratified, seed 0)"
    ]
    other = bm.load_task(
        "t", kind="classification", train=rows(200, 4), validation_share=0.2, seed=1
    )
    assert other.splits["validation"] != task.splits["validation"]


def test_one_split_of_another_name_is_divided_and_said(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "validation.csv").write_text(
        "text,label\n" + "".join(f"t{i},{i % 2}\n" for i in range(30)), encoding="utf-8"
    )
    task = bm.load_task("t", kind="classification", data="set", base=tmp_path)
    assert task.sizes == {"train": 27, "validation": 3}
    assert (
        task.notes[0] == "t: no training split: validation is divided into training and validation"
    )


def test_limits_draw_the_same_examples_every_time() -> None:
    options: Any = {"kind": "classification", "train": rows(), "validation": rows(), "limit": 10}
    task = bm.load_task("t", **options)
    assert task.sizes == {"train": 10, "validation": 40}
    assert task.splits == bm.load_task("t", **options).splits
    small = bm.load_task("t", **{**options, "limit": {"validation": 7}})
    assert small.sizes == {"train": 40, "validation": 7}


def test_class_weights_have_mean_one_over_the_training_examples() -> None:
    data = [{"text": str(i), "label": "rare" if i % 4 == 0 else "often"} for i in range(40)]
    task = bm.load_task(
        "t", kind="classification", train=data, validation=data, class_weights="balanced"
    )
    assert task.spec.labels == ("often", "rare")
    assert task.spec.class_weights == pytest.approx((2 / 3, 2.0))
    given = bm.load_task(
        "t", kind="classification", train=data, validation=data, class_weights={"rare": 3.0}
    )
    assert given.spec.class_weights == pytest.approx((2 / 3, 2.0))


def test_several_columns_make_one_text_or_the_choices() -> None:
    data = [
        {"premise": "It rained.", "ask": "effect", "c1": "wet", "c2": f"dry {i}", "label": i % 2}
        for i in range(10)
    ]
    task = bm.load_task(
        "copa",
        kind="choice",
        train=data,
        validation=data,
        text=["premise", "ask"],
        choices=["c1", "c2"],
    )
    assert task.splits["train"][0] == {
        "text": "It rained. effect",
        "choices": ["wet", "dry 0"],
        "label": 0,
    }


def test_named_tasks_and_task_files(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text(
        "text,label\n" + "".join(f"t{i},{i % 2}\n" for i in range(30)), encoding="utf-8"
    )
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\nkind = "classification"\ndata = "mine.csv"\n', encoding="utf-8"
    )
    small = {"use": "builtin/topic:es", "limit": {"train": 8, "validation": 8, "test": 8}}
    tasks = bm.load_tasks([small, "mine.toml"], base=tmp_path)
    assert [task.name for task in tasks] == ["topic:es", "mine"]
    assert tasks[0].spec.generated and tasks[0].spec.language == "es"


def test_wrong_descriptions_get_one_clear_line() -> None:
    assert problem(kind="clasification") == (
        "task 't': unknown kind 'clasification'; did you mean 'classification'?"
    )
    assert problem(lable="y") == "task 't': unknown key 'lable'; did you mean 'label'?"
    assert problem(metric="f2") == (
        "task 't': unknown metric 'f2'; known: accuracy, f1, macro_f1, matthews"
    )
    assert problem(question="q").startswith(
        "task 't': the kind 'classification' has no column 'question'; known: text, label"
    )
    assert problem(label="topic") == (
        "t.train: task 't' needs the column 'topic' (label), found label, text"
    )
    assert problem(weight=0.0) == "task 't': weight = 0.0: input should be greater than 0"
    assert problem(labels=["c0", "x"]) == (
        "t.train row 2: task 't': label 'c1' is not one of the task's 2 labels; known: c0, x"
    )
    assert problem(train=rows(20, 1)) == (
        "task 't': every training example has the label 'c0', expected at least two classes"
    )
    assert problem(train=None) == "task 't': no source: set 'data', 'train' or 'hub'"
    assert problem(data="x.csv") == "task 't': data and train cannot be combined"
    assert problem(train=[]) == "t.train: is empty, expected at least one example"
    assert problem(train=[*rows(), {"text": "a", "label": None}]) == (
        "t.train row 41: task 't': the label is empty (skip_unlabelled = true leaves such rows out)"
    )
    assert problem(train=[*rows(), {"text": 3, "label": "c0"}]) == (
        "t.train row 41: task 't': text: expected a text, found 3"
    )
    assert problem(train=rows(1)) == (
        "task 't': 1 example is too few to hold out a validation set: "
        "provide more, or set a 'validation' file"
    )
    assert problem(train=rows(2)) == (
        "task 't': 2 examples are too few to hold out a validation set: "
        "provide more, or set a 'validation' file"
    )
    assert problem(class_weights={"c9": 2.0}) == (
        "task 't': class_weights: unknown label 'c9'; known: c0, c1"
    )
    with pytest.raises(bm.InputError, match=r"^tasks\[1\]: a second task is called 'topic': give"):
        bm.load_tasks(["builtin/topic", "builtin/topic"])
    with pytest.raises(bm.InputError, match=r"^tasks\[0\]: unknown task 'builtin/tpoic'; did you"):
        bm.load_tasks(["builtin/tpoic"])


def test_wrong_values_of_the_other_kinds() -> None:
    def of(kind: str, row: dict[str, Any], **more: Any) -> str:
        return problem(kind=kind, train=[row], **more).removeprefix("t.train row 1: task 't': ")

    assert (
        of("regression", {"text": "a", "label": "much"}) == "label: expected a number, found 'much'"
    )
    assert of("regression", {"text": "a", "label": "inf"}) == (
        "label: expected a finite number, found 'inf'"
    )
    assert of("choice", {"text": "a", "choices": ["x", "y"], "label": 2}) == (
        "label: expected the number of a choice (0 to 1) or its text, found 2"
    )
    where = {"question": "q", "context": "the red cat"}
    assert of("span", {**where, "answer": "dog"}) == "answer: 'dog' is not in its context"
    assert of("span", {**where, "answer": "red", "start": 3}, answer_start="start") == (
        "answer: 'red' is not in its context at character 3 (there: ' re')"
    )
    assert of("tokens", {"tokens": ["a", "b"], "tags": ["O"]}) == (
        "2 tokens but 1 tags, expected one tag per token"
    )
    assert of("multilabel", {"text": "a", "label": "['b' c]"}) == "label: not a list: \"['b' c]\""


def test_splits_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    for split, label in (("train", None), ("validation_other", None), ("test", -1)):
        lines = [
            f'{{"text": "{split} {i}", "label": {i % 2 if label is None else label}}}'
            for i in range(20)
        ]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    task = bm.load_task("t", kind="classification", data=str(tmp_path))
    assert set(task.splits) == {"train", "validation"}
    assert task.notes[0] == "t: splits not used: test (labels not public), validation_other"


def test_lists_may_be_written_as_text_and_missing_labels_are_missing() -> None:
    rows = [
        {"tokens": "['Ann', 'left']", "tags": '["B-PER", "O"]'},
        {"tokens": "Bob left", "tags": "B-PER O"},
    ] * 4
    task = bm.load_task("t", kind="tokens", train=rows, validation=rows)
    assert task.splits["train"][0]["tokens"] == ["Ann", "left"]
    assert task.spec.labels == ("O", "B-PER") and task.spec.metric == "entity_f1"
    for bad in (None, "", ["O"]):
        with pytest.raises(bm.InputError, match=r"tags: expected names or numbers, found"):
            bm.load_task("t", kind="tokens", train=[{"tokens": ["a", "b"], "tags": ["O", bad]}])
    data = [{"text": str(i), "label": "ab"[i % 2]} for i in range(20)]
    for missing in (float("nan"), "  ", None):
        message = problem(train=[*data, {"text": "x", "label": missing}])
        assert message.startswith("t.train row 21: task 't': the label is empty")
        kept = bm.load_task(
            "t", kind="classification", train=[*data, {"text": "x", "label": missing}],
            validation=data, skip_unlabelled=True,
        )  # fmt: skip
        assert kept.spec.labels == ("a", "b") and kept.sizes["train"] == 20


def test_numpy_and_pandas_values_are_plain_values() -> None:
    import numpy as np
    import pandas as pd

    frame = pd.DataFrame({"text": list("abcd"), "label": np.array([0, 1, 0, 1], np.float32)})
    frame["flag"] = np.array([True, False, True, False])
    for label, names in (("label", ("0", "1")), ("flag", ("false", "true"))):
        task = bm.load_task("t", kind="classification", train=frame, validation=frame, label=label)
        assert task.spec.labels == names
    words = pd.DataFrame(
        {"tokens": [np.array(["a", "b"])] * 3, "tags": [np.array(["O", "B-X"])] * 3}
    )
    assert bm.load_task("t", kind="tokens", train=words, validation=words).spec.labels == (
        "O",
        "B-X",
    )


def test_a_folder_of_several_splits_is_not_a_training_file(tmp_path: Path) -> None:
    for split in ("train", "test"):
        (tmp_path / f"{split}.csv").write_text("text,label\na,x\nb,y\n", encoding="utf-8")
    assert problem(train=str(tmp_path)) == (
        f"{tmp_path}: contains several splits (test, train): set the folder as 'data', "
        "or one of its files as 'train'"
    )


def test_relative_paths_start_at_the_base_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    lines = "text,label\n" + "".join(f"t{i},{i % 2}\n" for i in range(30))
    (tmp_path / "mine" / "a.csv").write_text(lines, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert bm.load_task("t", kind="classification", data="a.csv", base="mine").sizes["train"] == 27


def test_half_a_character_is_no_text() -> None:
    assert problem(train=[{"text": "\ud800 hi", "label": "a"}]) == (
        "t.train row 1: task 't': text: contains half a character (a lone surrogate): '\\ud800 hi'"
    )


def test_type_checkers_know_every_key_of_a_description() -> None:
    """With the same words to choose from, and None where the default is None."""
    typed = typing.get_type_hints(TaskOptions)
    assert list(typed) == [key for key in TaskDescription.model_fields if key != "name"]
    for name, annotation in typed.items():
        field = TaskDescription.model_fields[name]
        if annotation is not object:
            assert (type(None) in typing.get_args(annotation)) == (field.default is None), name
            assert words_of(annotation) == words_of(field.annotation), name


def words_of(annotation: Any) -> set[str]:
    if typing.get_origin(annotation) is typing.Literal:
        return set(typing.get_args(annotation))
    return {word for part in typing.get_args(annotation) for word in words_of(part)}
