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
)
from brodmann.reporting.gains import single_differences
from brodmann.reporting.record import Study, read_record
from brodmann.reporting.sections.answer import score_table


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
        "metrics": ["accuracy", "accuracy"],
        "baseline": baseline,
        "arms": {
            baseline: {"against": None, "seeds": [0]},
            other: {"against": {"per_task": per_task}, "seeds": [0]},
        },
    }


@pytest.mark.parametrize("baseline", ["multi", "single"])
def test_sharing_is_multi_minus_single_whichever_is_the_baseline(baseline: str) -> None:
    found = single_differences(Study("s", [], compared(baseline)))
    assert found["a"][0] == pytest.approx(-0.03)
    assert found["a"][1] == pytest.approx((-0.05, -0.01))
    told = sharing(Study("s", [], compared(baseline)))
    assert [what for what, _ in told] == ["a loses by sharing", "b: no clear difference"]
    assert "1 seed: an indication" in told[0][1]


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
        (0.2, None, "D = 20.0 %; how certain"),
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


def test_tasks_that_were_not_learnt_do_not_make_the_headline(tmp_path: Path) -> None:
    _, result = write_run(tmp_path / "run", ["a", "b", "c"])
    assert result is not None
    result.per_task, result.mean = [0.02, 0.04, -0.6], -0.18
    result.undertrained = {"c": "near chance"}
    words = separation(result)[0][0]
    assert words.startswith("Not conclusive") and "(c); the others' mean is 3.0 %" in words


def test_each_task_is_named_by_its_own_interval(tmp_path: Path) -> None:
    _, result = write_run(tmp_path / "run", ["a", "b", "c"])
    assert result is not None
    result.intervals["per_task"] = [[0.1, 0.2], [-0.1, 0.1], [-0.2, -0.1]]
    found = dict(separation(result))
    assert "Separated: a; not shown: b; inverted: c." in found
    assert not any("random" in words for words in found)  # two draws prove nothing
    result.random = [[0.5] * 20] * 3
    assert "3 of 3 tasks suffer more from losing their own heads than random ones." in dict(
        separation(result)
    )


def test_errors_are_not_scores(tmp_path: Path) -> None:
    write_run(tmp_path / "run", ["a", "b"])
    run = read_record(tmp_path / "run")
    entry = run.splits["validation"]["a"]
    entry |= {"metric": "mean_squared_error", "score": 0.83, "trivial": 2.25}
    for line in run.log:
        if "evaluation" in line:
            line["scores"]["a"] = {"mean_squared_error": 1 / line["step"]}
    assert "Give a" not in " ".join(what for what, _ in next_steps(Study("s", [run])))
    table = score_table(Study("s", [run]), run)
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert row["score (%)"] == "0.83" and row["gain (points)"] == "–"
    assert row["metric"] == "mean_squared_error (lower is better)"


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
    run.splits = {}
    assert steps() == ""


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
    assert "Few validation examples: b." in words and "b has hardly been learnt" in words


@pytest.mark.parametrize(
    ("after", "ends", "words"),
    [
        (0.3, (-0.36, -0.25), "a (accuracy 60.0 → 30.0 %, −30.0 points [−36.0, −25.0])"),
        (0.3, (-0.61, 0.01), None),  # may be chance
        (0.59, (-0.011, -0.009), None),  # certain, and too little to matter
    ],
)
def test_training_longer_is_no_cure_for_old_tasks_that_lose(
    tmp_path: Path, after: float, ends: tuple[float, float], words: str | None
) -> None:
    write_run(tmp_path / "run", ["new"])
    record = read_record(tmp_path / "run")
    record.measures["adaptation"] = {
        "architecture": "ca_mtl",
        "old": {
            "metrics": {"a": "accuracy"},
            "before": {"a": 0.6},
            "after": {"a": after},
            "interval": {"a": list(ends)},
        },
    }
    steps = [what for what, _ in next_steps(Study("s", [record]))]
    told = [what for what, _ in cautions(record)]
    advice = "Set frozen = true in [adapt]: then only what belongs to the new tasks is trained."
    longer = "Train longer (training.epochs): new still improved at the end."
    if words is None:
        assert advice not in steps and longer in steps
        assert not any(what.startswith("Learning the new") for what in told)
    else:
        assert steps[0] == advice and longer not in steps
        assert f"Learning the new tasks cost old ones: {words}." in told


def test_a_task_that_learnt_nothing_gets_advice(tmp_path: Path) -> None:
    write_run(tmp_path / "run", ["names", "mood"])
    record = read_record(tmp_path / "run")
    record.splits["validation"]["names"] |= {"score": 0.0, "trivial": 0.0, "metric": "entity_f1"}
    for entry in record.log:  # no longer rising
        if "scores" in entry:
            entry["scores"]["names"] = {"entity_f1": 0.0}
    steps = next_steps(Study("s", [record]))
    assert (
        "Train names longer, or with a higher rate (training.epochs, training.learning_rate), on "
        "more examples, or check the labels.",
        "hardly better than an answer without reading, and no longer rising",
    ) in steps
    record.splits["validation"]["names"]["score"] = 0.9
    assert not any(
        what.startswith("Train names longer,") for what, _ in next_steps(Study("s", [record]))
    )
