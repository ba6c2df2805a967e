"""The loop: it learns, stops, keeps the best, resumes to the bit, and says what went wrong."""

import contextlib
import json
import os
import signal
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.checkers import assert_other_bits, assert_same_bits, weights
from tests.conftest import every_kind

import brodmann as bm
from brodmann.training.checkpoints import checkpoint
from brodmann.training.optimizer import make_optimizer
from brodmann.training.settings import checked_options


def build(tasks: list[Any], **options: Any) -> Any:
    return bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks, **options)


def learnable(count: int = 60) -> list[Any]:
    rows = [
        {"text": ("good" if i % 2 else "bad") + f" thing {i % 5}", "label": i % 2}
        for i in range(count)
    ]
    return [bm.load_task("t", kind="classification", train=rows, validation=rows)]


@pytest.mark.long
def test_it_learns_every_kind_at_once(tasks_of_every_kind: list[Any]) -> None:
    model = build(tasks_of_every_kind)
    before = {
        k: v.scores for k, v in bm.evaluate(model, tasks_of_every_kind, split="train").items()
    }
    # Float32 everywhere: a processor with bf16 would take another course.
    progress = bm.fit(
        model,
        tasks_of_every_kind,
        epochs=24,
        learning_rate=4e-3,
        batch_size=8,
        keep="last",
        precision="float32",
        seed=2,
    )
    after = {k: v.scores for k, v in bm.evaluate(model, tasks_of_every_kind, split="train").items()}
    for task in tasks_of_every_kind:
        metric = task.spec.metric
        assert after[task.name][metric] > max(0.8, before[task.name][metric]), task.name
    assert sum(progress.examples.values()) == 24 * sum(
        t.sizes["train"] for t in tasks_of_every_kind
    )


def test_training_is_the_same_to_the_bit_for_the_same_seed(tasks_of_every_kind: list[Any]) -> None:
    runs = []
    for seed in (1, 1, 2):
        model = build(tasks_of_every_kind)
        bm.fit(model, tasks_of_every_kind, max_steps=5, batch_size=4, seed=seed, keep="last")
        runs.append(weights(model))
    assert_same_bits(runs[0], runs[1])
    assert_other_bits(runs[0], runs[2])


