"""What a terminal says of D and of differences: with intervals, tests, reasons and counts."""

import io
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text
from tests.run_folders import write_run

from brodmann.terminal.numbers import seeds_in_words
from brodmann.terminal.tables_of_results import (
    comparison_parts,
    dissociation_lines,
    grid_lines,
    grid_table,
    transfer_parts,
)


def printed(*parts: Any) -> str:
    console = Console(file=io.StringIO(), width=120, color_system=None)
    for part in parts:
        console.print(part, highlight=False)
    return console.file.getvalue()  # type: ignore[attr-defined]


def a_result(folder: Path) -> Any:
    _, result = write_run(folder / "run", ["a", "b"])
    assert result is not None
    result.mean, result.per_task = 0.069, [0.15, -0.012]
    result.pairwise = [[None, 0.15], [-0.012, None]]
    result.overlap = [[1.0, 0.5], [0.5, 1.0]]
    result.intervals = {
        "level": 0.95,
        "over": ["validation examples", "importance examples"],
        "mean": [-0.095, 0.226],
        "per_task": [[0.05, 0.25], [-0.2, 0.1]],
        "pairwise": [[None, [0.05, 0.25]], [[-0.2, 0.1], None]],
        "pairs": [[None, [-0.095, 0.226]], [[-0.095, 0.226], None]],
    }
    return result


def test_d_has_its_interval_its_redraws_and_its_test(tmp_path: Path) -> None:
    result = a_result(tmp_path)
    result.redrawn = {"redraws": 5, "spread": {"mean": 0.031}, "kept": [0.9, 0.8]}
    result.null = {"p": 0.15, "values": 20}
    lines = [Text.from_markup(line).plain for line in dissociation_lines(result)]
    assert lines == [
        "D = 6.9 % [-9.5, 22.6], 95 % over validation examples and importance examples",
        "with importance examples redrawn: D ± 3.1 % over 5 redraws, 85 % of the heads stay",
        "p = 0.150 against the same heads, dealt to the tasks at random in 20 ways",
        "a – b: not clear at this size (15.0 [5.0, 25.0], -1.2 [-20.0, 10.0]; 50 % of their heads "
        "shared)",
    ]


def test_an_undefined_d_says_why(tmp_path: Path) -> None:
    result = a_result(tmp_path)
    result.mean, result.per_task = None, [0.15, None]
    result.pairwise[1][0] = None
    result.intervals |= {"mean": None, "pairwise": [[None, [0.05, 0.25]], [None, None]]}
    result.undefined = {"b": "its base score is 0, so a ratio to it means nothing"}
    lines = [Text.from_markup(line).plain for line in dissociation_lines(result)]
    assert lines == [
        "D is undefined (b: its base score is 0, so a ratio to it means nothing)",
        "a – b: undefined (15.0 [5.0, 25.0], undefined; 50 % of their heads shared)",
        "note: b has no D: its base score is 0, so a ratio to it means nothing",
    ]


def test_hardly_trained_tasks_are_called_so(tmp_path: Path) -> None:
    result = a_result(tmp_path)
    result.undertrained = {"b": "training loss 0.686 is near the 0.693 of guessing"}
    lines = [Text.from_markup(line).plain for line in dissociation_lines(result)]
    assert lines[1].startswith("a – b (hardly trained): not clear at this size")
    assert lines[2] == (
        "note: b is hardly trained, its D means little: training loss 0.686 is near the 0.693 of "
        "guessing"
    )


def test_a_grid_says_over_how_many_runs_and_compares_by_seed(tmp_path: Path) -> None:
    found = a_result(tmp_path).summary()
    entry = {"difference": 0.012, "interval": [-0.004, 0.028], "p": 0.09, "seeds": 3}
    summary = {
        "cells": [{"label": "a+b seed=0", "state": "done", "dissociation": found}],
        "over_seeds": {
            "a+b": {
                "tasks": ["a", "b"],
                "per_task": [[0.1, 0.02], None],
                "mean": [0.05, 0.01],
                "seeds": 2,
                "runs": 3,
                "left_out": 1,
                "undefined": {"1": "b: its base score is 0"},
            }
        },
        "differences": [
            {"setting": "a+b x=1", "against": "a+b x=0", "average": entry, "dissociation": None}
        ],
        "failed": [],
    }
    assert "not clear at this size" in " ".join(printed(grid_table(summary)).split())
    lines = [Text.from_markup(line).plain for line in grid_lines(summary)]
    assert lines == [
        "a+b, D = 5.0 ± 1.0 % over 2 of 3 seeds (undefined: seed 1: b: its base score is 0)  "
        "(a 10.0 ± 2.0, b –)",
        "a+b x=1 against a+b x=0, paired over 3 seeds: average +1.2 [-0.4, 2.8] p = 0.090",
    ]
    none = {**summary["over_seeds"]["a+b"], "mean": None, "seeds": 0, "left_out": 3}  # type: ignore[index]
    assert seeds_in_words(none) == (
        "3 seeds: D is undefined (undefined: seed 1: b: its base score is 0)"
    )


def test_a_comparison_shows_paired_differences_and_names_its_test() -> None:
    entry = {"difference": -0.0089, "interval": [-0.0134, -0.0044], "p": 0.01, "significant": True}
    facts = {"per_task": {"a": (0.7, 0.02)}, "average": (0.7, 0.02), "task_sigma": None}
    against = {
        "test": "two-sided t-test over 3 seeds",
        "per_task": {"a": entry},
        "average": entry,
        "dissociation": {**entry, "interval": None},
        "improved": 0,
        "at_least_as_good": 0,
    }
    result = {
        "tasks": ["a"],
        "baseline": "multi",
        "arms": {
            "multi": {
                **facts,
                "against": None,
                "dissociation": (0.1, 0.01),
                "dissociation_over": [2, 3],
                "undefined": {"multi-seed2": "a: its base score is 0"},
            },
            "iat": {
                **facts,
                "against": against,
                "dissociation": None,
                "undefined": {"iat-seed0": "a: its base score is 0"},
            },
        },
    }
    text = printed(*comparison_parts(result))
    assert "10.0±1.0 (2 of 3)" in text and "undefined" in text
    assert "-0.9 [-1.3, -0.4]" in text and "points against multi [95 %]" in text
    assert "* differs from multi at 5 % (two-sided t-test over 3 seeds)" in text
    assert "multi-seed2: D is undefined (a: its base score is 0)" in text


def test_few_shot_transfer_shows_paired_differences() -> None:
    against = {"difference": 0.05, "interval": [0.01, 0.09], "p": 0.02, "significant": True}
    amounts = {
        "4": {"plain": {"mean": (0.5, 0.1)}, "iat": {"mean": (0.55, 0.1), "against": against}}
    }
    summary = {"tasks": {"t": amounts}, "metrics": {"t": "accuracy"}}
    text = printed(*transfer_parts(summary))
    assert "55.0 ± 10.0*" in text and "+5.0 [1.0, 9.0] p = 0.020" in text
    assert "(two-sided t-test over 3 seeds or more)" in " ".join(text.split())
