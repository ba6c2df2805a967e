"""Three wrong files for every reader: one line on the command line, exit code 2, no traceback."""

import io
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import brodmann as bm

Command = Callable[..., tuple[int, str, str]]
Files = Mapping[str, str | bytes]

ROWS = "".join(f"text {i},{'ab'[i % 2]}\n" for i in range(20))
SPANS = [{"start": 0, "end": 3, "label": "PER"}]


def parquet(columns: Mapping[str, list[Any]]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet

    target = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(dict(columns)), target)
    return target.getvalue()


def workbook(*rows: list[Any]) -> bytes:
    import openpyxl

    book, target = openpyxl.Workbook(), io.BytesIO()
    for row in rows:
        book.active.append(row)
    book.save(target)
    return target.getvalue()


def exported(*results: Any, text: Any = "Ann left.") -> str:
    """An export of Label Studio."""
    return json.dumps([{"data": {"text": text}, "annotations": [{"result": list(results)}]}])


def spanned(text: Any, spans: Any) -> str:
    return json.dumps({"text": text, "tags": spans}) + "\n"


TOKENS = 'kind = "tokens"\n'
OWN_COLUMNS = 'kind = "tokens"\ntokens = "text"\ntags = "ner"\n'
SPAN_COLUMNS = 'kind = "tokens"\ntokens = "text"\n'

KIND = 'kind = "classification"\n'

