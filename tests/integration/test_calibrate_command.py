"""`brodmann calibrate`, what `run` makes of it, and answers that know their place."""

import csv
import json
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from tests.conftest import in_process

import brodmann as bm

Command = Callable[..., tuple[int, str, str]]
CONFIG = """
name = "small"
output = "{folder}/runs"
tasks = [
  {{ use = "builtin/topic", limit = {{ train = 60, validation = 40, test = 20 }} }},
  {{ use = "builtin/entities", limit = {{ train = 60, validation = 40, test = 20 }} }},
]
[model]
backbone = "builtin:tiny"
[training]
epochs = 1
[calibrate]
examples = 30
[dissociation]
draws = 0
resamples = 0
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calibrating")
    (folder / "small.toml").write_text(CONFIG.format(folder=folder))
    code, out, err = in_process("run", folder / "small.toml")
    assert code == 0, err
    assert "others refused" in out and "calibration:" in out
    return folder / "runs" / "small"


def test_a_run_is_calibrated_and_the_page_says_how_well(run: Path) -> None:
    found = json.loads((run / "calibration.json").read_text())
    assert found["request"] == {"examples": 30}
    assert set(found["tasks"]) == {"topic", "entities"}
    assert found["tasks"]["topic"]["examples"] == 30
    assert found["tasks"]["topic"]["test"]["examples"] == 20
    page = (run / "report.html").read_text()
    assert "How far to trust an answer" in page and "Reliability after calibration" in page


def test_a_second_run_reads_what_the_first_one_fitted(run: Path, command: Command) -> None:
    rules = run / "model" / "rules.npz"
    before = rules.read_bytes()
    stamp = rules.stat().st_mtime_ns
    assert command("run", run)[0] == 0
    assert rules.stat().st_mtime_ns == stamp
    assert command("calibrate", run, "--examples", 25, "--json")[0] == 0
    assert rules.read_bytes() != before
    assert json.loads((run / "calibration.json").read_text())["request"] == {"examples": 25}
    rules.unlink()  # lost: fitted again, although the report is there
    (run / "model" / "checksums.json").unlink()
    assert command("calibrate", run, "--examples", 30)[0] == 0
    assert rules.read_bytes() == before


def test_predict_refuses_unusual_texts_and_says_so(
    run: Path, command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = "zzz qqq 1234 %%%%\n"
    monkeypatch.setattr(sys, "stdin", StringIO(text))
    code, out, err = command("predict", run, "--abstain", "0.999")
    answer = json.loads(out)
    assert code == 0 and answer["topic"]["abstained"] and answer["topic"]["label"] is None
    assert "task 'topic' refused 1 of 1 inputs: they are unlike the texts" in err
    monkeypatch.setattr(sys, "stdin", StringIO(text))
    code, out, err = command("predict", run, "--task", "topic", "--abstain", "0.999")
    assert code == 0 and json.loads(out)["abstained"] and "refused 1 of 1" in err
    table = tmp_path / "in.csv"
    table.write_text("text\nzzz qqq\n", encoding="utf-8")
    out_file = tmp_path / "out.csv"
    code, _, err = command(
        "predict", run, table, "--out", out_file, "--abstain", "0.999", "--coverage", "0.9"
    )
    assert code == 0, err
    (row,) = csv.DictReader(StringIO(out_file.read_text()))
    assert row["topic.answer"] == row["topic.set"] == row["entities.answer"] == ""
    assert 0 < float(row["topic.in_domain"]) < 0.999
    assert list(row)[1:5] == ["topic.answer", "topic.score", "topic.set", "topic.in_domain"]


def test_sets_are_written_as_text(run: Path, command: Command, tmp_path: Path) -> None:
    table, out = tmp_path / "in.csv", tmp_path / "out.csv"
    table.write_text("text\nthe market fell\n", encoding="utf-8")
    words = ("predict", run, table, "--task", "topic", "--coverage", "0.95", "--out", out)
    assert command(*words)[0] == 0
    (row,) = csv.DictReader(StringIO(out.read_text()))
    assert row["topic.set"].split("|")[0] == row["topic.answer"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--abstain", "2"), "abstain = 2: expected a level between 0 and 1, such as 0.05"),
        (("--abstain", "0"), "abstain = 0: expected a level between 0 and 1, such as 0.05"),
        (("--coverage", "90"), "coverage = 90: expected a share between 0 and 1, such as 0.9"),
        (
            ("--task", "entities", "--coverage", "0.9"),
            "coverage: answers of tokens have no sets: they exist for classification, choice and "
            "regression",
        ),
    ],
)
def test_impossible_wishes_are_one_line(
    run: Path, command: Command, words: tuple[str, ...], said: str
) -> None:
    code, out, err = command("predict", run, *words)
    assert (code, out, err) == (2, "", f"brodmann: {said}\n")


def test_the_same_from_python(run: Path, tmp_path: Path) -> None:
    found = bm.calibrate(run, examples=25, progress=False)
    frame = found.to_frame().set_index("task")
    assert set(frame.index) == {"topic", "entities"} and (frame["ece"] < 1).all()
    assert bm.predict(run, ["zzz"], abstain=0.999, coverage=0.9)[0]["topic"]["abstained"]
    found.save(tmp_path / "page.html")
    assert "refuses" not in found.verb
    model = bm.Run(run).load_model()
    with pytest.raises(bm.InputError, match=r"needs tasks="):
        bm.calibrate(model)
    with pytest.raises(bm.InputError, match="leave tasks out"):
        bm.calibrate(run, bm.load_tasks([{"use": "builtin/topic"}]))


def test_cells_of_a_grid_are_not_calibrated(tmp_path: Path, command: Command) -> None:
    config = tmp_path / "grid.toml"
    config.write_text(CONFIG.format(folder=tmp_path) + "[grid]\nvary = { seed = [0] }\n")
    assert command("grid", config)[0] == 0
    cells = list((tmp_path / "runs").rglob("metrics.json"))
    assert cells and not list((tmp_path / "runs").rglob("calibration.json"))


def test_without_validation_examples_there_is_nothing_to_fit(
    run: Path, command: Command, tmp_path: Path
) -> None:
    model = bm.Run(run).load_model()
    (task,) = bm.load_tasks([{"use": "builtin/topic", "limit": {"train": 10}}])
    task.splits.pop("validation")
    with pytest.raises(bm.InputError, match="no task has validation examples"):
        bm.calibrate(model, [task])