@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("stop_at", [3, 7])
def test_a_stopped_run_goes_on_with_the_same_bits(
    tasks_of_every_kind: list[Any], tmp_path: Path, stop_at: int, precision: str
) -> None:
    options: Any = {"max_steps": 10, "batch_size": 4, "learning_rate": 1e-3, "evaluate_every": 4}
    options |= {"sampling": "sqrt", "accumulation": 2, "precision": precision, "keep": "last"}
    straight = build(tasks_of_every_kind)
    whole = bm.fit(straight, tasks_of_every_kind, folder=tmp_path / "a", **options)

    def stop(event: str, facts: dict[str, Any]) -> None:
        if event == "step" and facts["step"] == stop_at:
            os.kill(os.getpid(), signal.SIGTERM)

    model = build(tasks_of_every_kind)
    with pytest.raises(bm.errors.Interrupted) as caught:
        bm.fit(model, tasks_of_every_kind, folder=tmp_path / "b", report=stop, **options)
    assert str(caught.value) == (
        f"stopped at step {stop_at} of 10: saved; run the same command again to resume"
    )
    assert caught.value.exit_code == 143
    again = build(tasks_of_every_kind)
    rest = bm.fit(again, tasks_of_every_kind, folder=tmp_path / "b", **options)
    assert_same_bits(straight, again)
    assert whole.evaluations == rest.evaluations
    log = (tmp_path / "b" / "log.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in log.splitlines()]
    assert [line["step"] for line in lines] == [0, 4, 8, 10, 10]
    assert [line["step"] for line in lines if "start" in line] == [0]  # not again when it goes on


def test_only_the_last_checkpoints_are_kept_without_pickle(
    tasks_of_every_kind: list[Any], tmp_path: Path
) -> None:
    bm.fit(
        build(tasks_of_every_kind), tasks_of_every_kind, folder=tmp_path, max_steps=6,
        batch_size=4, evaluate_every=6, checkpoint_every=1,
    )  # fmt: skip
    folders = [path.name for path in checkpoint.checkpoint_folders(tmp_path / "checkpoints")]
    assert folders == ["step-00000005", "step-00000006"]
    files = {path.name for path in (tmp_path / "checkpoints").rglob("*") if path.is_file()}
    assert files == {
        "model.safetensors", "optimizer.safetensors", "random-0.safetensors", "state.json",
        "best-00000006.safetensors", "checksums.json",
    }  # fmt: skip


def test_a_damaged_checkpoint_is_passed_over_and_named(
    tasks_of_every_kind: list[Any], tmp_path: Path
) -> None:
    options: Any = {"max_steps": 6, "batch_size": 4, "folder": tmp_path, "checkpoint_every": 2}
    straight = build(tasks_of_every_kind)
    bm.fit(straight, tasks_of_every_kind, keep="last", **options)
    newest = tmp_path / "checkpoints" / "step-00000006" / "optimizer.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1] + b"x")
    notes = []
    model = build(tasks_of_every_kind)
    bm.fit(
        model, tasks_of_every_kind, keep="last",
        report=lambda event, facts: notes.append(facts["text"]) if event == "note" else None,
        **options,
    )  # fmt: skip
    assert notes == [
        "checkpoint step-00000006 is damaged (optimizer.safetensors does not match its checksum): "
        "using the one before it"
    ]
    assert_same_bits(straight, model)


def test_a_checkpoint_of_another_run_is_refused(
    tasks_of_every_kind: list[Any], tmp_path: Path
) -> None:
    options: Any = {"max_steps": 2, "batch_size": 4, "folder": tmp_path}
    bm.fit(build(tasks_of_every_kind), tasks_of_every_kind, **options)
    with pytest.raises(
        bm.InputError, match=r"was written with other settings, data, start or number of"
    ):
        bm.fit(build(tasks_of_every_kind), tasks_of_every_kind, learning_rate=1e-4, **options)


def test_the_best_weights_are_kept_and_training_stops_early() -> None:
    tasks = learnable()
    model = build(tasks)
    seen = []
    progress = bm.fit(
        model, tasks, epochs=60, learning_rate=3e-3, schedule="constant", early_stopping=12,
        report=lambda event, facts: seen.append(facts) if event == "evaluated" else None,
    )  # fmt: skip
    assert progress.best_score == 1.0
    assert progress.without_gain == 12 and progress.step < 60 * 2
    assert len(seen) == len(progress.evaluations)
    assert bm.evaluate(model, tasks)["t"].scores["accuracy"] == 1.0


def test_a_loss_that_is_not_a_number_names_task_and_step_and_keeps_the_checkpoint(
    tasks_of_every_kind: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from brodmann.data.kinds import regression

    right = regression.loss
    steps = []

    def poison(*words: Any) -> torch.Tensor:
        return right(*words) * (float("nan") if len(steps) >= 5 else 1.0)

    monkeypatch.setattr(regression, "loss", poison)
    model = build(tasks_of_every_kind)
    with pytest.raises(bm.RunError) as caught:
        bm.fit(
            model, tasks_of_every_kind, folder=tmp_path, epochs=2, batch_size=4,
            checkpoint_every=2,
            report=lambda event, facts: steps.append(1) if event == "step" else None,
        )  # fmt: skip
    text = str(caught.value)
    assert text.startswith("the loss of task 'value' is not a finite number at step ")
    assert "is kept: try a lower learning_rate" in text
    kept = checkpoint.newest_checkpoint(tmp_path / "checkpoints", print)
    assert kept is not None and kept.name in text
    good = checkpoint.load_tensors(kept / "model.safetensors")
    assert all(tensor.isfinite().all() for tensor in good.values())


def test_accumulated_batches_equal_one_large_batch() -> None:
    """Of one task, at dropout 0: two batches of 8 make the step of one batch of 16."""
    tasks = learnable(16)
    results = []
    for batch_size, accumulation in ((16, 1), (8, 2)):
        model = build(tasks, dropout=0.0)
        bm.fit(
            model, tasks, max_steps=1, batch_size=batch_size, accumulation=accumulation,
            learning_rate=1e-3, bucketing=False, warmup=0.0, keep="last", precision="float32",
        )  # fmt: skip
        results.append(weights(model))
    torch.testing.assert_close(*results, atol=1e-5, rtol=1e-4)


def test_a_task_without_weight_in_the_loss_hardly_moves(tasks_of_every_kind: list[Any]) -> None:
    descriptions = every_kind()[:1]
    light = bm.load_tasks([{**descriptions[0], "weight": 1e-9}])
    heavy = bm.load_tasks(descriptions)
    moved = []
    for tasks in (light, heavy):
        model = build(tasks, dropout=0.0)
        before = weights(model)
        # SGD-like: with Adam only a gradient far below its epsilon shows.
        bm.fit(model, tasks, max_steps=1, learning_rate=1e-3, keep="last", clip=None)
        moved.append(max(float((v - before[n]).abs().max()) for n, v in weights(model).items()))
    assert moved[0] < 0.2 * moved[1]


def test_frozen_parts_do_not_move(tasks_of_every_kind: list[Any]) -> None:
    model = build(tasks_of_every_kind, freeze="encoder")
    before, heads = weights(model.encoder), weights(model.heads)
    bm.fit(model, tasks_of_every_kind, max_steps=20, weight_decay=0.1, learning_rate=1e-3)
    assert_same_bits(before, model.encoder)
    assert_other_bits(heads, model.heads)


def test_an_encoder_of_its_own_moves_only_with_its_task(tasks_of_every_kind: list[Any]) -> None:
    model = build(tasks_of_every_kind[:2], architecture="single")
    before = weights(model.encoder.backbones["task:pair"])
    bm.fit(model, tasks_of_every_kind[:1], max_steps=3, weight_decay=0.1, learning_rate=1e-3)
    assert_same_bits(before, model.encoder.backbones["task:pair"])


def test_wrong_options_are_named() -> None:
    for options, message in (
        ({"epoch": 2}, "fit: unknown key 'epoch'; did you mean 'epochs'?"),
        (
            {"precision": "fp16"},
            "fit: precision = 'fp16': input should be 'float32', 'bf16' or 'auto'",
        ),
        ({"sampling": "square"}, "unknown sampler 'square'; did you mean 'sqrt'?"),
        (
            {"epochs": 0},
            "fit: epochs = 0: input should be 'auto' or input should be greater than 0",
        ),
        ({"warmup": 2}, "fit: warmup = 2: input should be less than or equal to 1"),
    ):
        with pytest.raises(bm.InputError) as caught:
            checked_options(options)
        assert str(caught.value).startswith(message)


def test_a_full_disk_is_said_before_training(
    tasks_of_every_kind: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil
    from types import SimpleNamespace

    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    with pytest.raises(bm.InputError, match=r"the run needs about \d+ MB for checkpoints and the"):
        bm.fit(build(tasks_of_every_kind), tasks_of_every_kind, folder=tmp_path, max_steps=1)


def test_sgd_with_momentum_is_torchs_own_and_resumes_to_the_bit(
    tasks_of_every_kind: list[Any], tmp_path: Path
) -> None:
    tasks = tasks_of_every_kind[:2]
    options: dict[str, Any] = {"max_steps": 6, "batch_size": 8, "keep": "last", "momentum": 0.5}
    options |= {"optimizer": "sgd", "learning_rate": 0.05, "weight_decay": 0.01}
    straight = build(tasks)
    bm.fit(straight, tasks, folder=tmp_path / "a", **options)

    def stop(event: str, facts: dict[str, Any]) -> None:
        if event == "step" and facts["step"] == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(bm.errors.Interrupted):
        bm.fit(build(tasks), tasks, folder=tmp_path / "b", report=stop, **options)
    again = build(tasks)
    bm.fit(again, tasks, folder=tmp_path / "b", **options)
    assert_same_bits(straight, again)
    groups = [(0.05, list(straight.parameters()))]
    optimizer = make_optimizer(groups, 0.01, "sgd", 0.5)
    assert type(optimizer) is torch.optim.SGD
    assert [(g["momentum"], g["weight_decay"]) for g in optimizer.param_groups] == [
        (0.5, 0.01),
        (0.5, 0.0),
    ]
    assert make_optimizer(groups, 0.0, "sgd").param_groups[0]["momentum"] == 0.9
    assert type(make_optimizer(groups, 0.0)) is torch.optim.AdamW
    # Runs from before there was a choice are the same runs.
    assert not {"optimizer", "momentum"} & set(checked_options({}).plain())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"optimizer": "sdg"}, "fit: optimizer = 'sdg': input should be 'adamw' or 'sgd'"),
        ({"momentum": 0.9}, "momentum = 0.9: only for optimizer = 'sgd'"),
        (
            {"optimizer": "sgd", "momentum": 1.0, "learning_rate": 0.1},
            "fit: momentum = 1.0: input should be less than 1",
        ),
        (
            {"optimizer": "sgd"},
            "optimizer = 'sgd': expected a learning_rate; \"auto\" is for AdamW",
        ),
    ],
)
def test_a_wrong_optimizer_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(bm.InputError) as caught:
        checked_options(wrong)
    assert str(caught.value) == message


