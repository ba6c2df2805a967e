"""Events are typed: mypy knows their names, the code tells all of them, the terminal shows them."""

import re
from pathlib import Path
from typing import get_args

import pytest
from mypy import api
from rich.console import Console

import brodmann
from brodmann.terminal.view import RunView
from brodmann.training.events import Event

SOURCE = Path(brodmann.__file__).parent


def test_the_view_shows_every_event_and_no_other() -> None:
    assert set(RunView(Console()).shown) == set(get_args(Event))


def test_every_event_is_told_somewhere_and_no_other() -> None:
    told = re.compile(r'\b(?:report|say|show|view)\(\s*"([^"]+)",')
    found = {
        event
        for path in SOURCE.rglob("*.py")
        for event in told.findall(path.read_text(encoding="utf-8"))
    }
    assert found == set(get_args(Event))


@pytest.mark.parametrize(
    ("call", "mistake"),
    [
        ('report("note", {"text": "x"})', ""),
        ('report("unknwon", {"text": "x"})', 'expected "Literal['),
        ('report("note", "x")', 'expected "dict[str, Any]"'),
    ],
)
def test_mypy_refuses_what_is_no_event(
    call: str, mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MYPYPATH", str(SOURCE.parent))
    begin = "from brodmann.training.events import Report\ndef f(report: Report) -> None:"
    code = f"{begin}\n    {call}"
    cache = f"--cache-dir={tmp_path}"
    said, _, status = api.run(["--config-file=", "--strict", cache, "-c", code])
    assert status == bool(mistake) and mistake in said, said
