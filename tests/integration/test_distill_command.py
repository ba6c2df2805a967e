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
    assert code == 2 and "no trained model in it: run `brodmann train` first" in err
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
    assert not list(folder.rglob("checkpoints"))  # nobody goes on from there
    log = (folder / "layers" / "log.jsonl").read_text("utf-8")
    assert '"evaluation": true' in log  # on the way, but the last step is what goes on
    for setting, message in (
        (
            "model.max_length=64",
            "[distill]: model.max_length = 64: a student takes its model from its teacher, which "
            "has 128",
        ),
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


def test_a_student_may_begin_as_a_checkpoint_and_specialize(
    tmp_path: Path, command: Command
) -> None:
    """TinyBERT + IAT: layers first, then answers, whose last steps move important heads only."""
    large, small = tmp_path / "large.toml", tmp_path / "small.toml"
    large.write_text(TASKS.format(name="large", folder=tmp_path), encoding="utf-8")
    assert command("train", large)[0] == 0
    text = (TASKS + DISTILL).format(name="small", folder=tmp_path)
    sizes = "{ num_hidden_layers = 1, hidden_size = 32, intermediate_size = 48 }"
    assert sizes in text
    text = text.replace(sizes, '"builtin:tiny"')
    small.write_text(text + "[specialize]\ndelta = 0.25\nexamples = 8\n", encoding="utf-8")
    code, _, err = command("distill", small)
    assert (code, err) == (0, "")
    folder = tmp_path / "runs" / "small"
    result = json.loads((folder / "distillation.json").read_text("utf-8"))
    assert result["student"] == "builtin:tiny"
    phases = {}
    for phase in ("layers", "prediction"):
        lines = (folder / phase / "log.jsonl").read_text("utf-8").splitlines()
        entries = [json.loads(line) for line in lines]
        steps = next(entry["steps"] for entry in entries if "start" in entry)
        phases[phase] = (steps, [entry["step"] for entry in entries if "heads" in entry])
    # A quarter of all steps is the second half of one of two equal phases.
    assert phases["layers"] == (4, []) and phases["prediction"] == (4, [2])
    for changes, message in (
        (
            ("specialize.delta=0.6",),
            "specialize: delta = 0.6: the prediction phase is the last 0.5 of the steps, expected "
            "no more than that",
        ),
        (
            ("specialize.variant=ticket_share",),
            "specialize: variant 'ticket_share' trains only some heads from the first step on, so "
            "that the other layers could not learn from the teacher: use 'important'",
        ),
        (
            ("distill.student=builtin:minilm",),
            "student: 'builtin:minilm' has another vocabulary than the teacher: both read the "
            "same tokens",
        ),
    ):
        words = [word for change in changes for word in ("--set", change)]
        code, _, err = command("distill", small, *words, "--set", "name=other")
        assert (code, err) == (2, f"brodmann: {message}\n")
        assert not (tmp_path / "runs" / "other").exists()


def test_students_are_cells_of_a_grid(tmp_path: Path, command: Command) -> None:
    """The teacher is the run of the same tasks and seed in another grid."""
    teachers = tmp_path / "teachers.toml"
    grid = "[grid]\nheads = false\n"
    text = TASKS.format(name="teachers", folder=tmp_path) + grid
    groups = 'groups = [["sentiment"], ["sentiment", "entities"]]\n'
    teachers.write_text(text + groups + "vary = { seed = [0, 1] }\n", encoding="utf-8")
    assert command("grid", teachers)[0] == 0
    students = tmp_path / "students.toml"
    text = (TASKS + DISTILL).format(name="students", folder=tmp_path)
    text = text.replace("/runs/large", "/runs/teachers")
    text += "[map]\nexamples = 8\n[dissociation]\ndraws = 1\nresamples = 20\n[grid]\n"
    text += 'cases = [{}, { "specialize.delta" = 0.5, "specialize.examples" = 8 }]\n'
    students.write_text(text + "vary = { seed = [0, 1] }\n", encoding="utf-8")
    code, _, err = command("grid", students)
    assert (code, err) == (0, "")
    summary = json.loads((tmp_path / "runs/students/grid.json").read_text("utf-8"))
    assert [cell["state"] for cell in summary["cells"]] == ["done"] * 4
    assert all(cell["dissociation"]["tasks"] for cell in summary["cells"])
    assert all(cell["parameters"]["total"] for cell in summary["cells"])
    found = set()
    for cell in summary["cells"]:
        folder = tmp_path / "runs" / "cells" / cell["fingerprint"]
        found.add(json.loads((folder / "distillation.json").read_text("utf-8"))["teacher"])
        assert not list(folder.rglob("checkpoints/step-*"))
    assert len(found) == 2  # a teacher a seed
    assert command("grid", students)[0] == 0  # finished ones are not done again
    code, _, _ = command("grid", students, "--set", "grid.vary={seed=[5]}", "--json")
    summary = json.loads((tmp_path / "runs/students/grid.json").read_text("utf-8"))
    assert code == 1 and summary["cells"][0]["error"] == (
        f"{tmp_path}/runs/teachers: 0 finished runs of sentiment, entities with seed 5 in it, "
        "expected one to be the teacher"
    )
