"""`brodmann distill`: a run folder like any other, with the student beside its teacher."""

import json
from collections.abc import Callable
from pathlib import Path

Command = Callable[..., tuple[int, str, str]]
TASKS = """
name = "{name}"
output = "{folder}/runs"
tasks = [
  {{ use = "builtin/sentiment", limit = {{ train = 48, validation = 24, test = 8 }} }},
  {{ use = "builtin/entities", limit = {{ train = 48, validation = 24, test = 8 }} }},
]
[model]
backbone = "builtin:tiny"
[training]
epochs = 1
learning_rate = 1e-3
evaluate_every = 2
"""
DISTILL = """
[distill]
teacher = "{folder}/runs/large"
student = {{ num_hidden_layers = 1, hidden_size = 32, intermediate_size = 48 }}
layer_epochs = 1
prediction_epochs = 1
"""


def test_a_student_is_a_run_of_its_own(tmp_path: Path, command: Command) -> None:
    large, small = tmp_path / "large.toml", tmp_path / "small.toml"
    large.write_text(TASKS.format(name="large", folder=tmp_path), encoding="utf-8")
    text = (TASKS + DISTILL).format(name="small", folder=tmp_path)
    small.write_text(text, encoding="utf-8")
    code, _, err = command("distill", small)
    assert code == 2 and "no trained model there: run `brodmann train` first" in err
    assert command("train", large)[0] == 0
    code, out, err = command("distill", small)
    assert (code, err) == (0, "")
    assert "M parameters" in out and "times as fast" in out.replace("\n", " ")
    folder = tmp_path / "runs" / "small"
    result = json.loads((folder / "distillation.json").read_text("utf-8"))
    assert result["parameters"][1] < result["parameters"][0]
    assert set(result["scores"]) == {"sentiment", "entities"}
    metrics = json.loads((folder / "metrics.json").read_text("utf-8"))
    assert (
        metrics["splits"]["validation"]["sentiment"]["score"]
        == (result["scores"]["sentiment"]["after"])
    )
    before = (folder / "model" / "model.safetensors").stat().st_mtime_ns
    assert command("distill", small, "--json")[0] == 0
    assert (folder / "model" / "model.safetensors").stat().st_mtime_ns == before
    assert command("map", folder, "--set", "map.examples=8")[0] == 0  # the other stages work too

    code, _, err = command("run", small)
    assert code == 2 and "[distill]: this configuration is for `brodmann distill`" in err
    log = (folder / "layers" / "checkpoints").glob("best-*")
    assert list(log)  # evaluated on the way, but the last step is what goes on
    for setting, message in (
        ("model.max_length=64", "model.max_length: a student takes its model from its teacher"),
        ("distill.student={num_hidden_layers=9}", "9 layers are more than the teacher's 3"),
        ('tasks=["builtin/sentiment"]', "the teacher's task 'entities' is not among the tasks"),
    ):
        words = ("distill", small, "--set", setting, "--set", "name=other")
        code, out, err = command(*words)
        assert code == 2 and message in err and err.count("\n") == 1
        assert not (tmp_path / "runs" / "other").exists()
    assert command("train", large, "--set", "name=large2", "--set", "seed=5")[0] == 0
    words = ("distill", small, "--set", f"distill.teacher={tmp_path}/runs/large2")
    code, _, err = command(*words)
    assert code == 2 and "belongs to another run (distill.teacher is" in err
