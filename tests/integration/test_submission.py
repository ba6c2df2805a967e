"""GLUE's and SuperGLUE's zips: names, headers and label words as the servers take them."""

import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.hub_rows import hub_rows, write_dataset, write_split

import brodmann as bm
from brodmann.data.catalogue import entries
from brodmann.pipeline.submission import AX, AX_B, AX_G

Command = Callable[..., tuple[int, str, str]]
WORDS = {
    "CoLA.tsv": "0|1",
    "SST-2.tsv": "0|1",
    "MRPC.tsv": "0|1",
    "STS-B.tsv": r"[0-5]\.\d{3}",
    "QQP.tsv": "0|1",
    "MNLI-m.tsv": "entailment|neutral|contradiction",
    "MNLI-mm.tsv": "entailment|neutral|contradiction",
    "QNLI.tsv": "entailment|not_entailment",
    "RTE.tsv": "entailment|not_entailment",
    "WNLI.tsv": "0|1",
    "AX.tsv": "entailment|neutral|contradiction",
    "BoolQ.jsonl": {"true", "false"},
    "CB.jsonl": {"entailment", "contradiction", "neutral"},
    "COPA.jsonl": {0, 1},
    "ReCoRD.jsonl": {"Ann Lee", "Bo Diaz", "Cats"},
    "RTE.jsonl": {"entailment", "not_entailment"},
    "WiC.jsonl": {"true", "false"},
    "WSC.jsonl": {"True", "False"},
    "AX-b.jsonl": {"entailment", "not_entailment"},
    "AX-g.jsonl": {"entailment", "not_entailment"},
}


@pytest.fixture
def benchmark(tmp_path: Path) -> Callable[[str], Path]:
    """A folder of small datasets, and an untrained model of all tasks of a benchmark."""

    def make(name: str) -> Path:
        chosen = [entry for entry in entries().values() if entry.benchmark == name]
        for entry in chosen:
            folder = write_dataset(tmp_path, entry)
            if entry.name == "glue/mrpc":  # its test labels are public: the same form, labelled
                write_split(folder, "test", hub_rows(entry, 6))
        for entry in (AX, AX_B, AX_G):
            write_split(tmp_path / entry.folder, "test", hub_rows(entry, 6))
        tasks = bm.load_tasks([entry.name for entry in chosen], base=tmp_path)
        bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks).save_pretrained(tmp_path / "model")
        return tmp_path

    return make


def test_glue(benchmark: Callable[[str], Path], command: Command) -> None:
    folder = benchmark("glue")
    words = ("submission", folder / "model", "glue", "--data-dir", folder)
    code, _, err = command(*words, "--out", folder / "glue.zip")
    assert code == 0, err
    with zipfile.ZipFile(folder / "glue.zip") as archive:
        assert sorted(archive.namelist()) == sorted(n for n in WORDS if n.endswith(".tsv"))
        for name in archive.namelist():
            header, *lines = archive.read(name).decode().splitlines()
            assert header == "index\tprediction"
            assert [line.split("\t")[0] for line in lines] == [str(i) for i in range(6)]
            expected = WORDS[name]
            assert isinstance(expected, str)
            assert all(re.fullmatch(expected, line.split("\t")[1]) for line in lines), name
    before = (folder / "glue.zip").read_bytes()
    assert command(*words, "--out", folder / "glue.zip")[0] == 0
    assert (folder / "glue.zip").read_bytes() == before


def test_superglue(benchmark: Callable[[str], Path], command: Command) -> None:
    folder = benchmark("superglue")
    words = ("submission", folder / "model", "superglue", "--data-dir", folder, "--json")
    code, out, err = command(*words, "--out", folder / "s.zip")
    assert code == 0, err
    assert json.loads(out)["MultiRC.jsonl"] == 6
    with zipfile.ZipFile(folder / "s.zip") as archive:
        names = {n for n in WORDS if n.endswith(".jsonl")} | {"MultiRC.jsonl"}
        assert set(archive.namelist()) == names
        for name in names - {"MultiRC.jsonl"}:
            rows = [json.loads(line) for line in archive.read(name).decode().splitlines()]
            assert [row["idx"] for row in rows] == list(range(6))
            labels = [row["label"] for row in rows]
            assert all(label in WORDS[name] for label in labels), (name, labels)
            assert {type(label) for label in labels} == {int if name == "COPA.jsonl" else str}
        lines = archive.read("MultiRC.jsonl").decode().splitlines()
        assert len(lines) == 1  # one paragraph
        passage = json.loads(lines[0])
        questions = passage["passage"]["questions"]
        assert passage["idx"] == 0 and [q["idx"] for q in questions] == [0, 1]
        assert [a["idx"] for a in questions[1]["answers"]] == [0, 1, 2]
        assert {a["label"] for q in questions for a in q["answers"]} <= {0, 1}