def test_fit_shows_its_progress_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    import pty
    import threading

    tasks = bm.load_tasks([{"use": "builtin/topic", "limit": {"train": 32, "validation": 8}}])
    leader, follower = pty.openpty()
    shown = b""

    def watch() -> None:
        nonlocal shown
        with contextlib.suppress(OSError):  # how a closed terminal ends
            while piece := os.read(leader, 4096):
                shown += piece

    watcher = threading.Thread(target=watch)
    watcher.start()
    with os.fdopen(follower, "w") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        monkeypatch.setattr(sys, "stderr", terminal)
        bm.fit(build(tasks), tasks, epochs=1, precision="float32")
        monkeypatch.undo()
    watcher.join(60)
    os.close(leader)
    assert b"trained on 32 examples in" in shown and b"step 1: mean" in shown


def test_fit_is_silent_in_a_pipe_and_where_somebody_else_reports(
    tasks_of_every_kind: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    events: list[str] = []
    few: dict[str, Any] = {"max_steps": 1, "batch_size": 4}
    for options in ({}, {"progress": False}, {"report": lambda event, facts: events.append(event)}):
        bm.fit(build(tasks_of_every_kind), tasks_of_every_kind, **few, **options)
        assert capsys.readouterr() == ("", "")
    assert events[-1] == "end"
    bm.fit(build(tasks_of_every_kind), tasks_of_every_kind, **few, progress=True)
    assert "trained on 4 examples in" in capsys.readouterr().out


def test_one_default_for_the_precision() -> None:
    from brodmann.pipeline.init import STARTER
    from brodmann.training.settings import Options, TrainingSettings

    written = tomllib.loads(STARTER)["training"]["precision"]
    assert written == TrainingSettings().precision == Options().precision == "auto"
