"""Tables in terminals of any width: texts wrap, rows stack, no number is ever shortened."""

import io
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.run_folders import write_run

from brodmann.data.tasks import TaskSpec
from brodmann.reporting.sections import sections
from brodmann.studies.report import read_study
from brodmann.terminal.drawing import drawn
from brodmann.terminal.numbers import interval, percent
from brodmann.terminal.plans import plan_parts
from brodmann.terminal.relation_tables import matrix_table
from brodmann.terminal.tables_of_results import (
    comparison_parts,
    dissociation_table,
    grid_table,
    meta_parts,
    score_table,
    transfer_parts,
)
from brodmann.terminal.view import RunView
from brodmann.terminal.width import LastingConsole, Table

WIDTHS = [40, 60, 80, None]  # None: a file or a pipe
SHORTENED = re.compile(r"\w…")
NUMBER = re.compile(r"\d[\d.,]*\d|\d")


def shown(part: Any, width: int | None) -> str:
    file = io.StringIO()
    terminal = width is not None
    console = LastingConsole(
        file=file, width=width or 80, force_terminal=terminal, color_system=None
    )
    console.print(part, highlight=False)
    text = file.getvalue()
    if terminal:
        assert max(map(len, text.splitlines()), default=0) <= (width or 0)
    return text


def numbers(table: Any) -> list[str]:
    cells = [cell for column in table.columns for cell in column.cells]
    return [n for cell in cells for n in NUMBER.findall(str(cell))]


def assert_all_numbers(table: Any, width: int | None) -> None:
    text = shown(table, width)
    assert not SHORTENED.search(text)
    found = NUMBER.findall(text)
    for number in numbers(table):
        assert number in found, f"{number} is not in\n{text}"
        found.remove(number)


CELL = st.one_of(
    st.floats(-1e4, 1e4).map(lambda value: f"{value:,.3f}"),
    st.tuples(st.floats(0, 100), st.floats(0, 100)).map(lambda e: f"\\[{e[0]:.1f}, {e[1]:.1f}]"),
    st.sampled_from(["accuracy", "mean_squared_error", "a few words that wrap", "", "–"]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(CELL, min_size=6, max_size=6), min_size=1, max_size=4), st.data())
def test_any_table_shows_all_its_numbers(rows: list[list[str]], data: st.DataObject) -> None:
    table = Table(title="scores (%)", box=None)
    for place in range(6):
        justify = data.draw(st.sampled_from(["left", "right"]))
        table.add_column(f"column {place}", justify=justify, no_wrap=data.draw(st.booleans()))
    for row in rows:
        table.add_row(*row)
    for width in WIDTHS:
        text = shown(table, width)
        assert not SHORTENED.search(text)
        if width is None:
            assert len(text.splitlines()) == len(rows) + 2  # one line per row
        found = NUMBER.findall(text)
        for row in rows:
            for number in (n for cell in row for n in NUMBER.findall(cell)):
                assert number in found


def test_a_row_that_does_not_fit_becomes_a_block() -> None:
    table = Table(box=None, header_style="bold")
    for title, justify in (("task", "left"), ("score", "right"), ("95 %", "right")):
        table.add_column(title, justify=justify)  # type: ignore[arg-type]
    table.add_row("sentiment", "[bold]81.25[/bold]", "\\[72.0, 95.0]")
    table.add_row("topic", "9.5", "")
    assert [line.rstrip() for line in shown(table, 40).splitlines()] == [
        " task       score          95 %",
        " sentiment  81.25  [72.0, 95.0]",
        " topic        9.5",
    ]
    assert [line.rstrip() for line in shown(table, 24).splitlines()] == [
        "sentiment",
        "  score  81.25",
        "  95 %   [72.0, 95.0]",
        "topic",
        "  score  9.5",
    ]


def task(name: str) -> Any:
    class OneTask:
        spec = TaskSpec(name, "classification", metrics=("accuracy", "macro_f1"))

    found = OneTask()
    found.name = name  # type: ignore[attr-defined]
    return found


