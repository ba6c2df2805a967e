"""What a terminal says of results: with intervals, tests, reasons and counts, as the page does."""

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.run_folders import write_run
from tests.unit.reporting.test_figures import a_dissociation

import brodmann as bm
from brodmann.reporting import blocks
from brodmann.reporting.sections import sweep
from brodmann.reporting.sections.arms_compared import compared
from brodmann.reporting.sections.atlas import head_maps
from brodmann.reporting.sections.dissociation_matrix import summary
from brodmann.reporting.sections.few_shot_curves import learnt
from brodmann.reporting.sections.related_tasks import relevance_views
from brodmann.reporting.sections.unseen_pairs import pair_views
from brodmann.terminal.drawing import DRAW, drawn_blocks
from brodmann.terminal.width import LastingConsole


def printed(found: Sequence[blocks.Block], width: int = 120) -> str:
    """As it stands in a file or a pipe: one line per row, per paragraph and per item."""
    console = LastingConsole(file=io.StringIO(), width=width, color_system=None)
    for part in drawn_blocks(found):
        console.print(part, highlight=False)
    return console.file.getvalue()  # type: ignore[attr-defined]


def lines_of(found: Sequence[blocks.Block]) -> list[str]:
    return [line.strip().removeprefix("• ") for line in printed(found).splitlines()]


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


def test_every_kind_of_block_is_drawn_and_no_other() -> None:
    assert set(DRAW) == set(get_args(blocks.Block))


@pytest.mark.parametrize(
    ("values", "ends"),
    [
        ((16.666, 15.0), ("16.7", "15.0")),
        ((1234.56, 20.0), ("1,234.6", "20.0")),
        ((0.6931, 0.05), ("0.693", "0.050")),
        ((0.00123, 0.0002), ("0.00123", "0.00020")),
        ((120, 7), ("120", "7")),
    ],
)
def test_the_ends_of_a_line_have_as_many_places(
    values: tuple[float, float], ends: tuple[str, str]
) -> None:
    one = blocks.Lines({"a": list(enumerate(values))}, "steps", "score (%)", "A score.")
    assert [line.split() for line in printed([one]).splitlines() if "█" in line] == [
        ["a", ends[0], "█▁", ends[1]]
    ]
    assert printed([one]).rstrip().endswith("A score. Lines: score (%) over steps.")


def test_d_has_its_interval_its_redraws_and_its_test(tmp_path: Path) -> None:
    result = a_result(tmp_path)
    result.redrawn = {"redraws": 5, "spread": {"mean": 0.031}, "kept": [0.9, 0.8]}
    result.null = {"p": 0.15, "values": 20, "highest": 0.12}
    lines = lines_of(summary(result))
    assert lines[lines.index("How certain is D?") + 1 :] == [
        "D = 6.9 % [-9.5, 22.6]  95 % interval over validation examples and importance examples",
        "Drawing other examples for the map changes D by 3.1 points (one sd)  5 redraws, "
        "which keep 85 % of the chosen heads",
        "p = 0.150 against the same heads, assigned to the tasks at random  95 % of 20 "
        "assignments give at most 12.0 %",
        "",
        "Pairs",
        "a – b: not clear at this size  D 15.0 % [5.0, 25.0] and -1.2 % [-20.0, 10.0]; 50 % of "
        "their heads shared",
    ]


def test_a_d_without_an_interval_is_shown_without_one(tmp_path: Path) -> None:
    result = a_result(tmp_path)
    result.intervals["mean"] = None
    assert "D = 6.9 %" in lines_of(summary(result))


def test_an_undefined_d_says_why(tmp_path: Path) -> None:
    result = a_result(tmp_path)
    result.mean, result.per_task = None, [0.15, None]
    result.pairwise[1][0] = None
    result.intervals |= {"mean": None, "pairwise": [[None, [0.05, 0.25]], [None, None]]}
    result.undefined = {"b": "its base score is 0, so a ratio to it means nothing"}
    lines = lines_of(summary(result))
    assert lines[lines.index("How certain is D?") + 1 :] == [
        "D is undefined.  b: its base score is 0, so a ratio to it means nothing",
        "",
        "Pairs",
        "a – b: undefined  D 15.0 % [5.0, 25.0] and undefined; 50 % of their heads shared",
        "",
        "note: b has no D: its base score is 0, so a ratio to it means nothing",
    ]


