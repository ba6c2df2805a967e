"""The answer comes from stored numbers by stated rules."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.run_folders import write_run

from brodmann.reporting.findings import (
    cautions,
    next_steps,
    separation,
    sharing,
    single_differences,
)
from brodmann.reporting.record import Study, read_record


def compared(baseline: str) -> dict[str, Any]:
    """Two tasks: `a` loses 3 points by sharing beyond chance, `b` gains 1 within it."""
    other = "single" if baseline == "multi" else "multi"
    sign = 1 if other == "single" else -1
    per_task = {
        "a": {"difference": 0.03 * sign, "interval": sorted([0.01 * sign, 0.05 * sign])},
        "b": {"difference": -0.01 * sign, "interval": sorted([-0.03 * sign, 0.01 * sign])},
    }
    return {
        "tasks": ["a", "b"],
        "baseline": baseline,
        "arms": {baseline: {"against": None}, other: {"against": {"per_task": per_task}}},
    }


@pytest.mark.parametrize("baseline", ["multi", "single"])
def test_sharing_is_multi_minus_single_whichever_is_the_baseline(baseline: str) -> None:
    found = single_differences(compared(baseline))
    assert found["a"][0] == pytest.approx(-0.03)
    assert found["a"][1] == pytest.approx((-0.05, -0.01))
    words = [what for what, _ in sharing(Study("s", [], compared(baseline)))]
    assert words == ["a loses by sharing", "b: no clear difference"]


def test_no_single_arm_says_nothing_about_sharing() -> None:
    comparison = compared("multi")
    comparison["arms"]["iat"] = comparison["arms"].pop("single")
    assert sharing(Study("s", [], comparison)) == []
    assert sharing(Study("s", [], None)) == []


@pytest.mark.parametrize(
    ("mean", "ends", "word"),
    [
        (0.2, (0.1, 0.3), "Strong"),
        (0.05, (0.01, 0.09), "Weak"),
        (0.05, (-0.01, 0.11), "No specialization"),
        (0.2, None, "No specialization"),
        (-0.05, (-0.09, -0.01), "Inverted"),
    ],
)
def test_specialization_in_words(
    tmp_path: Path, mean: float, ends: tuple[float, float] | None, word: str
) -> None:
    _, result = write_run(tmp_path / "run", ["a", "b"])
    assert result is not None
    changed = replace(result, mean=mean, intervals={**result.intervals, "mean": ends})
    assert separation(changed)[0][0].startswith(word)


def test_undefined_dissociation_says_why(tmp_path: Path) -> None:
    _, result = write_run(tmp_path / "run", ["a", "b"])
    assert result is not None
    found = separation(replace(result, mean=None, undefined={"a": "its base score is 0"}))
    assert found == [("Specialization could not be measured.", "its base score is 0")]


def test_every_next_step_has_its_measurement(tmp_path: Path) -> None:
    write_run(tmp_path / "run", ["a", "b"], curve=())
    run = read_record(tmp_path / "run")

    def steps() -> str:
        return " ".join(what for what, _ in next_steps(Study("s", [run])))

    assert "Train longer" in steps()  # the log's scores rise by 10 points an evaluation
    assert "Compare with single-task" in steps()
    assert "several shares" in steps()
    assert "max_length" not in steps()
    run.splits["validation"]["a"]["truncated"] = 0.5
    assert "Raise model.max_length for a." in steps()
    for entry in run.log:
        if "evaluation" in entry:
            entry["scores"]["a"]["accuracy"] = 1 - entry["step"] / 100
    assert "Give a more weight" in steps()
    assert run.dissociation is not None
    run.dissociation.mean, run.dissociation.overlap = 0.05, [[1.0, 0.8], [0.8, 1.0]]
    assert "[specialize]" in steps()
    run.settings["specialize"] = {"alpha": 0.3}
    assert "Try [specialize]" not in steps()
    run.dissociation = None
    assert "brodmann dissociate" in steps()


def test_pruning_is_proposed_only_where_heads_idle(tmp_path: Path) -> None:
    write_run(tmp_path / "run", ["a", "b"])
    run = read_record(tmp_path / "run")
    assert run.scores is not None

    def proposed() -> bool:
        return any("Prune" in what for what, _ in next_steps(Study("s", [run])))

    run.scores.values[:] = 1.0
    assert not proposed()
    run.scores.values[:, :2] = 1e-6
    assert proposed()
    run.scores.values[:, 0] = -0.1  # shares of a sum mean nothing then
    assert not proposed()


def test_cautions(tmp_path: Path) -> None:
    write_run(tmp_path / "run", ["a", "b"])
    run = read_record(tmp_path / "run")
    assert [what for what, _ in cautions(run)] == ["Generated text: a."]
    run.splits["validation"]["b"]["examples"] = 100
    assert run.dissociation is not None
    run.dissociation.undertrained = {"b": "near chance"}
    words = " ".join(what for what, _ in cautions(run))
    assert "b is judged on 100 examples." in words and "b has hardly been learnt" in words
