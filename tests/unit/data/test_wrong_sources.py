"""Wrong data of every form: one line that names the file and the line, and says what to do."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import brodmann as bm

GOOD = {"text": "the cat", "label": "x"}


@pytest.fixture
def complaint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """What `load_task` complains about; a `name` and `content` are written to a file first."""
    monkeypatch.chdir(tmp_path)

    def call(given: Any, content: Any = None, kind: str = "classification", **more: Any) -> str:
        if isinstance(content, bytes):
            Path(given).write_bytes(content)
        elif content is not None:
            text = content if isinstance(content, str) else json.dumps(content)
            Path(given).write_text(text, encoding="utf-8")
        with pytest.raises(bm.InputError) as caught:
            bm.load_task("t", kind=kind, data=given, **more)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    return call


def test_datasets(complaint: Callable[..., str]) -> None:
    import datasets

    whole = datasets.Dataset.from_list([GOOD, GOOD])
    assert complaint(whole.select([])) == "t: is empty, expected at least one example"
    assert complaint(whole, label="lable") == (
        "t: task 't' needs the column 'lable' (label), found label, text; did you mean 'label'?"
    )
    parts = datasets.DatasetDict(a=whole, b=whole)
    assert complaint(parts) == "task 't': no split called 'train', found a, b"
    with pytest.raises(bm.InputError) as caught:
        bm.load_task("t", kind="classification", train=parts, validation=whole)
    assert str(caught.value) == (
        "t.train: contains several splits (a, b): set the whole as 'data', or one of its splits "
        "as 'train'"
    )


def test_frames(complaint: Callable[..., str]) -> None:
    import pandas as pd
    import polars as pl

    for frame in (pd.DataFrame(columns=["text", "label"]), pl.DataFrame({"text": [], "label": []})):
        assert complaint(frame) == "t: is empty, expected at least one example"
    twice = pd.DataFrame([["a", "b"]], columns=["text", "text"])
    assert complaint(twice) == "t: two columns are called 'text': rename one of them"
    assert complaint(pl.DataFrame([GOOD, GOOD]), label="topic") == (
        "t: task 't' needs the column 'topic' (label), found label, text"
    )
    numbers = pl.DataFrame({"text": [1, 2], "label": ["a", "b"]})
    assert complaint(numbers) == "t row 1: task 't': text: expected a text, found 1"


def test_lists_dicts_and_generators(complaint: Callable[..., str]) -> None:
    spent = (row for row in [GOOD])
    next(spent)
    assert complaint(spent) == (
        "t: is empty, expected at least one example (a generator gives its rows only once: make a "
        "new one, or a list)"
    )
    assert complaint(lambda: [GOOD]) == (
        "t: expected a path, a Dataset, a DataFrame, a list of dicts, a dict of lists or a "
        "generator of dicts, found function: call it, to give what it returns"
    )
    assert complaint(pair for pair in [("a", "x")]) == (
        "t row 1: expected a dict of columns, found tuple"
    )
    assert complaint({"text": ["a", "b"], "label": ["x"]}) == (
        "t: columns of different length: {'text': 2, 'label': 1}"
    )


def test_lists_and_patterns_of_files(complaint: Callable[..., str]) -> None:
    here = Path.cwd()
    assert complaint("parts/*.csv") == "parts/*.csv: no file matches"
    Path("part1.csv").write_text("text,label\na,x\n", encoding="utf-8")
    assert complaint(["part1.csv", "part2.csv"]) == (
        "part2.csv: no such file; did you mean 'part1.csv'?"
    )
    assert complaint(["part1.csv", {"text": "a"}]) == (
        "t row 1: expected a dict of columns, found str: give paths alone, or rows alone"
    )
    assert complaint("**/*.doc", base=here) == f"{here}/**/*.doc: no file matches"


def test_dialects(complaint: Callable[..., str]) -> None:
    assert complaint("a.csv", "text;label\na;x\nb\n") == (
        "a.csv line 3: expected 2 fields as in the first line, found 1"
    )
    assert complaint("a.csv", 'text\tlabel\n"a\tx\n') == (
        "a.csv line 2: broken CSV (unexpected end of data)"
    )
    assert complaint("a.csv", "\ufefftext;label\na;x\n".encode("utf-16") + b"\n") == (
        "a.csv line 3: not utf-16 text (byte 0x0a): save the file as UTF-8 or set 'encoding'"
    )
    assert complaint("a.tsv", "text,label\na,x\n") == (
        "a.tsv line 1: one column 'text,label': a .csv file has commas between its columns, a "
        ".tsv file tabs"
    )


def test_excel(complaint: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    import openpyxl

    def saved(*rows: list[Any]) -> str:
        book = openpyxl.Workbook()
        for row in rows:
            book.active.append(row)
        book.save("a.xlsx")
        return "a.xlsx"

    assert complaint("a.xlsx", b"text,label") == (
        "a.xlsx: not a readable Excel file (File is not a zip file)"
    )
    assert complaint(saved(["text", "label"])) == (
        "a.xlsx: the sheet 'Sheet' has a header but no rows, expected at least one example"
    )
    assert complaint(saved(["text", None, "label"], ["a", "b", "c"])) == (
        "a.xlsx row 1: column 2 has no name: the first row must name the columns"
    )
    assert complaint(saved(["text", "label"], ["a", "x"], [], ["b", "#N/A"])) == (
        "a.xlsx row 4: the cell of 'label' holds the error #N/A"
    )
    assert complaint(saved(["text", "label"], ["a", "x", "y"])) == (
        "a.xlsx row 2: expected 2 cells as in the first row, found 'y' after them"
    )
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    assert complaint("a.xlsx") == (
        "a.xlsx: reading Excel files needs one more package: pip install 'brodmann[excel]'"
    )


def test_conll(complaint: Callable[..., str]) -> None:
    assert complaint("a.conll", "Ann B-PER\nsaw\n", "tokens") == (
        "a.conll line 2: expected 2 columns as in the first lines, found 1: write a token and its "
        "tags on each line, and a blank line after each sentence"
    )
    assert complaint("a.txt", "a sentence per line\nanother one\n", "tokens") == (
        "a.txt line 2: expected 4 columns as in the first lines, found 2: write a token and its "
        "tags on each line, and a blank line after each sentence"
    )
    assert complaint("a.bio", "Ann\nsaw\n", "tokens") == (
        "a.bio line 1: one column, expected a token and its tags, separated by spaces or tabs"
    )
    assert complaint("a.conll", "-DOCSTART- O\n\n", "tokens") == (
        "a.conll: the file is empty, expected at least one sentence"
    )
    assert complaint("a.conll", "Ann NNP B-PER\n", "tokens", tags="4") == (
        "a.conll: task 't' needs the column '4' (tags), found 1, 2, 3, tags, tokens"
    )


def test_label_studio(complaint: Callable[..., str]) -> None:
    def export(result: Any, text: str = "Ann left.") -> list[dict[str, Any]]:
        return [{"data": {"text": text}, "annotations": [{"result": result}]}]

    columns = {"tokens": "text", "tags": "ner"}
    unlabelled = [{"data": {"text": "a"}, "annotations": [{"was_cancelled": True}]}]
    assert complaint("a.json", unlabelled, "tokens", **columns) == (
        "a.json: no task has an annotation: export it after labelling"
    )
    assert complaint("a.json", export([{"from_name": "ner"}]), "tokens", **columns) == (
        "a.json row 1: a result without a value: {'from_name': 'ner'}"
    )
    beyond = {"from_name": "ner", "value": {"start": 4, "end": 40, "labels": ["PER"]}}
    assert complaint("a.json", export([beyond]), "tokens", **columns) == (
        "a.json row 1: task 't': tags: the span 4 to 40 is outside its text of 9 characters"
    )
    html = {"from_name": "ner", "value": {"start": "/p[1]", "end": "/p[1]", "labels": ["PER"]}}
    assert complaint("a.json", export([html]), "tokens", **columns) == (
        "a.json row 1: task 't': tags: start: expected a whole number, found '/p[1]'"
    )
    assert complaint("a.json", [*export([beyond]), "x"], "tokens", **columns) == (
        "a.json row 2: expected a task, found str"
    )


def test_character_spans(complaint: Callable[..., str]) -> None:
    def lines(*spans: dict[str, Any], text: Any = "Ann loves Berliners.") -> str:
        return json.dumps({"text": text, "tags": list(spans)}) + "\n"

    def problem(*spans: dict[str, Any], **more: Any) -> str:
        message = complaint("a.jsonl", lines(*spans, **more), "tokens", tokens="text")
        return message.removeprefix("a.jsonl line 1: task 't': ")

    ann, berlin = ({"start": s, "end": e, "label": "X"} for s, e in ((0, 3), (10, 16)))
    assert problem(ann, berlin) == (
        "tags: the span 10 to 16 (X, 'Berlin') ends inside the word 'Berliners': correct the "
        'span, or set misaligned = "widen" to tag whole words'
    )
    assert problem({**berlin, "start": 12, "end": 19}) == (
        "tags: the span 12 to 19 (X, 'rliners') begins inside the word 'Berliners': correct the "
        'span, or set misaligned = "widen" to tag whole words'
    )
    assert problem(ann, {**ann, "end": 9}) == (
        "tags: the span 0 to 9 (X, 'Ann loves') overlaps another: a word has one tag, so keep one "
        "of the two"
    )
    assert problem({**ann, "start": 3, "end": 4}) == "tags: the span 4 to 4 (X, '') has no word"
    assert problem({"start": 0, "end": 3, "labels": ["X", "Y"]}) == (
        "tags: label: expected one name, found ['X', 'Y']"
    )
    assert problem(ann, text=["Ann", "left"]) == (
        "tokens: character spans need the text as it was annotated, found ['Ann', 'left']"
    )
    assert complaint("t.csv", "text,label\na,x\n", misaligned="widen") == (
        "task 't': misaligned: is allowed only for the kind 'tokens'"
    )


def test_brat(complaint: Callable[..., str]) -> None:
    Path("d").mkdir()
    Path("d/a.ann").write_text("T1\tPER 0 3\tAnn\n", encoding="utf-8")
    assert complaint("d", kind="tokens") == "d/a.ann: no text beside it, expected a.txt"
    Path("d/a.txt").write_text("Bob left.", encoding="utf-8")
    assert complaint("d", kind="tokens") == (
        "d/a.ann line 1: characters 0 to 3 are 'Bob', expected 'Ann': is the text the one that "
        "was annotated?"
    )
    Path("d/a.ann").write_text("#1\tNote T1\tx\nT1\tPER 0 1;2 3\tB b\n", encoding="utf-8")
    assert complaint("d", kind="tokens") == (
        "d/a.ann line 2: an entity in several pieces ('PER 0 1;2 3'), which tags per word cannot "
        "express: mark one piece, or leave the line out"
    )
    Path("d/a.ann").write_text("T1 PER 0 3 Bob\n", encoding="utf-8")
    assert complaint("d", kind="tokens") == (
        "d/a.ann line 1: expected an entity such as 'T1<tab>Person 0 5<tab>Maria', found "
        "'T1 PER 0 3 Bob'"
    )


def test_quotes_of_spreadsheets_are_told_from_quotes_of_authors(tmp_path: Path) -> None:
    def texts(name: str, content: str) -> list[str]:
        path = tmp_path / name
        path.write_text(content, encoding="utf-8")
        task = bm.load_task("t", kind="classification", train=path, validation=path)
        return [example["text"] for example in task.splits["train"]]

    said = 'text\tlabel\n"Hello."\tx\nHe said "no"\ty\n'
    assert texts("a.tsv", said) == ['"Hello."', 'He said "no"']
    assert texts("a.tsv", 'text\tlabel\n"He said ""no"""\tx\nb\ty\n') == ['He said "no"', "b"]
    assert texts("a.tsv", 'text\tlabel\n"two\nlines"\tx\nb\ty\n') == ["two\nlines", "b"]
    assert texts("a.tsv", '"text"\t"label"\n"a"\t"x"\n"b"\t"y"\n') == ["a", "b"]
    assert texts("a.csv", "'text','label'\n'a, b','x'\n'c','y'\n") == ["a, b", "c"]
    assert texts("a.csv", 'text,label\n"He said \\"no\\", and left",x\nb,y\n') == [
        'He said "no", and left',
        "b",
    ]
    assert texts("a.csv", "id;text, whole;text;label\n1;a, b;c;x\n2;d;e;y\n") == ["c", "e"]
