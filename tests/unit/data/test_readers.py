"""Readers: every format gives the same rows, and every broken file is named with its line."""

import gzip
import json
from pathlib import Path

import pytest

from brodmann.data.sources.hub import read_hub
from brodmann.data.sources.in_memory import from_memory
from brodmann.data.sources.readers import read_file, read_folder
from brodmann.errors import InputError

ROWS = [{"text": 'a, "quoted" text', "label": "x"}, {"text": "two\nlines", "label": "y"}]


def error(path: Path, **options: str) -> str:
    with pytest.raises(InputError) as caught:
        read_file(path, **options)
    return str(caught.value)


def test_csv_jsonl_parquet_and_gzip_give_the_same_rows(tmp_path: Path) -> None:
    import csv

    import pandas as pd

    with open(tmp_path / "a.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["text", "label"])
        writer.writeheader()
        writer.writerows(ROWS)
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    (tmp_path / "a.jsonl").write_text(lines, encoding="utf-8")
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    pd.DataFrame(ROWS).to_parquet(tmp_path / "a.parquet")
    for name in ("a.csv", "a.jsonl", "a.jsonl.gz", "a.parquet"):
        assert read_file(tmp_path / name).rows == ROWS, name
    assert from_memory(pd.DataFrame(ROWS), "frame").rows == ROWS
    assert from_memory({"text": [r["text"] for r in ROWS], "label": ["x", "y"]}, "d").rows == ROWS
    assert from_memory(ROWS, "list").rows == ROWS


def test_tsv_has_no_quoting(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text('text\tlabel\n"unclosed\tx\n\nplain\ty\n', encoding="utf-8")
    table = read_file(path)
    assert table.rows == [{"text": '"unclosed', "label": "x"}, {"text": "plain", "label": "y"}]
    assert table.where(1) == f"{path} line 4"


def test_a_row_knows_its_line_even_after_quoted_line_breaks(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('text,label\n"one\ntwo",x\nthree,y\n', encoding="utf-8")
    table = read_file(path)
    assert [table.where(i) for i in (0, 1)] == [f"{path} line 2", f"{path} line 4"]


def test_a_byte_order_mark_is_not_part_of_the_first_column(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("﻿text,label\nä,x\n".encode())
    assert read_file(path).rows == [{"text": "ä", "label": "x"}]


def test_a_line_separator_inside_a_json_string_does_not_end_the_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a\u2028b"}\n{"text": "c"}\n', encoding="utf-8")
    assert [row["text"] for row in read_file(path).rows] == ["a\u2028b", "c"]


def test_broken_files_are_named_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text,label\na,x\nb,y,z\n", encoding="utf-8")
    assert error(path) == f"{path} line 3: expected 2 fields as in the first line, found 3"
    path.write_text('text,label\na,x\n"b,y\n', encoding="utf-8")
    assert error(path) == f"{path} line 3: broken CSV (unexpected end of data)"
    path.write_text("text,text\na,x\n", encoding="utf-8")
    assert error(path) == f"{path} line 1: the column 'text' occurs twice in the first line"
    path.write_bytes(b"text,label\ngood,x\nbad \xe9,y\n")
    assert error(path) == (
        f"{path} line 3: not utf-8 text (byte 0xe9): save the file as UTF-8 or set 'encoding'"
    )
    assert read_file(path, "latin-1").rows[1]["text"] == "bad é"
    assert error(path, encoding="klingon") == f"{path}: unknown encoding 'klingon'"
    path.write_text("", encoding="utf-8")
    assert error(path) == f"{path}: the file is empty, expected at least one example"
    lines = tmp_path / "a.jsonl"
    lines.write_text('{"a": 1}\n\n{"a": \n', encoding="utf-8")
    assert error(lines) == (
        f"{lines} line 3: broken JSON (Expecting value at column 7): "
        "expected one JSON object per line"
    )
    lines.write_text('{"a": 1}\n[1]\n', encoding="utf-8")
    assert error(lines) == f"{lines} line 2: expected a JSON object, found list"
    packed = tmp_path / "a.jsonl.gz"
    packed.write_bytes(gzip.compress(b'{"a": 1}\n')[:-6])
    assert error(packed).startswith(f"{packed}: not a complete gzip file (")


def test_missing_and_unknown_files(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("a\n1\n", encoding="utf-8")
    assert error(tmp_path / "trian.csv") == (
        f"{tmp_path / 'trian.csv'}: no such file; did you mean 'train.csv'?"
    )
    assert error(tmp_path / "no" / "a.csv") == (
        f"{tmp_path / 'no' / 'a.csv'}: no such file (nor the folder {tmp_path / 'no'})"
    )
    known = (
        ".csv, .tsv, .jsonl, .json, .conll, .conllu, .bio, .iob, .txt, .parquet, .xlsx, or .gz of "
        "a text"
    )
    for name, advice in (("a.doc", ""), ("a.xls", " (save it as .xlsx)")):
        (tmp_path / name).write_bytes(b"")
        assert error(tmp_path / name) == (
            f"{tmp_path / name}: unknown file type, expected one of {known}{advice}"
        )


def test_folders_of_splits_and_saved_datasets(tmp_path: Path) -> None:
    import datasets

    (tmp_path / "train.csv").write_text("text,label\na,x\n", encoding="utf-8")
    (tmp_path / "validation.jsonl").write_text('{"text": "b", "label": "y"}\n', encoding="utf-8")
    assert {s: t.rows[0]["text"] for s, t in read_folder(tmp_path).items()} == {
        "train": "a",
        "validation": "b",
    }
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["no", "yes"])}
    )
    data = datasets.Dataset.from_dict({"text": ["a", "b"], "label": [0, 1]}, features=features)
    datasets.DatasetDict({"train": data}).save_to_disk(str(tmp_path / "saved"))
    table = read_folder(tmp_path / "saved")["train"]
    assert table.rows[1] == {"text": "b", "label": 1}
    assert table.label_names == {"label": ["no", "yes"]}


def test_a_folder_in_the_hub_layout_loads_as_a_hub_dataset(tmp_path: Path) -> None:
    import pandas as pd

    (tmp_path / "set" / "data").mkdir(parents=True)
    for split in ("train", "test"):
        frame = pd.DataFrame({"text": [f"{split} {i}" for i in range(3)], "label": [0, 1, 0]})
        frame.to_parquet(tmp_path / "set" / "data" / f"{split}-00000-of-00001.parquet")
    tables = read_hub(str(tmp_path / "set"), None)
    assert {split: len(table.rows) for split, table in tables.items()} == {"train": 3, "test": 3}
    assert tables["test"].rows[0] == {"text": "test 0", "label": 0}


def test_a_hub_id_out_of_reach_says_how_to_work_offline() -> None:
    with pytest.raises(InputError) as caught:
        read_hub("someone/something", None)
    text = str(caught.value)
    assert text.startswith("hub:someone/something could not be loaded: ")
