"""Tasks given in memory: they become files of the run, and read back they are the same tasks."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.conftest import every_kind

import brodmann as bm
from brodmann.verbs.asking import settle

ROWS = [{"words": f"the red cat {i}", "y": "ab"[i % 2], "z": float(i)} for i in range(40)]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def settings(*tasks: Any) -> dict[str, Any]:
    return {
        "name": "live",
        "tasks": list(tasks),
        "model": {"backbone": "builtin:tiny", "max_length": 32},
        "training": {"epochs": 1, "max_steps": 2},
    }


def described(**rows: Any) -> dict[str, Any]:
    return {"name": "topic", "kind": "classification", "text": "words", "label": "y", **rows}


@pytest.mark.parametrize("task", bm.load_tasks(every_kind(12)), ids=lambda task: task.spec.kind)
def test_a_loaded_task_reads_back_as_it_was(task: bm.Task) -> None:
    config, base = settle(settings(task))
    assert isinstance(config.tasks[0].train, str)  # type: ignore[union-attr]
    (again,) = bm.load_tasks(config.given_tasks(), base=base)
    assert again.splits == task.splits
    kept = ("name", "kind", "labels", "metric", "metrics", "target_mean", "unanswerable", "scheme")
    assert [getattr(again.spec, key) for key in kept] == [getattr(task.spec, key) for key in kept]


def test_a_task_of_character_spans_reads_back_as_it_was() -> None:
    rows = [
        {"text": f"Ann{i} 's Rio!", "tags": [{"start": 8, "end": 11, "label": "LOC"}] * (i % 2)}
        for i in range(10)
    ]
    task = bm.load_task("ner", kind="tokens", tokens="text", train=rows[:8], validation=rows[8:])
    config, base = settle(settings(task))
    (again,) = bm.load_tasks(config.given_tasks(), base=base)
    assert again.splits == task.splits and again.spec.labels == task.spec.labels


def test_a_list_of_files_stays_a_list_of_files(tmp_path: Path) -> None:
    for part in (0, 1):
        lines = "".join(f"{json.dumps(row)}\n" for row in ROWS[part::2])
        (tmp_path / f"{part}.jsonl").write_text(lines, encoding="utf-8")
    config, base = settle(settings(described(train=["0.jsonl", "1.jsonl"])))
    (task,) = bm.load_tasks(config.given_tasks(), base=base)
    assert sum(task.sizes.values()) == 40 and task.spec.source == "0.jsonl, 1.jsonl"


@pytest.mark.parametrize("make", [list, pd.DataFrame])
def test_rows_in_memory_train_and_resume(make: Any) -> None:
    asked = settings(described(train=make(ROWS)))
    run = bm.train(asked)
    stored = run.folder / "data" / "topic-train.jsonl"
    assert [json.loads(line) for line in stored.read_text().splitlines()] == ROWS
    assert bm.train(asked).folder == run.folder
    assert bm.train(run.folder).load_model().spec("topic").labels == ("a", "b")


def test_tasks_over_one_table_share_its_held_out_rows() -> None:
    table = pd.DataFrame(ROWS)
    other = {"name": "size", "kind": "regression", "text": "words", "label": "z", "train": table}
    config, base = settle(settings(described(train=table), other))
    first, second = bm.load_tasks(config.given_tasks(), base=base)
    texts = [{e["text"] for e in task.splits["validation"]} for task in (first, second)]
    assert texts[0] == texts[1]
    assert len(list(Path("runs/live/data").iterdir())) == 1


def test_one_table_in_two_roles_keeps_both() -> None:
    config, _ = settle(
        settings(described(data=ROWS), {**described(train=ROWS[:30], validation=ROWS), "name": "b"})
    )
    first, second = (dict(task) for task in config.given_tasks())
    assert first["data"] == second["validation"] and second["train"] != first["data"]


def test_class_names_of_token_tags_are_kept() -> None:
    import datasets

    tags = datasets.Sequence(datasets.ClassLabel(names=["O", "B-PER"]))
    features = datasets.Features(
        {"tokens": datasets.Sequence(datasets.Value("string")), "tags": tags}
    )
    rows = {"tokens": [["Ann", "sat"]] * 30, "tags": [[1, 0]] * 30}
    table = datasets.Dataset.from_dict(rows, features=features)
    config, _ = settle(settings({"name": "names", "kind": "tokens", "train": table}))
    assert config.given_tasks()[0]["labels"] == ["O", "B-PER"]


def test_rows_may_be_corrected_before_the_run_begins() -> None:
    for rows in (ROWS[:20], ROWS):
        config, base = settle(settings(described(train=rows)))
    (task,) = bm.load_tasks(config.given_tasks(), base=base)
    assert sum(task.sizes.values()) == len(ROWS)


def test_a_lone_surrogate_is_reported_by_the_reader() -> None:
    with pytest.raises(bm.InputError, match="half a character"):
        bm.train(settings(described(train=[*ROWS, {"words": "\ud800", "y": "a"}])))


def test_other_rows_under_the_same_name_are_an_error() -> None:
    bm.train(settings(described(train=ROWS)))
    with pytest.raises(bm.InputError) as caught:
        settle(settings(described(train=ROWS[:20])))
    place = Path("runs/live/data/topic-train.jsonl").resolve()
    assert str(caught.value) == (
        f"{place}: the rows in memory differ from those this run began with: set another name, or "
        "pass the same rows"
    )


def test_nothing_is_written_into_a_folder_that_is_no_run() -> None:
    Path("runs/live").mkdir(parents=True)
    Path("runs/live/thesis.txt").write_text("mine")
    with pytest.raises(bm.InputError, match=r"already holds other files \(thesis.txt\)"):
        settle(settings(described(train=ROWS)))
    assert [path.name for path in Path("runs/live").iterdir()] == ["thesis.txt"]


def test_nothing_is_written_for_wrong_settings() -> None:
    with pytest.raises(bm.InputError, match=r"unknown key 'tasks.0.lable'|unknown key 'lable'"):
        settle(settings(described(train=ROWS, lable="y")))
    assert not Path("runs").exists()


def test_numpy_values_become_plain_ones() -> None:
    rows = [{"words": f"cat {i}", "y": np.int64(i % 2)} for i in range(40)]
    config, base = settle(settings(described(train=rows)))
    (task,) = bm.load_tasks(config.given_tasks(), base=base)
    assert task.spec.labels == ("0", "1")
