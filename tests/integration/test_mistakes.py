"""What the model gets wrong: stored by a run, shown on its page, with hostile and private texts."""

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.conftest import every_kind

import brodmann as bm
from brodmann.data.kinds import KINDS
from brodmann.errors import InputError
from brodmann.measuring.finding_mistakes import mistakes_in
from brodmann.pipeline.run import run as run_all
from brodmann.reporting.sections import sections
from brodmann.studies.arms import arm_config
from brodmann.studies.cells import cells_of
from brodmann.studies.report import read_study, report_on
from brodmann.terminal.drawing import drawn
from brodmann.training.events import silent
from brodmann.verbs.asking import settle

SECRET = "Xerxes"
HOSTILE = f"<img src=x onerror=alert(1)> </script> {SECRET}"
PARTS = ("mistakes", "uncertain", "suspects", "labels", "confusions")


def private_tasks() -> list[dict[str, Any]]:
    """A task of every kind, and one of plain tags, each text with what must not get out."""
    found = every_kind(36)
    for split in ("train", "validation"):
        for row in found[0][split]:  # all tasks share the rows
            row["a"] += f" {HOSTILE}"
            row["b"] += f" {SECRET}"
            row["words"] = [*row["words"], HOSTILE]
            row["tags"] = [*row["tags"], "B-X"]
            row["choices"] = [f"{choice} {HOSTILE}" for choice in row["choices"]]
            row["answer"] = row["answer"] and SECRET
            row["parts"] = ["N" if len(word) > 3 else "V" for word in row["words"]]
    halves = {split: found[0][split] for split in ("train", "validation")}
    plain = {"name": "plain", "kind": "tokens", "tokens": "words", "tags": "parts", **halves}
    return [*found, plain]