def tables() -> dict[str, Any]:
    """What runs and studies print, with as many tasks and digits as real ones have."""
    names = ["sentiment", "acceptability", "paraphrase", "entailment", "similarity"]
    entry = {
        "metric": "accuracy",
        "score": 0.61234,
        "interval": [0.5123, 0.7345],
        "trivial": 0.5,
        "scores": {"accuracy": 0.61234, "macro_f1": 0.5987},
    }
    arm = {
        "per_task": {name: [0.8123, 0.0123] for name in names},
        "average": [0.8, 0.01],
        "task_sigma": [0.1, None],
        "dissociation": [0.123, 0.045],
        "against": None,
    }
    cell = {
        "label": "sentiment+topic seed=0 learning_rate=0.00005",
        "state": "done",
        "dissociation": {
            "tasks": ["a", "b"],
            "undertrained": {},
            "base": [0.8123, 0.7345],
            "per_task": [0.123, 0.234],
            "mean": 0.1785,
            "pairwise": [[None, 0.123], [0.234, None]],
            "intervals": {
                "mean": [0.0123, 0.2345],
                "pairwise": [[None, [0.01, 0.2]], [[0.1, 0.3], None]],
            },
            "undefined": {},
            "verdicts": [["", "double"], ["double", ""]],
        },
    }
    start = {"mean": [0.8123, 0.0123], "significant": True}
    meta = {
        "pairs": {
            "sentiment-es": {
                "metric": "accuracy",
                "new_head": False,
                "table": [
                    {
                        "shots": 16,
                        "steps": 10,
                        "starts": {n: {"mean": [0.61, 0.02]} for n in ("meta", "multitask")},
                        "differences": {"multitask": {"mean": 0.02, "low": -0.01, "high": 0.05}},
                    }
                ],
            }
        },
        "seeds": 3,
        "settings_tried": 1,
        "tuning": "",
    }
    plan = {
        "parameters": {"total": 22_700_000, "trainable": 22_700_000},
        "steps": 1_234,
        "tokens": {"training": 1e6, "read": 2e6},
        "operations": {"training": 1.2e15, "map of heads": 3.4e14},
        "seconds": {"training": 1234.0, "map of heads": 56.0},
        "took": {"seconds": {"training": 1200.0}},
        "memory": {"process": 2e9, "weights": 1e9, "activations": 5e8},
    }
    splits = {"validation": dict.fromkeys(names, entry), "test": dict.fromkeys(names, entry)}
    return {
        "scores": score_table([task(name) for name in names], splits),
        "comparison": next(
            comparison_parts(
                {"tasks": names, "arms": dict.fromkeys(("single", "multi", "iat", "prune"), arm),
                 "baseline": "multi"}
            )
        ),
        "grid": grid_table({"cells": [cell, cell]}),
        "transfer": next(
            transfer_parts(
                {"tasks": {"a": {"16": dict.fromkeys(("plain", "iat", "pretrained"), start)}},
                 "metrics": {"a": "accuracy"}}
            )
        ),
        "meta": next(meta_parts(meta)),
        "plan": list(plan_parts(plan))[1],
        "matrix": matrix_table("CovSim (%)", names * 2, np.random.rand(10, 10).tolist()),
    }  # fmt: skip


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "name", ["scores", "comparison", "grid", "transfer", "meta", "plan", "matrix"]
)
def test_no_table_of_a_run_loses_a_digit(name: str, width: int | None) -> None:
    assert_all_numbers(tables()[name], width)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_report_in_a_terminal_loses_no_digit(tmp_path: Any, width: int | None) -> None:
    names = ["sentiment", "acceptability", "paraphrase", "entailment"]
    _, result = write_run(tmp_path / "run", names)
    assert result is not None
    assert_all_numbers(dissociation_table(result), width)
    study = read_study([tmp_path / "run"], lambda event, facts: None)
    parts = [part for section in sections(study) for part in section.blocks]
    table = next(part for part in parts if hasattr(part, "rows") and hasattr(part, "columns"))
    text = "".join(shown(part, width) for part in drawn(sections(study), width or 80))
    for number in (n for row in table.rows for cell in row for n in NUMBER.findall(cell)):
        assert number in NUMBER.findall(text)


def test_a_path_is_one_word_in_a_terminal_and_a_line_is_whole_in_a_pipe() -> None:
    folder = "/somewhere/deep/down/in/a/folder/with/a/long/name/and/another/one/still/runs/first"
    for width, terminal in ((40, True), (80, False)):
        file = io.StringIO()
        console = LastingConsole(file=file, width=width, force_terminal=terminal, color_system=None)
        RunView(console)("report", {"file": f"{folder}/[report].html"})
        assert file.getvalue() == f"report: {folder}/[report].html\n"
    note = "a note of many words that is longer than one line " * 3
    file = io.StringIO()
    RunView(LastingConsole(file=file, width=80))("note", {"text": note.strip()})
    assert file.getvalue() == f"note: {note.strip()}\n"


@pytest.mark.parametrize("width", [40, 80])
def test_the_headline_of_a_cell_is_whole(width: int) -> None:
    class OneCell:
        label = "sentiment+acceptability+paraphrase learning_rate=0.000125 seed=12"

    file = io.StringIO()
    console = LastingConsole(file=file, width=width, force_terminal=True, color_system=None)
    facts = {"number": 0, "cells": 6, "cell": OneCell(), "state": "starts", "expected": 740.0}
    RunView(console)("cell", facts)
    text = " ".join(file.getvalue().replace("─", "").split())
    assert text == f"cell 1/6: {OneCell.label} (about 12 min left)"


def test_there_is_no_minus_before_zero() -> None:
    assert [percent(value) for value in (-0.0001, -0.0, 0.0, -0.001)] == [
        "0.0",
        "0.0",
        "0.0",
        "-0.1",
    ]
    assert interval((-0.0004, 0.01)) == "\\[0.0, 1.0]"
