"""The answer comes from stored numbers by stated rules."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.run_folders import write_run

from brodmann.reporting.findings import (
    arms_against_baseline,
    cautions,
    next_steps,
    sharing,
    unlearnt_tasks,
)
from brodmann.reporting.gains import single_differences
from brodmann.reporting.record import Study, read_record
from brodmann.reporting.sections.answer import score_table, section
from brodmann.reporting.separation import separation


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
    ("mean", "ends", "p", "words"),
    [
        (0.2, (0.1, 0.3), 0.01, "Strong specialization: on average, tasks depend on heads of"),
        (0.2, (0.1, 0.3), None, "Strong specialization: on average, tasks depend on heads of"),
        (0.2, (0.1, 0.3), 0.1, "Not clear: assigning the same heads to tasks at random"),
        (0.05, (0.01, 0.09), 0.01, "Weak specialization: on average, tasks depend a little"),
        (0.2, (0.05, 0.3), 0.01, "Tasks depend on heads of their own; how strongly is not clear"),
        (0.069, (-0.095, 0.226), 0.01, "Not clear at this size: the interval of D includes zero."),
        (0.2, None, 0.01, "D = 20.0 %; its uncertainty was not measured."),
        (-0.05, (-0.09, -0.01), 0.9, "Inverted: tasks suffer more from losing each other's heads"),
    ],
)
def test_specialization_in_words(
    tmp_path: Path, mean: float, ends: tuple[float, float] | None, p: float | None, words: str
) -> None:
    _, result = write_run(tmp_path / "run", ["a", "b"])
    assert result is not None
    null = None if p is None else {"p": p}
    changed = replace(result, mean=mean, intervals={**result.intervals, "mean": ends}, null=null)
    assert separation(changed)[0][0].startswith(words)


def test_undefined_dissociation_says_why(tmp_path: Path) -> None:
    _, result = write_run(tmp_path / "run", ["a", "b"])
    assert result is not None
    found = separation(replace(result, mean=None, undefined={"a": "its base score is 0"}))
    headline = "Specialization could not be measured: D is undefined."
    assert found[0] == (headline, "a: its base score is 0")
    assert found[1][0].endswith("undefined: a.")


def test_tasks_that_were_not_learnt_do_not_make_the_headline(tmp_path: Path) -> None:
    _, result = write_run(tmp_path / "run", ["a", "b", "c"])
    assert result is not None
    result.intervals["mean"] = [0.2, 0.4]
    result.undertrained = {"c": "near chance"}
    (headline, _), (tasks, _), (pairs, others) = separation(result, {"a": "its loss is high"})
    assert headline == "Not conclusive: a, c are hardly trained, so D says little."
    assert "hardly trained: a, c" in tasks and "eparated: a" not in tasks
    assert pairs.startswith("0 of 3 pairs of tasks show a double dissociation")
    assert "distinct: the interval of D is above 10 %" in others


def test_each_task_is_named_by_its_own_interval_and_test(tmp_path: Path) -> None:
    _, result = write_run(tmp_path / "run", ["a", "b", "c"])
    assert result is not None
    result.intervals["per_task"] = [[0.1, 0.2], [-0.1, 0.1], [-0.2, -0.1]]
    result.p_values = [None, None, None]
    assert separation(result)[1] == (
        "Not clear: b; not tested against random heads: a; inverted: c.",
        "by each task's own interval",
    )
    result.random, result.p_values = [[0.5] * 20] * 3, [0.048, 0.048, 0.048]
    assert separation(result)[1] == (
        "Separated: a; not clear: b; inverted: c.",
        "by each task's own interval, and p ≤ 0.05 against 20 random choices of heads",
    )
    result.p_values = [0.143, 0.048, 0.048]  # random heads hurt as much
    assert separation(result)[1][0] == "Not clear: a, b; inverted: c."


def test_pairs_are_counted_by_their_intervals(tmp_path: Path) -> None:
    _, result = write_run(tmp_path / "run", ["a", "b", "c"])
    assert result is not None
    high, wide = [0.11, 0.3], [-0.1, 0.5]
    result.pairwise = [[None, 0.2, 0.2], [0.2, None, 0.2], [0.2, 0.2, None]]
    result.intervals["pairwise"] = [[None, high, wide], [high, None, wide], [wide, wide, None]]
    result.intervals["pairs"] = [[None, high, high], [high, None, high], [high, high, None]]
    assert separation(result)[2] == (
        "1 of 3 pairs of tasks shows a double dissociation, a distinct one.",
        "both tasks' intervals are above zero; distinct: the interval of D is above 10 %. The "
        "others: 2 not clear at this size",
    )


def test_a_loss_near_that_of_guessing_is_hardly_trained(tmp_path: Path) -> None:
    """A score alone may look learnt: 72.5 % of two classes at a loss of 0.686."""
    write_run(tmp_path / "run", ["a", "b"])
    run = read_record(tmp_path / "run")
    reason = "training loss 0.686 is near the 0.693 of guessing"
    run.splits["validation"]["a"] |= {
        "score": 0.725,
        "training_loss": 0.686,
        "guessing_loss": 0.693,
        "undertrained": reason,
    }
    assert run.dissociation is not None
    run.dissociation.intervals["mean"] = [0.2, 0.4]
    assert unlearnt_tasks(run)["a"] == reason
    page = section(Study("s", [run]))
    assert page is not None
    lead = [block.text for block in page.blocks if getattr(block, "tone", "") == "lead"]
    assert lead == ["Not conclusive: a is hardly trained, so D says little."]
    assert ("a is hardly trained: what is measured on it means little.", reason) in cautions(run)
    steps = dict(next_steps(Study("s", [run])))
    words = "Train longer (training.epochs), raise training.learning_rate, or check the labels: "
    assert steps[f"{words}a is hardly trained."] == f"a: {reason}"
    assert not any(word in what for what in steps for word in ("Prune", "specialize", "shares"))


def test_a_clear_score_is_not_called_hardly_trained_whatever_its_loss(tmp_path: Path) -> None:
    write_run(tmp_path / "run", ["a", "b"])
    path = tmp_path / "run" / "metrics.json"
    document = json.loads(path.read_text("utf-8"))
    reason = "training loss 0.686 is near the 0.693 of guessing"
    entry = {"score": 0.728, "interval": [0.687, 0.765], "undertrained": reason}
    document["splits"]["validation"]["a"] |= entry
    path.write_text(json.dumps(document), "utf-8")
    path = tmp_path / "run" / "dissociation.json"
    document = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps({**document, "undertrained": {"a": reason}}), "utf-8")
    assert "a" not in unlearnt_tasks(read_record(tmp_path / "run"))


def test_what_is_learnt_by_heart_needs_data_and_no_training(tmp_path: Path) -> None:
    write_run(tmp_path / "run", ["a", "b"])
    run = read_record(tmp_path / "run")
    run.splits["validation"]["a"] |= {
        "score": 0.52,
        "training_loss": 0.05,
        "guessing_loss": 0.693,
        "undertrained": "base score 52.0 % is near the 50.0 %",
    }
    steps = dict(next_steps(Study("s", [run])))
    words = "Give a more training examples: it learns those it has by heart."
    reason = "training loss 0.050, guessing 0.693; base score 52.0 % is near the 50.0 %"
    assert steps[words] == reason
    assert not any(what.startswith("Train longer") and "a" in what.split() for what in steps)


def test_pruning_is_not_proposed_where_it_cost_score(tmp_path: Path) -> None:
    write_run(tmp_path / "run", ["a", "b"])
    run = read_record(tmp_path / "run")
    assert run.scores is not None
    run.scores.values[:] = 1.0
    run.scores.values[:, :2] = 1e-6
    whole = {"difference": -0.1, "interval": [-0.15, -0.05], "significant": True}
    arms = {
        "multi": {"against": None, "seeds": [0], "dissociation": None},
        "off_least": {"against": {"average": whole}, "seeds": [0], "dissociation": None},
    }
    study = Study("s", [run], {"tasks": ["a"], "baseline": "multi", "arms": arms})
    assert not any("Prune" in what for what, _ in next_steps(study))
    whole["significant"] = False
    assert any("Prune" in what for what, _ in next_steps(study))


def test_arms_in_one_line_each_say_what_is_not_clear() -> None:
    entry = {"difference": 0.009, "interval": [-0.0076, 0.0256], "p": 0.15, "significant": False}
    apart = {"difference": 0.02, "interval": [0.01, 0.03], "p": 0.01, "significant": True}
    arms = {
        "multi": {"against": None, "dissociation": [0.05, 0.01]},
        "iat": {
            "against": {"average": entry, "dissociation": apart},
            "dissociation": [0.07, 0.02],
        },
    }
    study = Study("s", [], {"tasks": ["a"], "baseline": "multi", "arms": arms})
    assert arms_against_baseline(study) == [
        (
            "iat against multi: +0.9 points on average, not clear",
            "[−0.8, 2.6]; D 5.0 ± 1.0 → 7.0 ± 2.0 % (+2.0 [1.0, 3.0] by seed)",
        )
    ]


def test_errors_are_not_scores(tmp_path: Path) -> None:
    write_run(tmp_path / "run", ["a", "b"])
    run = read_record(tmp_path / "run")
    entry = run.splits["validation"]["a"]
    entry |= {"metric": "mean_squared_error", "score": 0.83, "trivial": 2.25}
    for line in run.log:
        if "evaluation" in line:
            line["scores"]["a"] = {"mean_squared_error": 1 / line["step"]}
    assert "Give a" not in " ".join(what for what, _ in next_steps(Study("s", [run])))
    table = score_table(run.splits)
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
    reasons = dict(next_steps(Study("s", [run])))
    advice = "Give a more weight (training.sampling, or a task's weight)."
    assert reasons[advice] == "a ended more than 2 points below its best evaluation"
    both = run.provenance["data"]
    run.provenance["data"] = {"a": both["a"]}
    assert "Train fewer epochs or at a lower rate" in steps() and "more weight" not in steps()
    run.provenance["data"] = both
    assert run.dissociation is not None
    run.dissociation.overlap = [[1.0, 0.8], [0.8, 1.0]]
    run.dissociation.intervals["mean"] = [0.01, 0.12]  # may be strong already
    assert "[specialize]" not in steps()
    run.dissociation.intervals["mean"] = [0.01, 0.09]
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
    assert "Few validation examples: b." in words and "b is hardly trained" in words


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
    words = "Train longer (training.epochs), raise training.learning_rate, or check the labels: "
    advice = f"{words}names is hardly trained."
    assert (advice, "names: 0.0 %, and 0.0 % without reading") in steps
    assert sum("names" in what for what, _ in steps) == 1  # once, not in two ways
    record.splits["validation"]["names"]["score"] = 0.9
    assert not any(what.startswith(words) for what, _ in next_steps(Study("s", [record])))


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        ((0.7, 0.8), "2 runs; the highest average score is 80.0 % (b)."),
        ((0.8, 0.8), "2 runs."),  # a tie has no winner
        ((0.4, 0.5), "2 runs."),  # both at chance
    ],
)
def test_a_grid_names_a_highest_score_only_if_there_is_one(
    scores: tuple[float, float], words: str
) -> None:
    from brodmann.reporting.sections.sweep import section as sweep

    cells = [
        {
            "state": "done",
            "label": label,
            "varied": {"tasks": ["t"], "seed": 0, "training.epochs": place + 1},
            "splits": {"validation": {"t": {"metric": "accuracy", "score": s, "trivial": 0.5}}},
        }
        for place, (label, s) in enumerate(zip("ab", scores, strict=True))
    ]
    found = sweep(Study("s", [], grid={"cells": cells, "over_seeds": {}}))
    assert found is not None
    lead, curve, *_ = found.blocks
    assert lead.text == words  # type: ignore[union-attr]
    assert curve.caption == "Average score over training.epochs."  # type: ignore[union-attr]


def test_no_difference_is_not_called_an_indication() -> None:
    comparison = compared("multi")
    comparison["arms"]["single"]["against"]["per_task"]["a"] = {
        "difference": 0.0,
        "interval": [0.0, 0.0],
    }
    told = dict(sharing(Study("s", [], comparison)))
    assert told["a: no clear difference"] == (
        "no difference measured over 1 seed; more seeds may show one"
    )
