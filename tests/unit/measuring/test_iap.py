"""A whole dissociation: what is removed, scored, redrawn and exchanged, and in how many passes."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import brodmann as bm
from brodmann.analysis import dissociation_scores
from brodmann.analysis.dissociation import heads_per_layer
from brodmann.measuring.iap import forward_passes, random_heads


def test_random_heads_follow_the_global_rule() -> None:
    scores = bm.HeadScores(("a",), np.random.rand(1, 4, 5), {}, ((0, 0),))
    draws = random_heads(scores, 0.3, 50, seed=1)
    assert {len(set(draw)) for draw in draws} == {5}
    assert all((0, 0) not in draw for draw in draws) and len(set(map(tuple, draws))) > 40
    per_layer = np.array(heads_per_layer(draws, 4))
    assert per_layer.min() == 0  # no layer is spared or favoured
    assert draws == random_heads(scores, 0.3, 50, seed=1)


def test_a_whole_dissociation(tasks_of_every_kind: list[Any], tmp_path: Any) -> None:
    tasks = [tasks_of_every_kind[0], tasks_of_every_kind[3], tasks_of_every_kind[6]]
    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks)
    bm.fit(model, tasks, epochs=2, learning_rate=1e-3, batch_size=8)
    scores = bm.head_importance(model, tasks)
    read: list[int] = []
    result = bm.dissociation(
        model, tasks, scores, alpha=0.25, curve=[0.5], draws=20, resamples=50,
        progress=read.append, outcomes_file=tmp_path / "outcomes.npz",
    )  # fmt: skip
    passes = forward_passes(3, shares=2, draws=20, redraws=None, exchanges=None)
    assert sum(read) <= passes * 24
    assert result.settings["redraws"] == 5 and result.settings["exchanges"] == 3
    if result.mean is not None:
        assert result.null is not None and 0 < result.null["p"] <= 1
    plain = bm.evaluate(model, tasks)
    assert result.base == pytest.approx([plain[t.name].scores[t.spec.metric] for t in tasks])
    with bm.head_gates(model, off=scores.top(0.25, tasks[1].name)):
        gated = bm.evaluate(model, tasks)
    assert [row[1] for row in result.performance] == pytest.approx(
        [gated[t.name].scores[t.spec.metric] for t in tasks]
    )
    assert [point["alpha"] for point in result.curve] == [0.25, 0.5]
    assert [sum(layers) for layers in result.heads_per_layer] == [3, 3, 3]
    assert result.layer_spread == pytest.approx(np.std(result.heads_per_layer, axis=0))
    assert result.curve[0]["performance"] == result.performance
    expected = dissociation_scores(result.performance, result.base)
    assert result.per_task == expected.per_task
    for name, reason in result.undefined.items():
        assert "base score" in reason and result.per_task[result.tasks.index(name)] is None
    with np.load(tmp_path / "outcomes.npz", allow_pickle=False) as file:
        assert set(file.files) >= {"single|base", "tag|0.5/value", "value|random/19"}
    result.save(tmp_path / "dissociation.json")
    assert bm.Dissociation.load(tmp_path / "dissociation.json") == result
    frame = result.to_frame()
    assert list(frame.columns)[-3:] == ["base", "random", "D"]
    with pytest.raises(bm.InputError, match=r"alpha = 0\.01 of 12 heads is less than one head"):
        bm.dissociation(model, tasks, scores, alpha=0.01)


def test_errors_are_no_metric_to_dissociate(tasks_of_every_kind: list[Any]) -> None:
    tasks = [tasks_of_every_kind[0], tasks_of_every_kind[3]]
    tasks[1] = replace(tasks[1], spec=replace(tasks[1].spec, metric="mean_squared_error"))
    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks)
    scores = bm.head_importance(model, tasks, examples=4)
    result = bm.dissociation(model, tasks, scores, draws=0, resamples=0)
    assert result.undefined["value"] == "lower is better for its metric mean_squared_error"
    assert result.per_task[1] is None and result.verdicts[0][1] == "undefined"
    assert result.mean is None and result.intervals["mean"] is None and result.null is None
    assert result.curve[0]["mean"] is None


def test_sums_over_parts_make_up_the_scores(tasks_of_every_kind: list[Any], tmp_path: Any) -> None:
    tasks = [tasks_of_every_kind[0], tasks_of_every_kind[6]]
    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks)
    for options in ({}, {"granularity": "token"}, {"estimator": "leave_one_out"}):
        options = {**options, "examples": 12}
        scores = bm.head_importance(model, tasks, batch_size=5, **options)
        assert scores.part_sums is not None and scores.part_counts is not None
        assert scores.part_sums.shape == (2, 10, 3, 4)
        mean = scores.part_sums.sum(axis=1) / scores.part_counts.sum(axis=1)[:, None, None]
        assert scores.values == pytest.approx(mean)
        other = bm.head_importance(model, tasks, batch_size=16, **options)
        assert other.part_sums == pytest.approx(scores.part_sums, rel=1e-3, abs=1e-5)
    scores.save(tmp_path / "importance.json")
    again = bm.HeadScores.load(tmp_path / "importance.json")
    assert np.array_equal(again.part_sums, scores.part_sums)
    assert np.array_equal(again.part_counts, scores.part_counts)
    places = bm.head_importance(model, tasks, examples=4, estimator="iterative", step=0.5)
    assert places.part_sums is None


def test_redraws_widen_the_intervals_of_a_whole_dissociation(tasks_of_every_kind: Any) -> None:
    tasks = [tasks_of_every_kind[0], tasks_of_every_kind[1]]
    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks)
    bm.fit(model, tasks, epochs=2, learning_rate=1e-3, batch_size=8)
    scores = bm.head_importance(model, tasks)
    read: list[int] = []
    result = bm.dissociation(
        model, tasks, scores, alpha=0.25, draws=0, resamples=200, redraws=4, exchanges=9,
        progress=read.append,
    )  # fmt: skip
    most = forward_passes(2, shares=1, draws=0, redraws=4, exchanges=9)
    assert most == 1 + 2 * (1 + 4 + 9) and sum(read) <= most * 16
    assert result.redrawn is not None and len(result.redrawn["mean"]) == 4
    assert result.intervals["over"] == ["validation examples", "importance examples"]
    for wide, narrow in (
        (result.intervals["mean"], result.intervals["examples_only"]["mean"]),
        *zip(
            result.intervals["per_task"],
            result.intervals["examples_only"]["per_task"],
            strict=True,
        ),
    ):
        assert wide[1] - wide[0] >= narrow[1] - narrow[0] > 0
    assert result.null is not None and result.null["values"] == 20
    assert 1 / 20 <= result.null["p"] <= 1
    plain = bm.dissociation(model, tasks, scores, alpha=0.25, draws=0, resamples=200)
    assert plain.redrawn is None and plain.null is None  # without draws there are no tests
    assert plain.intervals["mean"] == result.intervals["examples_only"]["mean"]
    assert plain.intervals["over"] == ["validation examples"]
    for options, message in (
        ({"redraws": 1}, "redraws = 1: one redraw has no spread: expected 0, or 2 or more"),
        ({"exchanges": -1}, "exchanges = -1: input should be greater than or equal to 0"),
    ):
        with pytest.raises(bm.InputError) as raised:
            bm.dissociation(model, tasks, scores, alpha=0.25, **options)
        assert str(raised.value) == f"dissociation: {message}"


def test_what_is_measured_unless_something_else_is_asked_for() -> None:
    def passes(tasks: int, draws: int, **more: Any) -> int:
        return forward_passes(
            tasks, shares=1, draws=draws, redraws=more.get("redraws"), exchanges=None, **(
                {"sums": more["sums"]} if "sums" in more else {}
            )
        )  # fmt: skip

    assert passes(2, 0) == 1 + 2  # no draws, no tests
    assert passes(2, 20) == 1 + 20 + 2 * (1 + 5 + 9)
    assert passes(3, 20) == 1 + 20 + 3 * (1 + 5 + 3)
    assert passes(5, 20) == 1 + 20 + 5 * (1 + 5)  # 120 orders of the tasks need no pass
    assert passes(5, 20, sums=False) == 1 + 20 + 5  # iterative places have nothing to redraw
    assert passes(5, 20, redraws=2) == 1 + 20 + 5 * (1 + 2)
