"""Where results are written: nothing of somebody else's is replaced, nothing is left half made."""

import zipfile
from pathlib import Path
from typing import Any

import pytest
from tests.run_folders import write_run

import brodmann as bm


def test_a_page_replaces_a_page_and_nothing_else(tmp_path: Path, command: Any) -> None:
    write_run(tmp_path / "run", ["a", "b"])
    thesis, page = tmp_path / "thesis.txt", tmp_path / "page.html"
    thesis.write_text("three years of work")
    code, out, err = command("report", tmp_path / "run", "--out", thesis)
    assert (code, out, err) == (
        2,
        "",
        f"brodmann: {thesis}: already exists and is not a Brodmann report: name another file\n",
    )
    assert thesis.read_text() == "three years of work"
    assert not (tmp_path / "thesis-figures").exists()
    for _ in range(2):  # the second time over the first page
        assert command("report", tmp_path / "run", "--out", page)[0] == 0
    assert b'<meta name="generator" content="Brodmann">' in page.read_bytes()[:2000]


def test_a_submission_replaces_a_zip_and_nothing_else(tmp_path: Path, command: Any) -> None:
    rows = [{"text": f"a text {i}", "label": str(i % 2)} for i in range(20)]
    task = bm.load_task("cola", kind="classification", train=rows, validation=rows)
    bm.MultiTaskModel.from_pretrained("builtin:tiny", [task]).save_pretrained(tmp_path / "m")
    thesis = tmp_path / "thesis.txt"
    thesis.write_text("three years of work")
    code, _, err = command("submission", tmp_path / "m", "glue", "--out", thesis)
    expected = f"brodmann: {thesis}: already exists and is not a zip file: name another one\n"
    assert (code, err) == (2, expected)
    assert thesis.read_text() == "three years of work"
    old = tmp_path / "old.zip"
    with zipfile.ZipFile(old, "w") as file:
        file.writestr("CoLA.tsv", "")
    code, _, err = command("submission", tmp_path / "m", "glue", "--out", old)
    assert code == 2 and err.endswith("the model has none of the tasks of glue\n")


@pytest.mark.parametrize("name", ["x" * 181, "é" * 100])
@pytest.mark.parametrize("words", ["run", "train", "plan", "relate"])
def test_a_name_that_is_too_long_leaves_no_folder(
    tmp_path: Path, command: Any, words: str, name: str
) -> None:
    config = tmp_path / "c.toml"
    config.write_text(f'name = "{name}"\noutput = "{tmp_path}/runs"\ntasks = ["builtin/topic"]\n')
    code, out, err = command(words, config)
    assert (code, out) == (2, "")
    assert err == (
        f"brodmann: {config}: name = {name!r:.80}: expected a folder name of at most 180 bytes\n"
    )
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("key", ["hub", "hub_config", "hub_revision"])
def test_a_generated_task_is_not_on_the_hub(tmp_path: Path, key: str) -> None:
    with pytest.raises(bm.InputError) as error:
        bm.load_tasks([{"use": "builtin/topic", key: "someone/data"}])
    assert str(error.value) == (
        f"tasks[0]: use = 'builtin/topic' is generated here: leave '{key}' out, or describe the "
        "task without 'use'"
    )
