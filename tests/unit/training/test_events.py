"""Events are typed: mypy knows their names, the code tells all of them, the terminal shows them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

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


def told() -> Iterator[tuple[str, set[str]]]:
    """Every event that is told with a written-out dict, and the facts in it."""
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "report(" in text else ():
            match node:
                case ast.Call(
                    func=ast.Name(id="report") | ast.Attribute(attr="report"),
                    args=[ast.Constant(value=str(event)), ast.Dict(keys=keys)],
                ):
                    names = {key.value for key in keys if isinstance(key, ast.Constant)}
                    if len(names) == len(keys):
                        yield event, names


def test_events_carry_the_facts_that_are_listed_and_no_others() -> None:
    text = (SOURCE / "training" / "events.py").read_text(encoding="utf-8")
    listed = {
        event: set(facts.partition(":")[0].split(", "))
        for event, facts in re.findall(r'^    "([^"]+)",  # (.+)$', text, re.MULTILINE)
    }
    assert set(listed) == set(get_args(Event))
    found = list(told())
    assert len({event for event, _ in found}) > 30
    assert [(event, facts) for event, facts in found if facts != listed[event]] == []


def test_mypy_refuses_what_is_no_event(tmp_path: Path) -> None:
    """The module is checked as a text of its own: the packages around it import torch, which
    mypy would read for half a minute."""
    module = (SOURCE / "training" / "events.py").read_text(encoding="utf-8")
    assert "brodmann" not in re.sub('""".*?"""', "", module, flags=re.DOTALL)  # it stands alone
    code = f"""{module}

def f(report: Report) -> None:
    report("note", {{"text": "x"}})
    report("unknwon", {{"text": "x"}})
    report("note", "x")
"""
    cache = f"--cache-dir={tmp_path}"
    said, _, _ = api.run(["--config-file=", "--strict", cache, "-c", code])
    mistakes = {
        code.splitlines()[int(line) - 1].strip(): error
        for line, error in re.findall(r"^<string>:(\d+): error: (.+)$", said, re.MULTILINE)
    }
    assert set(mistakes) == {'report("unknwon", {"text": "x"})', 'report("note", "x")'}, said
    unknown, no_dict = mistakes.values()
    assert 'expected "Literal[' in unknown
    assert 'expected "dict[str, Any]"' in no_dict
