"""Tables in terminals of any width: texts wrap, rows stack, no number is ever shortened."""

import io
import re
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.text import Text
from tests.run_folders import write_run

from brodmann.data.tasks import TaskSpec
from brodmann.papers.tables import recipe_list
from brodmann.reporting import plan_tables, smaller_models, task_tables
from brodmann.reporting.blocks import Block, Matrix
from brodmann.reporting.sections import (
    answer,
    arms_compared,
    dissociation_matrix,
    few_shot_curves,
    new_tasks,
    related_tasks,
    sections,
    sweep,
    unseen_pairs,
)
from brodmann.studies.report import read_study
from brodmann.terminal.drawing import drawn, drawn_blocks
from brodmann.terminal.width import Bullet, LastingConsole, Table

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


def numbers(part: Any) -> list[str]:
    """Those in the cells of a table, or in a line."""
    if isinstance(part, Table):
        cells = [cell for column in part.columns for cell in column.cells]
    else:
        assert isinstance(part, Text | Bullet)
        cells = [part.text if isinstance(part, Bullet) else part]
    return [n for cell in cells for n in NUMBER.findall(str(cell))]


def assert_all_numbers(part: Any, width: int | None) -> None:
    text = shown(part, width)
    assert not SHORTENED.search(text)
    found = NUMBER.findall(text)
    for number in numbers(part):
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
        sizes: ClassVar = {"train": 12_345, "validation": 678, "validation_mismatched": 90}
        notes: ClassVar = ["3 of 678 validation examples are also training examples"]

    found = OneTask()
    found.name = name  # type: ignore[attr-defined]
    return found


def results() -> dict[str, list[Block]]:
    """What runs and studies print, with as many tasks and digits as real ones have."""
    names = ["sentiment", "acceptability", "paraphrase", "entailment", "similarity"]
    entry = {
        "metric": "accuracy",
        "score": 0.61234,
        "interval": [0.5123, 0.7345],
        "trivial": 0.5,
        "examples": 12_345,
        "scores": {"accuracy": 0.61234, "macro_f1": 0.5987},
    }
    tested = {"difference": -0.0123, "interval": [-0.0234, -0.0012], "p": 0.012}
    tested |= {"significant": True, "seeds": 3}
    arm = {
        "per_task": {name: [0.8123, 0.0123] for name in names},
        "average": [0.8, 0.01],
        "task_sigma": [0.1, None],
        "dissociation": [0.123, 0.045],
        "seeds": [0, 1, 2],
        "against": None,
    }
    other = {"per_task": dict.fromkeys(names, tested), "average": tested, "dissociation": tested}
    arms = {name: {**arm, "against": other} for name in ("single", "iat", "prune")}
    cell = {
        "label": "sentiment+topic seed=0 learning_rate=0.00005",
        "state": "done",
        "varied": {"tasks": ["a", "b"], "seed": 0, "training.learning_rate": 0.00005},
        "splits": {"validation": {"a": {"score": 0.8123}, "b": {"score": 0.7345}}},
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
    faster = {**cell, "varied": {**cell["varied"], "seed": 1, "training.learning_rate": 0.0005}}  # type: ignore[dict-item]
    over = {"tasks": ["a", "b"], "per_task": [[0.1, 0.02], None], "mean": [0.05, 0.01]}
    over |= {"seeds": 2, "left_out": 0}
    start = {"mean": [0.8123, 0.0123], "against": tested}
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
        "trained_on": names,
        "rates": {"meta": {"chosen": 0.005}, "multitask": {"chosen": 0.0005}},
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
        "disk": {"training": 300_000_000, "afterwards": 100_000_000, "free": 1_000_000},
    }
    row = {"recipe": "pairs", "runs": 1_210, "there": 34, "tokens": 5.6e9, "parameters": 110e6}
    row |= {"memory": 5.4e9, "operations": 1.2e18, "hours": 1234.5}
    estimate = {"recipes": [row], "scale": "paper", "runs": 1_210, "there": 34, "hours": 1234.5}
    estimate |= {"operations": 1.2e18, "operations_alone": 2e18, "speed": None, "assumed": names}
    made = {"scores": {n: {"metric": "f1", "before": 0.81, "after": 0.79} for n in names}}
    made |= {"parameters": [22_700_000, 20_100_000], "speed": 1.234, "removed": 10, "of": 72}
    adapted = {
        "zero_shot": {n: {"sst2": {"accuracy": 0.512}} for n in names},
        "metrics": dict.fromkeys(names, "accuracy"),
        "head": "new",
        "shares": {
            "10 %": {"scores": dict.fromkeys(names, 0.61), "examples": dict.fromkeys(names, 1_234)}
        },
        "old": {
            "before": {"sst2": 0.81},
            "after": {"sst2": 0.71},
            "metrics": {"sst2": "accuracy"},
            "interval": {"sst2": [-0.123, -0.081]},
        },
    }
    splits = {"validation": dict.fromkeys(names, entry), "test": dict.fromkeys(names, entry)}
    matrix = np.random.default_rng(0).random((10, 10)).tolist()
    return {
        "tasks": task_tables.tasks_read([task(name) for name in names]),
        "scores": answer.scores([task(name) for name in names], splits),
        "comparison": arms_compared.compared(
            {"tasks": names, "metrics": ["accuracy"] * 5, "baseline": "multi",
             "arms": {"multi": arm, **arms}}
        ),
        "grid": sweep.summary(
            {"cells": [cell, faster], "over_seeds": {"a+b": over}, "differences": [
                {"setting": "x=1", "against": "x=0", "average": tested, "dissociation": tested}
            ]}
        ),
        "transfer": few_shot_curves.learnt(
            {"tasks": {"a": {"16": dict.fromkeys(("plain", "iat", "pretrained"), start)}},
             "metrics": {"a": "accuracy"}}
        ),
        "meta": unseen_pairs.pair_views(meta),
        "plan": plan_tables.plan(plan),
        "estimate": plan_tables.estimate(estimate),
        "matrix": related_tasks.relations(
            "covsim", {"tasks": names * 2, "examples": 1000, "covsim": matrix}
        ),
        "pruned": smaller_models.pruned(made),
        "adapted": [*new_tasks.zero_shot(adapted), *new_tasks.adapted(adapted)],
        "recipes": recipe_list(
            [{"name": "spec-table3", "shows": "average scores of 6 ways of training over 5 tasks",
              "recipe": "iat", "varies": "5 seeds", "done": ["mini"], "changed": ["paper"],
              "begun": [], "failed": []}]
        ),
    }  # fmt: skip


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", list(results()))
def test_no_result_of_a_run_loses_a_digit(name: str, width: int | None) -> None:
    parts = list(drawn_blocks(results()[name]))
    assert parts
    for part in parts:
        assert_all_numbers(part, width)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_report_in_a_terminal_loses_no_digit(tmp_path: Any, width: int | None) -> None:
    names = ["sentiment", "acceptability", "paraphrase", "entailment"]
    _, result = write_run(tmp_path / "run", names)
    assert result is not None
    for part in drawn_blocks(dissociation_matrix.summary(result)):
        assert_all_numbers(part, width)
    study = read_study([tmp_path / "run"], lambda event, facts: None)
    parts = [part for section in sections(study) for part in section.blocks]
    table = next(part for part in parts if hasattr(part, "rows") and hasattr(part, "columns"))
    text = "".join(shown(part, width) for part in drawn(sections(study)))
    for number in (n for row in table.rows for cell in row for n in NUMBER.findall(cell)):
        assert number in NUMBER.findall(text)


