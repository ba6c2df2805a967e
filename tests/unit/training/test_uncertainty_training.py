"""Training on what the model is least sure about: mixed batches, the log, resuming, refusals."""

import json
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from tests.checkers import assert_same_bits

import brodmann as bm
from brodmann.errors import Interrupted
from brodmann.models.encoders import ARCHITECTURES

OPTIONS: dict[str, Any] = {
    "epochs": 1, "max_steps": 8, "batch_size": 10, "sampling": "uncertainty", "learning_rate": 1e-3,
}  # fmt: skip


def build(tasks: list[Any], architecture: str = "shared") -> Any:
    parameters = {"size": 8} if architecture in ("pals", "adapters") else {}
    return bm.MultiTaskModel.from_pretrained(
        "builtin:tiny", tasks, architecture=architecture, parameters=parameters, max_length=32
    )


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_kind_trains_and_the_log_tells_what_was_taken(
    tasks_of_every_kind: list[Any], tmp_path: Path, architecture: str
) -> None:
    model = build(tasks_of_every_kind, architecture)
    progress = bm.fit(model, tasks_of_every_kind, folder=tmp_path, **OPTIONS)
    assert sum(progress.examples.values()) == 8 * 10
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    entry = next(line for line in lines if "entropy" in line)
    names = [task.name for task in tasks_of_every_kind]
    assert entry["examples"] == {n: count for n, count in progress.examples.items() if count}
    assert set(entry["entropy"]) == {n for n in names if n != "value"}  # regression has none
    assert all(0 <= share <= 1.0001 for share in entry["entropy"].values())
    assert set(entry["used"]) == set(names) and 0 < entry["used"]["value"] <= 1
    quota = max(1, 10 // len(names))
    assert progress.examples["value"] == 8 * quota


def test_a_stopped_run_goes_on_with_the_same_bits(
    tasks_of_every_kind: list[Any], tmp_path: Path
) -> None:
    straight = build(tasks_of_every_kind)
    bm.fit(straight, tasks_of_every_kind, folder=tmp_path / "a", **OPTIONS)
    stopped = build(tasks_of_every_kind)

    def stop(event: str, facts: dict[str, Any]) -> None:
        import os
        import signal

        if event == "step" and facts["step"] == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Interrupted):
        bm.fit(stopped, tasks_of_every_kind, folder=tmp_path / "b", report=stop, **OPTIONS)
    again = build(tasks_of_every_kind)
    bm.fit(again, tasks_of_every_kind, folder=tmp_path / "b", **OPTIONS)
    assert_same_bits(straight, again)


def test_heads_specialize_over_mixed_batches(
    tasks_of_every_kind: list[Any], tmp_path: Path
) -> None:
    """A mixed batch is split by task then: heads that nobody chose do not move."""
    model = build(tasks_of_every_kind[:3])
    special = bm.IAT(alpha=0.1, delta=0.5, examples=8)  # one head of twelve a task
    bm.fit(
        model, tasks_of_every_kind[:3], folder=tmp_path, specialize=special, weight_decay=0.1,
        checkpoint_every=4, checkpoints=9, **{**OPTIONS, "epochs": 2},
    )  # fmt: skip
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    chosen = next(line for line in lines if "heads" in line)
    assert chosen["step"] == 4
    anyone = {tuple(head) for heads in chosen["heads"].values() for head in heads}
    weights = [
        load_file(tmp_path / "checkpoints" / f"step-{step:08d}" / "model.safetensors")
        for step in (4, 8)
    ]
    moved = set()
    for layer in range(3):
        name = f"encoder.backbone.encoder.layer.{layer}.attention.self.query.weight"
        for head in range(4):
            rows = slice(16 * head, 16 * head + 16)
            if not weights[0][name][rows].equal(weights[1][name][rows]):
                moved.add((layer, head))
    assert moved and moved <= anyone


def test_other_samplers_log_entropy_when_asked_and_train_the_same(
    tasks_of_every_kind: list[Any], tmp_path: Path
) -> None:
    options = {**OPTIONS, "sampling": "uniform", "max_steps": 10}
    plain, watched = build(tasks_of_every_kind), build(tasks_of_every_kind)
    bm.fit(plain, tasks_of_every_kind, folder=tmp_path / "plain", **options)
    bm.fit(watched, tasks_of_every_kind, folder=tmp_path / "watched", log_entropy=True, **options)
    assert_same_bits(plain, watched)
    entries = {}
    for name in ("plain", "watched"):
        lines = (tmp_path / name / "log.jsonl").read_text().splitlines()
        entries[name] = next(e for e in map(json.loads, lines) if "used_of_all" in e)
    assert "entropy" not in entries["plain"]
    names = {task.name for task in tasks_of_every_kind}
    assert set(entries["watched"]["entropy"]) == names - {"value"}  # regression has none
    assert all(0 <= share <= 1.0001 for share in entries["watched"]["entropy"].values())
    used = entries["plain"]["used"]
    sizes = {task.name: task.sizes["train"] for task in tasks_of_every_kind}
    taken = entries["plain"]["examples"]
    expected = {name: min(1, taken.get(name, 0) / size) for name, size in sizes.items()}
    assert used == pytest.approx(expected)
    with pytest.raises(bm.InputError) as caught:
        bm.fit(plain, tasks_of_every_kind, log_entropy=True, sharding="full")
    assert str(caught.value) == "log_entropy: cannot be combined with sharding"
