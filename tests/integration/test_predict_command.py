"""`brodmann predict`: one answer per input, in files and pipes, and what could not be answered."""

import csv
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from brodmann.pipeline.predict import CHUNK, rounded

Command = Callable[..., tuple[int, str, str]]
PAIR = "it needs the columns 'a' and 'b'"


@pytest.fixture(scope="module")
def model(tiny_model: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("predicting") / "model"
    tiny_model.save_pretrained(folder)
    return folder


def asked(
    command: Command, monkeypatch: pytest.MonkeyPatch, text: str, *words: object
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    return command("predict", *words)


def test_blank_lines_keep_their_place(
    model: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["\n", "a red cat\n", "   \n", "\n", "a big dog\n"]
    text = "".join(lines)
    code, out, err = asked(command, monkeypatch, text, model, "--task", "single")
    answers = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and len(answers) == len(lines)
    for place in (0, 2, 3):
        entry = lines[place].rstrip("\n")
        assert answers[place] == {"input": entry, "note": "empty input: no answer"}
    assert answers[1]["input"] == "a red cat" and answers[1]["label"] in "01"
    assert err == "brodmann: note: 3 inputs are empty: no answer\n"


def test_who_types_in_a_terminal_is_told_how(
    model: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal("a red cat\n"))
    code, out, err = command("predict", model, "--task", "single")
    assert code == 0 and json.loads(out)["input"] == "a red cat"
    assert err == "brodmann: type one text per line; end with Ctrl-D (Windows: Ctrl-Z)\n"


def test_rows_without_text_keep_their_place(model: Path, command: Command, tmp_path: Path) -> None:
    table = tmp_path / "in.csv"
    table.write_text("id,a\n1,a red cat\n2,\n3,a big dog\n", encoding="utf-8")
    code, out, err = command("predict", model, table, "--task", "single")
    answers = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and [answer["input"]["id"] for answer in answers] == ["1", "2", "3"]
    assert answers[1] == {"input": {"id": "2", "a": ""}, "note": "empty input: no answer"}
    assert err == "brodmann: note: 1 input is empty: no answer\n"


def test_tasks_that_do_not_fit_are_named(
    model: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = asked(command, monkeypatch, "a red cat\na dog\n", model)
    answers = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    left = ["pair", "value", "pick", "where"]
    assert [answer["not_answered"] for answer in answers] == [left, left]
    assert set(answers[0]) == {"input", "single", "many", "tag", "not_answered"}
    assert err.splitlines() == [
        f"brodmann: note: task 'pair' did not answer 2 of 2 inputs: {PAIR}",
        f"brodmann: note: task 'value' did not answer 2 of 2 inputs: {PAIR}",
        "brodmann: note: task 'pick' did not answer 2 of 2 inputs: it needs the "
        "columns 'a' and 'choices'",
        "brodmann: note: task 'where' did not answer 2 of 2 inputs: it needs the "
        "columns 'b' and 'a'",
    ]


def test_probabilities_have_four_digits_unless_all_are_asked_for(
    model: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for words in ((), ("--full",)):
        _, out, _ = asked(command, monkeypatch, "a red cat\n", model, "--task", "single", *words)
        found.append(json.loads(out))
    short, full = found
    assert short["probabilities"] == {k: round(p, 4) for k, p in full["probabilities"].items()}
    assert len(str(full["score"])) > 8 >= len(str(short["score"]))


def test_values_keep_six_digits_that_count() -> None:
    assert rounded({"value": 123456.789}) == {"value": 123457.0}
    assert rounded({"value": 0.000012345678}) == {"value": 0.0000123457}
    assert rounded({"score": 0.123456, "start": 3, "tags": ["O"], "probabilities": [0.99999]}) == {
        "score": 0.1235,
        "start": 3,
        "tags": ["O"],
        "probabilities": [1.0],
    }


def test_answers_as_a_table(model: Path, command: Command, tmp_path: Path) -> None:
    table = tmp_path / "in.csv"
    rows = [["7", "a red cat", "a dog, there"], ["8", "", ""], ["9", "the big cat sat", "it ran"]]
    with open(table, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["id", "a", "b"], *rows])
    out = tmp_path / "out.csv"
    code, told, err = command("predict", model, table, "--out", out)
    assert code == 0 and told == f"wrote {out}: 3 answers\n"
    assert "note: 1 input is empty" in err
    with open(out, newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    assert list(found[0]) == [
        "id", "a", "b", "single.answer", "single.score", "pair.answer", "pair.score", "many.answer",
        "value.answer", "pick.answer", "pick.score", "where.answer", "where.score", "tag.answer",
        "tag.score", "note",
    ]  # fmt: skip
    assert [[row["id"], row["a"], row["b"]] for row in found] == rows
    assert found[1]["note"] == "empty input: no answer" and found[1]["single.answer"] == ""
    lines = [json.loads(line) for line in command("predict", model, table)[1].splitlines()]
    for row, answer in zip(found, lines, strict=True):
        if row["note"]:
            continue
        assert row["single.answer"] == answer["single"]["label"]
        assert float(row["single.score"]) == answer["single"]["score"]
        assert float(row["value.answer"]) == answer["value"]["value"]
        assert row["many.answer"] == "|".join(answer["many"]["labels"])
        assert row["tag.answer"] == row["pick.answer"] == ""  # their columns are not there
    code, told, _ = command("predict", model, table, "--task", "single", "--format", "csv")
    assert told.splitlines()[0] == "id,a,b,single.answer,single.score,note"
    plain = tmp_path / "in.txt"
    plain.write_text("the red cat sat\n", encoding="utf-8")
    _, told, _ = command("predict", model, plain, "--task", "tag", "--format", "csv")
    (row,) = csv.DictReader(io.StringIO(told))
    entities = json.loads(command("predict", model, plain, "--task", "tag")[1])["entities"]
    assert entities and row == {
        "input": "the red cat sat",
        "tag.answer": "; ".join(f"{e['text']} ({e['label']})" for e in entities),
        "tag.score": "; ".join(str(e["score"]) for e in entities),
        "note": "",
    }


def test_answers_as_parquet_are_those_of_csv(model: Path, command: Command, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    lines = [{"id": i, "a": f"the red cat {i}", "b": None} for i in range(CHUNK + 5)]
    lines[1]["a"] = ""
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    for out in ("out.parquet", "out.csv"):
        words = ("--task", "single", "--batch-size", 7, "--out", tmp_path / out)
        code, _, _ = command("predict", model, source, *words)
        assert code == 0
    found = pq.read_table(tmp_path / "out.parquet").to_pylist()
    with open(tmp_path / "out.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in found] == [line["id"] for line in lines]
    assert found[1]["note"] == "empty input: no answer" and found[1]["single.score"] is None
    for one, other in zip(found, rows, strict=True):
        assert {k: "" if v is None else str(v) for k, v in one.items()} == other


def test_inputs_that_change_their_type_leave_no_parquet_file(
    model: Path, command: Command, tmp_path: Path
) -> None:
    lines = [{"a": "the red cat", "id": i} for i in range(CHUNK)] + [{"a": "x", "id": "seven"}]
    source, out = tmp_path / "in.jsonl", tmp_path / "out.parquet"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    code, _, err = command("predict", model, source, "--task", "single", "--out", out)
    assert code == 2 and err.startswith("brodmann: the inputs' columns change their type (")
    assert err.endswith("): use --format csv or jsonl\n") and err.count("\n") == 1
    assert not out.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--format", "cvs"), "--format cvs; did you mean 'csv'?"),
        (("--out", "{folder}/out.txt"), "{folder}/out.txt: expected the suffix .jsonl, .csv or "
         ".parquet, or --format jsonl, csv or parquet"),
        (("--format", "parquet"), "--format parquet needs a file: add --out answers.parquet"),
        (("--to", "{folder}/out.csv"), "--to is called --out now (see `brodmann predict --help`)"),
        (("--out", "{folder}/in.csv"), "{folder}/in.csv: already exists: remove it, or name "
         "another file"),
        (("--out", "{folder}/no/out.csv"), "{folder}/no/out.csv: no such folder: {folder}/no"),
    ],
)  # fmt: skip
def test_where_answers_cannot_go(
    model: Path, command: Command, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    table = tmp_path / "in.csv"
    table.write_text("a\nx\n", encoding="utf-8")
    code, out, err = command("predict", model, table, *(w.format(folder=tmp_path) for w in words))
    assert (code, out, err) == (2, "", f"brodmann: {message.format(folder=tmp_path)}\n")
    assert table.read_text(encoding="utf-8") == "a\nx\n"


def test_a_bad_row_is_counted_among_all_and_leaves_no_file(
    model: Path, command: Command, tmp_path: Path
) -> None:
    rows = [{"a": f"text {i}"} for i in range(CHUNK + 3)]
    rows[1] = {"a": ""}
    lines = [json.dumps(row) for row in rows] + ['{"other": 1}']
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("\n".join(lines) + "\n", encoding="utf-8")
    code, _, err = command("predict", model, source, "--task", "single", "--out", out)
    assert code == 2 and not out.exists() and not list(tmp_path.glob(".*"))
    assert err == (
        f"brodmann: input {CHUNK + 4}: task 'single' takes a text or {{\"a\": ...}}, found "
        "{'other': 1}\n"
    )
    source.write_text("\n".join([*lines[:-1], '{"a": "x", "new": 1}']) + "\n", encoding="utf-8")
    out = tmp_path / "out.csv"
    code, _, err = command("predict", model, source, "--task", "single", "--out", out)
    assert code == 2 and not out.exists()
    assert err == (
        f"brodmann: input {CHUNK + 4}: the column 'new' is in none of the first {CHUNK} inputs, so "
        "the csv file has no column for it: use --format jsonl\n"
    )


def test_inputs_that_already_hold_answers_are_not_overwritten(
    model: Path, command: Command, tmp_path: Path
) -> None:
    source = tmp_path / "in.csv"
    source.write_text("a,single.score\nthe red cat,1\n", encoding="utf-8")
    code, _, err = command("predict", model, source, "--out", tmp_path / "out.csv")
    assert code == 2 and not (tmp_path / "out.csv").exists()
    assert err == (
        "brodmann: the inputs have a column 'single.score', which holds answers: rename it, or "
        "leave it out\n"
    )


def test_mixed_types_in_the_first_rows_leave_no_parquet_file(
    model: Path, command: Command, tmp_path: Path
) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / "out.parquet"
    source.write_text('{"a": "x", "id": 1}\n{"a": "y", "id": "two"}\n', encoding="utf-8")
    code, _, err = command("predict", model, source, "--task", "single", "--out", out)
    assert code == 2 and "the inputs' columns change their type (" in err and not out.exists()


def test_a_text_in_place_of_a_file_is_shown_the_way(model: Path, command: Command) -> None:
    code, _, err = command("predict", model, "a text")
    assert code == 2 and err == (
        f'brodmann: a text: no such file; to answer a text, use: echo "a text" | brodmann predict '
        f"{model}\n"
    )
