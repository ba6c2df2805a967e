"""Lines of a run: paths that can be copied, headlines that are whole, notes in one line."""

import io
from pathlib import Path
from typing import Any

import pytest

from brodmann.terminal.view import RunView
from brodmann.terminal.width import LastingConsole


def a_view(width: int, *, terminal: bool) -> tuple[RunView, io.StringIO]:
    file = io.StringIO()
    console = LastingConsole(file=file, width=width, force_terminal=terminal, color_system=None)
    return RunView(console), file


def test_a_path_is_one_word_in_a_terminal_and_a_line_is_whole_in_a_pipe() -> None:
    folder = "/somewhere/deep/down/in/a/folder/with/a/long/name/and/another/one/still/runs/first"
    for width, terminal in ((40, True), (80, False)):
        view, file = a_view(width, terminal=terminal)
        view("report", {"file": f"{folder}/[report].html"})
        assert file.getvalue() == f"report: {folder}/[report].html\n"
    note = "a note of many words that is longer than one line " * 3
    view, file = a_view(80, terminal=False)
    view("note", {"text": note.strip()})
    assert file.getvalue() == f"note: {note.strip()}\n"


@pytest.mark.parametrize("width", [40, 80])
def test_the_headline_of_a_cell_is_whole(width: int) -> None:
    class OneCell:
        label = "sentiment+acceptability+paraphrase learning_rate=0.000125 seed=12"

    view, file = a_view(width, terminal=True)
    facts = {"number": 0, "cells": 6, "cell": OneCell(), "state": "starts", "expected": 740.0}
    view("cell", facts)
    text = " ".join(file.getvalue().replace("─", "").split())
    assert text == f"cell 1/6: {OneCell.label} (about 12 min left)"


def test_names_with_brackets_are_shown_as_they_are() -> None:
    view, file = a_view(80, terminal=False)
    view("evaluated", {"step": 10, "mean": 0.5, "primary": {"[bold]": 0.5}, "best": 10})
    view("arm", {"arm": "[red]", "seed": 0})
    view("advice", {"reasons": ["[dim] is alike"], "file": "[x].toml"})
    text = file.getvalue()
    assert "step 10: mean 50.0  [bold] 50.0 (best)" in text
    assert "[red], seed 0" in text and "[dim] is alike" in text and "advice: [x].toml" in text


def test_a_plan_that_is_not_kept_has_no_path() -> None:
    plan: dict[str, Any] = {
        "parameters": {"total": 1_000_000, "trainable": 1_000_000},
        "steps": 10,
        "tokens": {"training": 1e6, "read": 2e6},
        "operations": {"training": 1e12},
        "seconds": {"training": 5.0},
        "memory": {"process": 2e9, "weights": 1e9, "activations": 5e8},
    }
    for file, last in ((None, "memory: 2.00 GB"), (Path("a.plan.json"), "plan: a.plan.json")):
        view, output = a_view(80, terminal=False)
        view("plan", {"plan": plan, "file": file})
        assert output.getvalue().splitlines()[-1].startswith(last)


@pytest.mark.parametrize("width", [40, 65, 80])
def test_bars_open_and_close_in_any_terminal(width: int) -> None:
    view, file = a_view(width, terminal=True)
    view("encode", {"task": "a", "split": "train"})
    view("measuring starts", {"what": "mapping heads", "examples": 8})
    view("measuring goes on", {"items": 8})
    view.live.update("evaluating")
    view.close()
    assert "mapping heads" in file.getvalue() and "encoding a (train)" in file.getvalue()