def test_hardly_trained_tasks_are_called_so(tmp_path: Path) -> None:
    result = a_result(tmp_path)
    result.undertrained = {"b": "training loss 0.686 is near the 0.693 of guessing"}
    lines = lines_of(summary(result))
    assert any(line.startswith("a – b (hardly trained): not clear at this size") for line in lines)
    assert lines[-1] == (
        "note: b is hardly trained, its D means little: training loss 0.686 is near the 0.693 of "
        "guessing"
    )


def test_a_task_without_d_is_not_said_to_have_one(tmp_path: Path) -> None:
    result = a_result(tmp_path)
    result.undertrained = {"b": "its score, 0.0 %, is no better than answering without reading"}
    result.undefined = {"b": "its base score is 0, so a ratio to it means nothing"}
    notes = [line for line in lines_of(summary(result)) if line.startswith("note: b")]
    assert notes == [
        "note: b has no D: its base score is 0, so a ratio to it means nothing "
        "(b is hardly trained)"
    ]


def test_encoders_of_their_own_are_compared_by_places_only(tmp_path: Path) -> None:
    result = a_result(tmp_path)
    result.settings["architecture"] = "single"
    assert lines_of(summary(result))[-1] == (
        "note: every task has its own encoder here: heads are compared by their positions only"
    )


def test_the_tables_of_a_terminal_say_the_same() -> None:
    scores = bm.HeadScores(("a",), [[[0.0, 1.0], [0.25, 0.0]]])
    text = printed([*summary(a_dissociation()), *head_maps(scores, 0.25)])
    assert "1 a" in text and "37.5" in text and "[30.0, 40.0]" in text
    assert "b has no D: its base score is 0" in text
    assert "0   ██" in text and "1 ▒▒" in text


def a_cell(found: Any, **more: Any) -> dict[str, Any]:
    scores = {"a": {"score": 0.81}, "b": {"score": 0.73}}
    return {
        "label": "a+b seed=0",
        "state": "done",
        "varied": {"tasks": ["a", "b"], "seed": 0},
        "splits": {"validation": scores},
        "dissociation": found,
        **more,
    }


