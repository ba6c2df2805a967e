"""`brodmann report` from a shell: no torch, the terminal twin, bad input."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.run_folders import write_run

Command = Callable[..., tuple[int, str, str]]


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


def test_text_says_what_the_page_says(tmp_path: Path, command: Command) -> None:
    _, result = write_run(tmp_path / "run", ["sst2", "qnli"])
    assert result is not None and result.mean is not None
    _, shown, _ = command("report", tmp_path / "run", "--text")
    page = json.loads(command("report", tmp_path / "run", "--json")[1])["report"]
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
    tmp_path: Path,
    words: list[str],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    command: Command,
) -> None:
    write_run(tmp_path / "run", ["a", "b"])
    write_run(tmp_path / "run2", ["a", "b"])
    monkeypatch.chdir(tmp_path)
    code, _, err = command(*words)
    assert code == 2 and expected in err and err.count("\n") == 1


def test_damaged_measurements_are_named(tmp_path: Path, command: Command) -> None:
    write_run(tmp_path / "run", ["a", "b"])
    (tmp_path / "run" / "importance.json").write_text("{", encoding="utf-8")
    code, _, err = command("report", tmp_path / "run")
    assert code == 2 and "importance.json" in err
