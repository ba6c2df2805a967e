"""Data as people have it: every form as a user's script would give it, without internals."""

import json
from pathlib import Path
from typing import Any

import pytest

import brodmann as bm

ROWS = [
    {"text": f"the {color} cat number {i}", "label": ["bill", "parcel"][i % 2]}
    for i, color in enumerate(["red", "big", "old", "new", "sad"] * 8)
]
PLACES = ["Berlin", "New York", "Rio", "San Juan"]
SENTENCES = [f"Ann {i} went to {PLACES[i % 4]} today." for i in range(20)]


def span_of(sentence: str) -> dict[str, Any]:
    place = next(place for place in PLACES if place in sentence)
    start = sentence.index(place)
    return {"start": start, "end": start + len(place), "label": "LOC"}


SPANS = [{"text": text, "entities": [span_of(text)]} for text in SENTENCES]


def topic(**places: Any) -> Any:
    return bm.load_task("topic", kind="classification", **places)


def entities(**places: Any) -> Any:
    return bm.load_task("ner", kind="tokens", **places)


def written(path: Path, content: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return path


def as_lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture(scope="module")
def plain() -> Any:
    return topic(data=ROWS)


def assert_spans_are_read(task: Any) -> None:
    example = next(e for e in task.splits["train"] if "New York" in e["text"])
    assert sum(task.sizes.values()) == 20
    assert task.spec.metric == "entity_f1"
    names = [task.spec.labels[tag] for tag in example["tags"]]
    assert example["tokens"][4:] == ["New", "York", "today", "."]
    assert names == ["O", "O", "O", "O", "B-LOC", "I-LOC", "O", "O"]


def test_live_objects_give_the_same_task(plain: Any) -> None:
    import datasets
    import pandas as pd
    import polars as pl

    columns = {key: [row[key] for row in ROWS] for key in ("text", "label")}
    objects = [
        datasets.Dataset.from_list(ROWS),
        datasets.Dataset.from_list(ROWS).to_iterable_dataset(),
        pd.DataFrame(ROWS),
        pl.DataFrame(ROWS),
        pl.LazyFrame(ROWS),
        columns,
        (row for row in ROWS),
        tuple(ROWS),
    ]
    for given in objects:
        task = topic(data=given)
        assert task.fingerprint() == plain.fingerprint(), type(given)
        assert task.notes == plain.notes


def test_a_dataset_dict_divides_itself_and_names_its_classes() -> None:
    import datasets

    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["bill", "parcel"])}
    )
    numbered = [{**row, "label": i % 2} for i, row in enumerate(ROWS)]
    whole = datasets.Dataset.from_list(numbered, features=features)
    parts = datasets.DatasetDict(
        train=whole.select(range(24)), validation=whole.select(range(24, 32)),
        test=whole.select(range(32, 40)),
    )  # fmt: skip
    for task in (topic(train=parts), topic(data=parts), topic(data=dict(parts))):
        assert task.sizes == {"train": 24, "validation": 8, "test": 8}
        assert task.spec.labels == ("bill", "parcel")
    lists = {split: part.to_list() for split, part in parts.items()}
    assert topic(data=lists).sizes == task.sizes
    first, second = bm.load_tasks(
        [
            {"name": name, "kind": "classification", "train": parts["train"], "label": "label"}
            for name in ("first", "second")
        ]
    )
    assert [e["text"] for e in first.splits["validation"]] == [
        e["text"] for e in second.splits["validation"]
    ]


def test_a_dataset_of_tokens_names_its_tags() -> None:
    import datasets

    tags = datasets.List(datasets.ClassLabel(names=["O", "B-LOC"]))
    features = datasets.Features({"tokens": datasets.List(datasets.Value("string")), "tags": tags})
    rows = [{"tokens": ["in", f"Rio{i}"], "tags": [0, 1]} for i in range(20)]
    task = entities(data=datasets.Dataset.from_list(rows, features=features))
    assert task.spec.labels == ("O", "B-LOC") and task.spec.metric == "entity_f1"