def test_predictions_are_those_of_the_model(benchmark: Callable[[str], Path]) -> None:
    from brodmann.pipeline.submission import submission

    folder = benchmark("superglue")
    target = folder / "x.zip"
    submission(folder / "model", "superglue", target, folder, report=lambda event, facts: None)
    model = bm.MultiTaskModel.from_pretrained(folder / "model")
    rows = hub_rows(entries()["superglue/record"], 6, labelled=False)
    expected = [answer["text"] for answer in model.predict("record", rows)]
    with zipfile.ZipFile(target) as archive:
        lines = archive.read("ReCoRD.jsonl").decode().splitlines()
    assert [json.loads(line)["label"] for line in lines] == expected


def test_what_is_missing_is_said_and_nothing_written(tmp_path: Path, command: Command) -> None:
    entry = entries()["glue/cola"]
    write_dataset(tmp_path, entry)
    tasks = bm.load_tasks(["glue/cola"], base=tmp_path)
    bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks).save_pretrained(tmp_path / "model")
    target = tmp_path / "glue.zip"
    words = ("submission", tmp_path / "model", "glue", "--data-dir", tmp_path, "--out", target)
    code, _, err = command(*words)
    assert code == 2 and "the model has no task glue/mnli, glue/mrpc" in err
    assert not target.exists()
    code, _, err = command("submission", tmp_path / "model", "glu")
    assert code == 2 and err == "brodmann: unknown benchmark 'glu'; did you mean 'glue'?\n"
    (tmp_path / "cola" / "test.jsonl.gz").unlink()
    code, out, err = command(*words, "--partial")
    assert code == 2 and "no test set was found: nothing to write" in err
    assert "no split 'test', found train, validation" in " ".join(out.split())
    assert not target.exists()
    code, _, err = command(*words[:-1], tmp_path, "--partial")
    assert code == 2 and "is a folder, expected the name of a zip file" in err
    write_split(tmp_path / "cola", "test", hub_rows(entry, 3, labelled=False))
    assert command(*words, "--partial")[0] == 0
    with zipfile.ZipFile(target) as archive:
        assert archive.namelist() == ["CoLA.tsv"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"idx": None}, "idx: expected the row's number, found None"),
        ({"idx": "2"}, "idx: expected the row's number, found '2'"),
        ({"idx": 0}, "idx: 0 occurs twice"),
        ({"sentence": None}, "text: expected a text, found None"),
    ],
)
def test_damaged_test_sets_stop_before_anything_is_answered(
    tmp_path: Path, command: Command, damage: dict[str, object], message: str
) -> None:
    entry = entries()["glue/cola"]
    write_dataset(tmp_path, entry)
    tasks = bm.load_tasks(["glue/cola"], base=tmp_path)
    bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks).save_pretrained(tmp_path / "model")
    rows = hub_rows(entry, 3, labelled=False)
    write_split(tmp_path / "cola", "test", [rows[0], {**rows[1], **damage}, rows[2]])
    words = ("submission", tmp_path / "model", "glue", "--data-dir", tmp_path, "--partial")
    code, out, _ = command(*words, "--out", tmp_path / "x.zip")
    assert code == 2 and message in " ".join(out.split())
    assert "CoLA.tsv left out" in out and not (tmp_path / "x.zip").exists()


def test_answers_in_other_words_are_refused(tmp_path: Path, command: Command) -> None:
    entry = entries()["glue/cola"]
    write_dataset(tmp_path, entry)
    named = {"use": "glue/cola", "labels": ["bad", "good"]}
    tasks = bm.load_tasks([named], base=tmp_path)
    bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks).save_pretrained(tmp_path / "model")
    words = ("submission", tmp_path / "model", "glue", "--data-dir", tmp_path, "--partial")
    code, _, err = command(*words, "--out", tmp_path / "x.zip")
    assert code == 2 and "its kind or labels are not those of glue/cola" in err
