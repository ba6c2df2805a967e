"""`brodmann report` from a shell: no torch, the terminal twin, bad input."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.run_folders import write_run


def brodmann(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "brodmann", *map(str, words)], capture_output=True, text=True
    )


def test_no_torch_is_loaded(tmp_path: Path) -> None:
    write_run(tmp_path / "run", ["a", "b"])
    write_run(tmp_path / "other", ["a", "b"], seed=1)
    folders = [str(tmp_path / "run"), str(tmp_path / "other")]
    code = (
        "import sys; from brodmann.cli import app; "
        f"app(['report', *{folders!r}, '--out', {str(tmp_path / 'x.html')!r}], "
        "standalone_mode=False); assert 'torch' not in sys.modules, 'torch'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert (tmp_path / "x.html").is_file()


def test_text_says_what_the_page_says(tmp_path: Path) -> None:
    _, result = write_run(tmp_path / "run", ["sst2", "qnli"])
    assert result is not None and result.mean is not None
    shown = brodmann("report", tmp_path / "run", "--text").stdout
    page = json.loads(brodmann("report", tmp_path / "run", "--json").stdout)["report"]
    text = Path(page).read_text(encoding="utf-8")
    for words in ("In short", "Atlas of heads", "What to try next", f"{100 * result.mean:.1f} %"):
        assert words in shown and words in text, words


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["report", "nowhere"], "no such folder"),
        (["report", "."], "neither a run"),
        (["report", "run", "run2"], "--out"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, words: list[str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path / "run", ["a", "b"])
    write_run(tmp_path / "run2", ["a", "b"])
    monkeypatch.chdir(tmp_path)
    done = brodmann(*words)
    assert done.returncode == 2 and expected in done.stderr and done.stderr.count("\n") == 1


def test_damaged_measurements_are_named(tmp_path: Path) -> None:
    write_run(tmp_path / "run", ["a", "b"])
    (tmp_path / "run" / "importance.json").write_text("{", encoding="utf-8")
    done = brodmann("report", tmp_path / "run")
    assert done.returncode == 2 and "importance.json" in done.stderr