def trained(folder: Path, **more: Any) -> Path:
    settings = {
        "name": "private",
        "output": str(folder),
        "tasks": private_tasks(),
        "model": {"backbone": "builtin:tiny"},
        "training": {"epochs": 1},
        "threads": 1,
        **more,
    }
    config, base = settle(settings)
    run_all(config, base, silent, heads=False)
    return config.folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that may quote texts; tests only read it, or copy its files."""
    return trained(tmp_path_factory.mktemp("open"))


def section_of(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    begin = text.index('<section id="mistakes">')
    return text[begin : text.index("</section>", begin)]


def test_a_run_stores_the_mistakes_of_every_kind(folder: Path) -> None:
    found = bm.Run(folder).mistakes
    assert found is not None
    assert {task["kind"] for task in found.tasks.values()} == set(KINDS)
    for task, document in found.tasks.items():
        assert document["examples"] == 12, task
        assert all(SECRET in case["texts"]["text"] for case in document["mistakes"]), task
    assert sum(len(document["mistakes"]) for document in found.tasks.values()) > 12


def test_the_page_shows_hostile_texts_as_texts(folder: Path, tmp_path: Path) -> None:
    text = section_of(report_on([folder], silent, to=tmp_path / "page.html"))
    assert "<img" not in text and "<script" not in text
    assert "&lt;img src=x onerror=alert(1)&gt;" in text


def test_the_terminal_shows_the_same(folder: Path) -> None:
    console = Console(file=io.StringIO(), width=100)
    for part in drawn(sections(read_study([folder], silent))):
        console.print(part, highlight=False)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "What the model gets wrong" in text and "Most confident mistakes" in text
    assert SECRET in text and "row " in text


def test_without_texts_none_is_written_anywhere(tmp_path: Path) -> None:
    place = trained(tmp_path, report={"texts": False})
    stored = (place / "mistakes.json").read_text(encoding="utf-8")
    page = report_on([place], silent)
    section = section_of(page)
    for text in (stored, page.read_text(encoding="utf-8")):
        assert SECRET not in text and "onerror" not in text
    assert "row 3" in section and "Most confident mistakes" in section
    assert not (place / "explained.json").exists()


def test_the_heads_of_one_text_are_private_as_well(tmp_path: Path) -> None:
    settings = {
        "name": "mapped",
        "output": str(tmp_path),
        "tasks": private_tasks()[:1],
        "model": {"backbone": "builtin:tiny"},
        "training": {"epochs": 1},
        "report": {"texts": False},
    }
    place = bm.run(settings, progress=False).folder
    assert json.loads((place / "explained.json").read_text())["tasks"] == {}
    assert SECRET not in (place / "report.html").read_text(encoding="utf-8")


def test_texts_are_forgotten_when_they_are_no_longer_wanted(tmp_path: Path) -> None:
    place = trained(tmp_path)
    assert SECRET in (place / "mistakes.json").read_text(encoding="utf-8")
    before = bm.Run(place).mistakes
    assert trained(tmp_path, report={"texts": False}) == place
    assert SECRET not in (place / "mistakes.json").read_text(encoding="utf-8")
    after = bm.Run(place).mistakes
    assert before is not None and after is not None
    assert after.tasks == before.without_texts().tasks


def test_a_page_can_leave_out_texts_that_the_run_has(
    folder: Path, tmp_path: Path, command: Any
) -> None:
    page = bm.report(folder, out=tmp_path / "verb.html", texts=False, progress=False).path
    code, _, _ = command("report", folder, "--no-texts", "--out", tmp_path / "command.html")
    assert code == 0
    assert (tmp_path / "command.html").read_text() == page.read_text()
    assert SECRET not in page.read_text(encoding="utf-8") and "row 3" in section_of(page)
    code, out, _ = command("report", folder, "--no-texts", "--text")
    assert code == 0 and SECRET not in out and "Most confident mistakes" in out


def test_notes_and_explained_texts_are_kept_off_the_page_as_well(
    folder: Path, tmp_path: Path
) -> None:
    study = read_study([folder], silent)
    run = study.runs[0]
    run.measures["explained"] = {"tasks": {"single": {"text": SECRET}}}
    run.provenance["data"]["single"]["notes"] = [f"single: '{SECRET}' occurs twice"]
    run.hide_texts()
    assert "explained" not in run.measures
    notes = run.provenance["data"]["single"]["notes"]
    assert notes == ["1 note on the data, not shown because notes may quote texts"]


def test_a_run_without_the_file_has_no_section(folder: Path, tmp_path: Path) -> None:
    older = tmp_path / "older"
    shutil.copytree(folder, older, ignore=shutil.ignore_patterns("mistakes.json", "model"))
    assert bm.Run(older).mistakes is None
    assert "What the model gets wrong" not in report_on([older], silent).read_text()


@pytest.mark.parametrize(
    "change",
    [{"unit": 3}, {"mistakes": [{"row": 1}]}, {"labels": [7]}, {"matrix": {}}, {"numbers": []}],
    ids=lambda change: next(iter(change)),
)
def test_a_damaged_file_is_named(folder: Path, tmp_path: Path, change: dict[str, Any]) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken, ignore=shutil.ignore_patterns("model"))
    path = broken / "mistakes.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    document["tasks"]["single"] |= change
    path.write_text(json.dumps(document))
    with pytest.raises(InputError) as caught:
        report_on([broken], silent)
    assert str(caught.value) == f"{path}: damaged: `brodmann evaluate` writes it again"


def test_python_finds_the_same_and_makes_tables(folder: Path, tmp_path: Path) -> None:
    stored = bm.Run(folder).mistakes
    assert stored is not None
    tasks = bm.load_tasks(private_tasks())
    found = bm.mistakes(bm.Run(folder).load_model(device="cpu"), tasks)
    counts = [
        [one[key] for key in ("wrong", "sorts", "confusions")] for one in found.tasks.values()
    ]
    assert counts == [
        [one[key] for key in ("wrong", "sorts", "confusions")] for one in stored.tasks.values()
    ]
    for part in PARTS:
        frame = found.to_frame(part)
        assert len(frame) == sum(len(one[part]) for one in found.tasks.values())
    assert {"task", "row", "truth", "answer", "sure", "text"} <= set(found.to_frame().columns)
    assert {"precision_low", "f1_high", "support"} <= set(found.to_frame("labels").columns)
    bare = bm.mistakes(bm.Run(folder).load_model(device="cpu"), tasks, texts=False)
    assert "text" not in bare.to_frame() and SECRET not in json.dumps(bare.tasks)
    found.save(tmp_path / "mistakes.json")
    assert bm.Mistakes.load(tmp_path / "mistakes.json").tasks == json.loads(json.dumps(found.tasks))
    assert "of 12 examples" in repr(found) and "<table>" in found._repr_html_()
    with pytest.raises(InputError) as caught:
        found.to_frame("mistake")  # type: ignore[arg-type]
    assert str(caught.value) == "mistakes: no part 'mistake'; did you mean 'mistakes'?"


def test_a_task_without_the_split_is_left_out(folder: Path) -> None:
    tasks = bm.load_tasks(private_tasks())
    assert mistakes_in({}, tasks, split="validation", texts=True).tasks == {}


def test_cells_and_arms_store_no_mistakes(tmp_path: Path) -> None:
    settings = {"name": "many", "output": str(tmp_path), "tasks": ["builtin/topic"]}
    grid, _ = settle({**settings, "grid": {"vary": {"seed": [0, 1]}}})
    assert [cell.config.report.mistakes for cell in cells_of(grid)] == [False, False]
    arms, _ = settle({**settings, "compare": {"arms": ["single", "multi"]}})
    assert not arm_config(arms, "multi", 0).report.mistakes


def test_a_run_may_store_none(tmp_path: Path) -> None:
    place = trained(tmp_path, report={"mistakes": False})
    assert not (place / "mistakes.json").exists()