def test_columns_that_are_alike_are_shown_some_at_a_time() -> None:
    names = ["sentiment", "topic"]
    values = [[0.1 * (i + 1), 0.2, 0.3, 0.4] for i in range(2)]
    block = Matrix(names, ["one", "two", "three", "four"], values, "", values)
    (table,) = drawn_blocks([block])
    assert [line.rstrip() for line in shown(table, 28).splitlines()] == [
        "             one  two three",
        "1 sentiment 10.0 20.0  30.0",
        "2 topic     20.0 20.0  30.0",
        "            four",
        "1 sentiment 40.0",
        "2 topic     40.0",
    ]


def test_columns_move_closer_before_rows_are_stacked() -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("run", "score", "gain"):
        table.add_column(title, justify="left" if title == "run" else "right")
    table.add_row("1", "81.2", "+1.5")
    assert [line.rstrip() for line in shown(table, 15).splitlines()] == [
        "run score gain",
        "1    81.2 +1.5",
    ]
    assert [line.rstrip() for line in shown(table, 13).splitlines()] == [
        "run 1",
        "  score  81.2",
        "  gain   +1.5",
    ]


def test_an_item_goes_on_below_its_beginning_and_is_one_line_in_a_pipe() -> None:
    item = Bullet(Text("D = 6.9 % over examples"))
    assert shown(item, 16).splitlines() == [" • D = 6.9 %", "   over examples"]
    assert shown(item, None) == " • D = 6.9 % over examples\n"


def test_a_minus_is_typed_as_programs_read_it() -> None:
    assert shown("−0.9 [−1.3, −0.4]", 40) == "-0.9 [-1.3, -0.4]\n"
