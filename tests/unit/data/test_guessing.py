"""The loss of guessing is that of the best constant answer, and training losses stand beside it."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import brodmann as bm
from brodmann.config import Config
from brodmann.data.guessing import guessing_loss
from brodmann.data.kinds import KINDS
from brodmann.pipeline.training_loss import training_losses


def constant_loss(task: Any, logits: torch.Tensor) -> float:
    """The mean loss of the same output for every training example."""
    examples = task.splits["train"]
    labels = {"label": torch.tensor(np.array([example["label"] for example in examples]))}
    if task.spec.kind == "multilabel":
        labels["label"] = labels["label"].float()
    rows = logits.expand(len(examples), -1)
    return float(KINDS[task.spec.kind].loss(rows, labels, task.spec).mean())


@pytest.mark.parametrize("weights", [None, (1.0, 5.0)])
def test_no_constant_answer_has_a_lower_loss(weights: tuple[float, float] | None) -> None:
    rows = [{"text": f"t {i}", "label": int(i % 4 == 0)} for i in range(40)]
    task = bm.load_task("t", kind="classification", train=rows, validation=rows)
    task = replace(task, spec=replace(task.spec, class_weights=weights))
    best = min(constant_loss(task, torch.tensor([0.0, x])) for x in np.linspace(-4, 4, 801))
    assert guessing_loss(task) == pytest.approx(best, abs=1e-4)
    if weights is None:
        assert guessing_loss(task) == pytest.approx(-0.25 * math.log(0.25) - 0.75 * math.log(0.75))


def test_every_kind_has_one_but_spans(tasks_of_every_kind: list[Any]) -> None:
    found = {task.spec.kind: guessing_loss(task) for task in tasks_of_every_kind}
    assert found["span"] is None and found["regression"] == 1.0
    choice = next(task for task in tasks_of_every_kind if task.spec.kind == "choice")
    sizes = [len(example["choices"]) for example in choice.splits["train"]]
    assert found["choice"] == pytest.approx(np.mean(np.log(sizes)))
    several = next(task for task in tasks_of_every_kind if task.spec.kind == "multilabel")
    shares = np.mean([example["label"] for example in several.splits["train"]], axis=0)
    constant = torch.tensor(np.log(shares / (1 - shares)))
    assert found["multilabel"] == pytest.approx(constant_loss(several, constant), abs=1e-5)
    assert found["tokens"] is not None and 0 < found["tokens"] < math.log(5)


def test_the_last_tenth_of_the_steps_counts(tmp_path: Path) -> None:
    rows = [{"text": f"t {i}", "label": i % 2} for i in range(8)]
    task = bm.load_task("t", kind="classification", train=rows, validation=rows)
    task = replace(task, spec=replace(task.spec, weight=2.0))
    lines = [{"step": step, "loss": {"t": 2 * loss}} for step, loss in
             ((10, 0.9), (50, 0.8), (95, 0.5), (100, 0.3))]  # fmt: skip
    log = "".join(json.dumps(line) + "\n" for line in [{"start": True, "step": 0}, *lines])
    (tmp_path / "log.jsonl").write_text(log, "utf-8")
    config = Config(name="x", tasks=["t"])
    found = training_losses(tmp_path, config, [task])
    assert found == {"t": (pytest.approx(0.4), pytest.approx(math.log(2)))}
    hardest = {"sampling": "uncertainty"}  # trains on the hardest examples
    config = Config.model_validate({"name": "x", "tasks": ["t"], "training": hardest})
    assert training_losses(tmp_path, config, [task]) == {}
    assert training_losses(tmp_path / "nothing", Config(name="x", tasks=["t"]), [task]) == {}