@pytest.mark.parametrize(
    ("name", "separator", "encoding", "note"),
    [
        ("a.csv", ";", "utf-8", "columns separated by semicolons"),
        ("a.csv", "\t", "utf-8-sig", "columns separated by tabs"),
        ("a.csv", "|", "utf-8", "columns separated by bars"),
        ("a.csv", ",", "utf-16", "read as UTF-16"),
        ("a.tsv", "\t", "utf-16-le", "read as UTF-16-LE"),
        ("a.csv", ",", "utf-8-sig", ""),
    ],
)
def test_dialects_of_csv(
    tmp_path: Path, plain: Any, name: str, separator: str, encoding: str, note: str
) -> None:
    import csv

    path = tmp_path / name
    with open(path, "w", encoding=encoding, newline="") as file:
        writer = csv.DictWriter(file, ["text", "label"], delimiter=separator)
        writer.writeheader()
        writer.writerows(ROWS)
    task = topic(data=str(path))
    assert task.splits == plain.splits
    assert [n for n in task.notes if "a." in n] == ([f"topic: {path}: {note}"] if note else [])


def test_several_files_or_a_pattern_per_split(tmp_path: Path) -> None:
    for part in range(3):
        rows = as_lines(ROWS[part * 10 : part * 10 + 10])
        written(tmp_path / "parts" / f"train-{part}.jsonl", rows)
    written(tmp_path / "parts" / "rest.jsonl", as_lines(ROWS[30:]))
    names = [f"parts/train-{part}.jsonl" for part in range(3)]
    by_pattern = topic(train="parts/train-*.jsonl", validation="parts/rest.jsonl", base=tmp_path)
    by_list = topic(train=names, validation=["parts/rest.jsonl"], base=tmp_path)
    whole = topic(train=ROWS[:30], validation=ROWS[30:])
    assert by_pattern.splits == by_list.splits == whole.splits
    written(tmp_path / "parts" / "train-1.jsonl", as_lines([{"text": "x", "label": None}]))
    with pytest.raises(bm.InputError) as caught:
        topic(train="parts/train-*.jsonl", base=tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}/parts/train-1.jsonl line 1: task 'topic': the label is empty "
        "(skip_unlabelled = true leaves such rows out)"
    )


def test_a_json_list_and_an_excel_sheet(tmp_path: Path, plain: Any) -> None:
    import openpyxl

    written(tmp_path / "a.json", json.dumps(ROWS))
    assert topic(data=tmp_path / "a.json").splits == plain.splits
    book = openpyxl.Workbook()
    book.active.append(["text", "label", "stars"])
    for i, row in enumerate(ROWS):
        book.active.append([row["text"] if i else 404, row["label"], i % 4 + 1.0])
    book.create_sheet("more")
    book.save(tmp_path / "a.xlsx")
    task = topic(data=tmp_path / "a.xlsx")
    assert "404" in {example["text"] for split in task.splits.values() for example in split}
    assert task.notes[0] == (
        f"topic: {tmp_path}/a.xlsx: only the first of its 2 sheets is read, 'Sheet'"
    )
    assert topic(data=tmp_path / "a.xlsx", label="stars").spec.labels == ("1", "2", "3", "4")


def test_conll_columns(tmp_path: Path) -> None:
    lines = "-DOCSTART- -X- -X- O\n\n" + "".join(
        f"Ann NNP B-NP B-PER\nsaw VBD B-VP O\nRio{i} NNP B-NP B-LOC\n\n" for i in range(20)
    )
    path = written(tmp_path / "train.txt", lines)
    task = entities(data=path)
    assert task.spec.labels == ("O", "B-LOC", "B-PER")
    assert task.splits["train"][0]["tokens"][:2] == ["Ann", "saw"]
    words = entities(data=path, tags="2")
    assert set(words.spec.labels) == {"NNP", "VBD"} and words.spec.metric == "accuracy"
    universal = "".join(
        f"# text = Ann  saw {i} cats\n"
        "1-2\tAnnsaw\t_\t_\t_\t_\t_\t_\t_\t_\n"
        "1\tAnn\tAnn\tPROPN\t_\t_\t2\tsubj\t_\t_\n"
        f"2\tsaw{i}\tsee\tVERB\t_\t_\t0\troot\t_\t_\n\n"
        for i in range(12)
    )
    path = written(tmp_path / "ud.conllu", universal)
    task = entities(train=path, validation=path)
    assert task.splits["train"][0]["tokens"] == ["Ann", "saw0"]
    assert set(task.spec.labels) == {"PROPN", "VERB"}