# reader: (what `data` names, the files, the settings of the task, the message)
CASES: dict[str, list[tuple[str, Files, str, str]]] = {
    "csv": [
        ("a.csv", {"a.csv": "text;label\na;x\nb\n"}, "",
         "a.csv line 3: expected 2 fields as in the first line, found 1"),
        ("a.csv", {"a.csv": 'text,label\n"a,x\n'}, "",
         "a.csv line 2: broken CSV (unexpected end of data)"),
        ("a.csv", {"a.csv": "text|topic\na|x\n"}, "",
         "a.csv: task 't' needs the column 'label' (label), found text, topic"),
    ],
    "tsv": [
        ("a.tsv", {"a.tsv": "text,label\na,x\n"}, "",
         "a.tsv line 1: one column 'text,label': a .csv file has commas between its columns, a "
         ".tsv file tabs"),
        ("a.tsv", {"a.tsv": "text\tlabel\na\tx\ty\n"}, "",
         "a.tsv line 2: expected 2 fields as in the first line, found 3"),
        ("a.tsv", {"a.tsv": "text\ttext\na\tx\n"}, "",
         "a.tsv line 1: the column 'text' occurs twice in the first line"),
    ],
    "json list": [
        ("a.json", {"a.json": '[{"text": "a" "label": "x"}]'}, "",
         "a.json: broken JSON (Expecting ',' delimiter: line 1 column 15 (char 14))"),
        ("a.json", {"a.json": "[]"}, "", "a.json: is empty, expected at least one example"),
        ("a.json", {"a.json": '[["a", "x"]]'}, "",
         "a.json row 1: expected a dict of columns, found list"),
    ],
    "jsonl": [
        ("a.jsonl", {"a.jsonl": '[{"text": "a", "label": "x"}]'}, "",
         "a.jsonl line 1: a JSON list, expected one JSON object per line: rename the file to "
         "a.json, or write one object per line without [ ]"),
        ("a.jsonl", {"a.jsonl": '{"text": "a", "label": "x"}\n{"text": \n'}, "",
         "a.jsonl line 2: broken JSON (Expecting value at column 10): expected one JSON object per "
         "line"),
        ("a.jsonl", {"a.jsonl": '"a"\n'}, "", "a.jsonl line 1: expected a JSON object, found str"),
    ],
    "excel": [
        ("a.xlsx", {"a.xlsx": b"text,label"}, "",
         "a.xlsx: not a readable Excel file (File is not a zip file)"),
        ("a.xlsx", {"a.xlsx": workbook(["text", None, "label"], ["a", "b", "c"])}, "",
         "a.xlsx row 1: column 2 has no name: the first row must name the columns"),
        ("a.xlsx", {"a.xlsx": workbook(["text", "label"], ["a", "#REF!"])}, "",
         "a.xlsx row 2: the cell of 'label' holds the error #REF!"),
    ],
    "conll": [
        ("a.conll", {"a.conll": "Ann B-PER\nsaw\n"}, TOKENS,
         "a.conll line 2: expected 2 columns as in the first lines, found 1: write a token and its "
         "tags on each line, and a blank line after each sentence"),
        ("a.bio", {"a.bio": "Ann\nsaw\n"}, TOKENS,
         "a.bio line 1: one column, expected a token and its tags, separated by spaces or tabs"),
        ("a.conllu", {"a.conllu": "1\tAnn\tPROPN\n"}, TOKENS,
         "a.conllu line 1: expected 10 columns as in the first lines, found 3: write a token and "
         "its tags on each line, and a blank line after each sentence"),
    ],
    "label studio": [
        ("a.json", {"a.json": '[{"data": {"text": "a"}, "annotations": []}]'}, OWN_COLUMNS,
         "a.json: no task has an annotation: export it after labelling"),
        ("a.json", {"a.json": exported({"from_name": "ner"})}, OWN_COLUMNS,
         "a.json row 1: a result without a value: {'from_name': 'ner'}"),
        ("a.json", {"a.json": exported({"from_name": "ner", "value": {
            "start": 4, "end": 40, "labels": ["PER"]}})}, OWN_COLUMNS,
         "a.json row 1: task 't': tags: the span 4 to 40 is outside its text of 9 characters"),
    ],
    "character spans": [
        ("a.jsonl", {"a.jsonl": spanned("Anna left.", SPANS)}, SPAN_COLUMNS,
         "a.jsonl line 1: task 't': tags: the span 0 to 3 (PER, 'Ann') ends inside the word "
         "'Anna': correct the span, or "
         'set misaligned = "widen" to tag whole words'),
        ("a.jsonl", {"a.jsonl": spanned("Ann left.", SPANS * 2)}, SPAN_COLUMNS,
         "a.jsonl line 1: task 't': tags: the span 0 to 3 (PER, 'Ann') overlaps another: a word "
         "has one tag, so keep one of the two"),
        ("a.jsonl", {"a.jsonl": spanned(["Ann"], SPANS)}, SPAN_COLUMNS,
         "a.jsonl line 1: task 't': tokens: character spans need the text as it was annotated, "
         "found ['Ann']"),
    ],
    "brat": [
        ("d", {"d/a.ann": "T1\tPER 0 3\tAnn\n"}, TOKENS,
         "d/a.ann: no text beside it, expected a.txt"),
        ("d", {"d/a.ann": "T1\tPER 0 3\tAnn\n", "d/a.txt": "Bob left."}, TOKENS,
         "d/a.ann line 1: characters 0 to 3 are 'Bob', expected 'Ann': is the text the one that "
         "was annotated?"),
        ("d", {"d/a.ann": "T1\tPER 0 1;2 3\tB b\n", "d/a.txt": "Bob left."}, TOKENS,
         "d/a.ann line 1: an entity in several pieces ('PER 0 1;2 3'), which tags per word cannot "
         "express: mark one piece, or leave the line out"),
    ],
    "docbin": [
        (name, {name: b"bytes"}, TOKENS,
         f"{name}: unknown file type, expected one of .csv, .tsv, .jsonl, .json, .conll, .conllu, "
         f".bio, .iob, .txt, .parquet, .xlsx, or .gz of a text ({advice})")
        for name, advice in (
            ("a.spacy", "spaCy's DocBin needs spaCy: docs/tasks.md has three lines that convert "
             "it"),
            ("a.arrow", "read it with datasets' Dataset.from_file and pass the Dataset"),
            ("a.pkl", "pickled objects run code when they are read: load it yourself and pass the "
             "object"),
        )
    ],
    "parquet": [
        ("a.parquet", {"a.parquet": b"text,label"}, "",
         "a.parquet: not a readable Parquet file (Could not open Parquet input source "
         "'a.parquet': Parquet magic bytes not found in footer)"),
        ("a.parquet", {"a.parquet": parquet({"text": [], "label": []})}, "",
         "a.parquet: the file is empty, expected at least one example"),
        ("a.parquet", {"a.parquet": parquet({"text": [1, 2], "label": ["a", "b"]})}, "",
         "a.parquet row 1: task 't': text: expected a text, found 1"),
    ],
    "patterns": [
        ("parts/*.csv", {}, "", "parts/*.csv: no file matches"),
        ("parts/*.csv", {"parts/a.csv": "text,label\n" + ROWS, "parts/b.csv": "text,label\na\n"},
         "", "parts/b.csv line 2: expected 2 fields as in the first line, found 1"),
        ("parts/*", {"parts/a.csv": "text,label\n" + ROWS, "parts/b.doc": "a"}, "",
         "parts/b.doc: unknown file type, expected one of .csv, .tsv, .jsonl, .json, .conll, "
         ".conllu, .bio, .iob, .txt, .parquet, .xlsx, or .gz of a text"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("data", "files", "settings", "message"),
    [
        pytest.param(*case, id=f"{reader} {place}")
        for reader, cases in CASES.items()
        for place, case in enumerate(cases, start=1)
    ],
)
def test_a_wrong_file_gets_one_line(
    data: str, files: Files, settings: str, message: str, tmp_path: Path, command: Command
) -> None:
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    config = tmp_path / "c.toml"
    config.write_text(
        f'name = "r"\noutput = "{tmp_path}/runs"\n[model]\nbackbone = "builtin:tiny"\n[[tasks]]\n'
        f'name = "t"\ndata = "{data}"\n{settings or KIND}',
        encoding="utf-8",
    )
    code, out, err = command("run", config)
    assert (code, err.replace(f"{tmp_path}/", "")) == (2, f"brodmann: {message}\n")
    assert "Traceback" not in out and not (tmp_path / "runs").exists()


def test_every_reader_has_three_wrong_files() -> None:
    from brodmann.data.sources.readers import NOT_READ, READERS

    assert {len(cases) for cases in CASES.values()} == {3}
    named = {
        Path(name).suffix for cases in CASES.values() for _, files, *_ in cases for name in files
    }
    alike = {".iob": ".bio", ".txt": ".conll", ".xls": ".spacy", ".ods": ".spacy"}
    assert {alike.get(ending, ending) for ending in (*READERS, *NOT_READ)} <= named


@pytest.mark.slow
def test_the_lines_of_the_docs_convert_a_docbin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spacy = pytest.importorskip("spacy")
    from spacy.tokens import DocBin, Span

    monkeypatch.chdir(tmp_path)
    vocabulary = spacy.blank("en")
    docs = [vocabulary(f"Ann Lee saw Berlin {i}.") for i in range(20)]
    for doc in docs:
        doc.ents = [Span(doc, 0, 2, label="PER"), Span(doc, 3, 4, label="LOC")]
    docs.append(vocabulary("Nobody came."))  # nobody annotated it
    DocBin(docs=docs).to_disk("train.spacy")
    page = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text(encoding="utf-8")
    found = re.search(r"    ```\n((?:    .*\n)+?)    ```", page[page.index("**spaCy**") :])
    assert found is not None
    names: dict[str, Any] = {"bm": bm, "spacy": spacy, "DocBin": DocBin}
    exec(re.sub("^    ", "", found[1], flags=re.MULTILINE), names)
    task = names["task"]
    assert task.spec.labels == ("O", "B-LOC", "B-PER", "I-PER")
    marked = [task.spec.labels[tag] for tag in task.splits["train"][0]["tags"]]
    assert marked[:5] == ["B-PER", "I-PER", "O", "B-LOC", "O"]
    assert sum(task.sizes.values()) == 20