def test_a_grid_says_over_how_many_runs_and_compares_by_seed(tmp_path: Path) -> None:
    found = a_result(tmp_path).summary()
    entry = {"difference": 0.012, "interval": [-0.004, 0.028], "p": 0.09, "seeds": 3}
    grid = {
        "cells": [a_cell(found)],
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
    lines = lines_of(sweep.summary(grid))
    assert "not clear at this size" in lines[1]
    assert (
        "a+b, D = 5.0 ± 1.0 % over 2 of 3 seeds (undefined: seed 1: b: its base score is 0)  "
        "a 10.0 ± 2.0, b –"
    ) in lines
    paired = next(line for line in lines if line.startswith("a+b x=1"))
    cells = ["a+b x=1", "a+b x=0", "3", "+1.2 [-0.4, 2.8] p = 0.090", "–"]
    assert re.split(r"\s{2,}", paired) == cells


def test_a_grid_marks_what_is_hardly_trained_and_what_failed(tmp_path: Path) -> None:
    found = a_result(tmp_path).summary() | {"undertrained": {"b": "near chance"}}
    failed = {"label": "bad", "state": "failed", "varied": {"tasks": ["a"]}, "error": "no data"}
    grid = {"cells": [a_cell(found), failed], "over_seeds": {}, "failed": ["bad"]}
    lines = lines_of(sweep.summary(grid))
    assert "73.0*" in lines[1] and "15.0  -1.2" in lines[1] and "[-9.5, 22.6]" in lines[1]
    assert lines[1].endswith("hardly trained: b") and lines[2].endswith("failed: no data")
    assert lines[3].endswith(
        "* hardly trained: near what answers get without reading, or a training loss near that of "
        "guessing."
    )
    assert lines[-1] == "warning: 1 failed: run again to retry them"


def test_a_grid_over_lists_and_tables_of_settings_is_shown() -> None:
    cells = [
        a_cell(None, varied={"tasks": ["a", "b"], "dissociation.curve": [0.1, share]})
        for share in (0.2, 0.3)
    ]
    cells += [a_cell(None, varied={"tasks": ["a", "b"], "model.parameters": {"norms": "none"}})]
    text = printed(sweep.summary({"cells": cells, "over_seeds": {}}))
    assert "[0.1, 0.3]" in text and "(norms=none)" in text and "D (%)" not in text


def test_a_comparison_shows_paired_differences_and_names_its_test() -> None:
    entry = {"difference": -0.0089, "interval": [-0.0134, -0.0044], "p": 0.01, "significant": True}
    facts = {
        "per_task": {"a": (0.7, 0.02)},
        "average": (0.7, 0.02),
        "task_sigma": None,
        "seeds": [0, 1, 2],
    }
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
        "metrics": ["accuracy"],
        "baseline": "multi",
        "left_out": ["c"],
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
    text = printed(compared(result))
    assert "10.0 ± 1.0 (2 of 3 runs)" in text and "undefined" in text
    assert "70.0 ± 2.0*" in text
    assert "-0.9" in text and "[-1.3, -0.4]" in text and "p = 0.010" in text
    assert "points against multi" in text and "its 95 % interval" in text
    assert "compared with multi. A star: the difference is beyond chance at 5 % " in text
    assert "(two-sided t-test over 3 seeds)" in text
    assert "D of multi-seed2 is undefined (a: its base score is 0)" in text
    assert "Not in every run, and left out: c." in text


def test_few_shot_transfer_shows_paired_differences() -> None:
    against = {"difference": 0.05, "interval": [0.01, 0.09], "p": 0.02, "significant": True}
    amounts = {
        "4": {"plain": {"mean": (0.5, 0.1)}, "iat": {"mean": (0.55, 0.1), "against": against}}
    }
    found = {"tasks": {"t": amounts}, "metrics": {"t": "accuracy"}}
    text = printed(learnt(found))
    assert "55.0 ± 10.0*" in text and "+5.0 [1.0, 9.0] p = 0.020" in text
    assert "(two-sided t-test over 3 seeds or more)" in text


def test_starts_that_diverged_are_counted() -> None:
    starts = {"meta": {"mean": None, "diverged": 2}, "plain": {"mean": (0.5, 0.1), "diverged": 1}}
    differences = {"plain": {"mean": None, "low": None, "high": None}}
    entry = {"shots": 4, "steps": 10, "starts": starts, "differences": differences}
    found = {
        "pairs": {"topic-es": {"metric": "accuracy", "new_head": True, "table": [entry]}},
        "trained_on": ["topic-en"],
        "tuning": "",
        "settings_tried": 1,
        "rates": {"meta": {"chosen": 0.1}},
        "seeds": 2,
    }
    text = printed(pair_views(found))
    row = next(line for line in text.splitlines() if line.startswith("4 examples, 10 steps"))
    assert re.split(r"\s{2,}", row.strip())[1:] == ["diverged", "50.0 ± 10.0 (1 diverged)", "–"]


@pytest.mark.parametrize("terms", [{"pieces": "bert"}, {"trained": True}])
def test_relevance_says_how_it_was_measured(terms: dict[str, Any]) -> None:
    if "trained" in terms:
        terms = {"trained": {"limit": 1000, "epochs": 1, "backbone": "tiny", "seed": 0}}
    found = {
        "by": "pairs",
        "tasks": ["a", "b", "c"],
        "clusters": [["a", "b"]],
        "matrix": [[0.0, 0.3, None], [-0.2, 0.0, None], [0.1, None, None]],
        "suggested": {"clusters": 1, "silhouette": 0.0},
        "left_out": {"c": "it scores 0.0 alone: a ratio to that is not defined"},
        "dendrogram": {"order": ["a", "b"], "joins": []},
        **terms,
    }
    lines = lines_of(relevance_views(found))
    assert "Cluster 1: a, b" in lines
    assert "In no cluster: c  it scores 0.0 alone: a ratio to that is not defined" in lines
    assert "a → b 30.0 %, back -20.0 %" in lines
    said = (
        "Trained on at most 1,000 examples per task" if "trained" in terms else "tokenizer of bert"
    )
    assert said in lines[0]


def test_tasks_without_a_validation_split_share_one_note() -> None:
    from types import SimpleNamespace

    from brodmann.reporting.task_tables import data_notes

    how = "training examples held out (stratified, seed 0)"
    tasks: list[Any] = [
        SimpleNamespace(name=name, notes=[f"{name}: no validation split: 40 of 400 {how}"])
        for name in ("a", "b")
    ]
    tasks[1].notes.append("b: odd")
    assert data_notes(tasks) == [f"a, b: no validation split: 40 of 400 {how}", "b: odd"]
    assert data_notes(tasks[:1]) == [f"a: no validation split: 40 of 400 {how}"]