def test_character_spans(tmp_path: Path) -> None:
    import pandas as pd

    path = written(tmp_path / "spans.jsonl", as_lines(SPANS))
    pd.DataFrame(SPANS).to_parquet(tmp_path / "spans.parquet")
    columns = {"tokens": "text", "tags": "entities"}
    nothing = [{"text": "Nobody went anywhere.", "entities": []}]
    for given in (path, tmp_path / "spans.parquet", SPANS):
        assert_spans_are_read(entities(data=given, **columns))
    task = entities(train=SPANS, validation=SPANS[:5] + nothing, labels=["LOC", "PER"], **columns)
    assert task.spec.labels == ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
    assert task.splits["validation"][5]["tags"] == [0, 0, 0, 0]
    cut = [*SPANS, {"text": "Ann loves Berliners.", "entities": [
        {"start": 10, "end": 16, "label": "LOC"}
    ]}]  # fmt: skip
    written(path, as_lines(cut))
    task = entities(data=path, misaligned="widen", **columns)
    assert task.notes[0] == f"ner: 1 spans widened to whole words: {path} line 21"


def label_studio(*, flat: bool) -> str:
    tasks: list[dict[str, Any]] = []
    for i, row in enumerate(SPANS):
        marked = [{**span, "labels": [span["label"]]} for span in row["entities"]]
        choice = ["yes", "no"][i % 2]
        if flat:
            extra = {"annotation_id": i, "lead_time": 1.5, "id": i}
            tasks.append({"text": row["text"], "ner": marked, "mood": choice, **extra})
            continue
        results = [
            {"from_name": "ner", "to_name": "text", "type": "labels", "value": value}
            for value in marked
        ]
        chosen = {"from_name": "mood", "type": "choices", "value": {"choices": [choice]}}
        tasks.append(
            {
                "id": i,
                "data": {"text": row["text"]},
                "annotations": [{"result": [*results, chosen]}],
            }
        )
    if not flat:
        tasks.append({"id": 99, "data": {"text": "skipped"}, "annotations": []})
    return json.dumps(tasks)


@pytest.mark.parametrize("flat", [True, False])
def test_exports_of_label_studio(tmp_path: Path, flat: bool) -> None:
    path = written(tmp_path / "export.json", label_studio(flat=flat))
    ner, mood = bm.load_tasks(
        [
            {"name": "ner", "kind": "tokens", "tokens": "text", "tags": "ner", "data": str(path)},
            {"name": "mood", "kind": "classification", "label": "mood", "data": str(path)},
        ]
    )
    assert_spans_are_read(ner)
    assert mood.spec.labels == ("no", "yes") and sum(mood.sizes.values()) == 20
    left_out = [f"mood: {path}: 1 tasks without an annotation left out"]
    assert mood.notes[:1] == left_out or flat


def test_a_folder_of_brat(tmp_path: Path) -> None:
    for i, row in enumerate(SPANS):
        written(tmp_path / f"{i:02}.txt", row["text"])
        span = row["entities"][0]
        words = row["text"][span["start"] : span["end"]]
        entity = f"T1\tLOC {span['start']} {span['end']}\t{words}\nR1\tlikes Arg1:T1 Arg2:T1\n"
        written(tmp_path / f"{i:02}.ann", entity)
    assert_spans_are_read(entities(data=tmp_path))


def test_rows_that_are_labelled_for_another_task_only_are_left_out(tmp_path: Path) -> None:
    rows = [
        {
            "text": f"the cat number {i} is {['here', 'there'][i % 2]}",
            "mood": ["glad", "sad"][i % 2] if i % 3 else "",
            "stars": "" if i % 3 == 1 else str(i % 5 + 0.5),
        }
        for i in range(60)
    ]
    path = written(tmp_path / "both.jsonl", as_lines(rows))
    mood, stars = bm.load_tasks(
        [
            {"name": "mood", "kind": "classification", "label": "mood", "data": str(path)},
            {"name": "stars", "kind": "regression", "label": "stars", "data": str(path)},
        ]
    )
    for task in (mood, stars):
        assert sum(task.sizes.values()) == 40
        assert f"{task.name}: 20 rows without a label left out of {path}" in task.notes
    alone = bm.load_task("mood", kind="classification", label="mood", data=path)
    assert alone.fingerprint() == mood.fingerprint()
    rows[5] |= {"mood": None, "stars": None}  # for no task at all
    with pytest.raises(bm.InputError) as caught:
        bm.load_task("mood", kind="classification", label="mood", data=rows)
    assert str(caught.value) == (
        "mood row 6: task 'mood': the label is empty (skip_unlabelled = true leaves such rows out)"
    )
    with pytest.raises(bm.InputError) as caught:
        empty = [{**row, "mood": ""} for row in rows]
        bm.load_task("mood", kind="classification", label="mood", data=empty)
    assert str(caught.value) == (
        "mood row 1: task 'mood': the label is empty (skip_unlabelled = true leaves such rows out)"
    )
