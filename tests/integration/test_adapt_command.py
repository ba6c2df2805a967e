"""`brodmann adapt` and `brodmann relate`: new tasks for a trained model; how its tasks relate."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file
from tests.checkers import assert_keeps_bits, weights

Command = Callable[..., tuple[int, str, str]]
TRAINED = """
name = "trained"
output = "{folder}/runs"
tasks = [
  {{ use = "builtin/sentiment", limit = {{ train = 48, validation = 24, test = 8 }} }},
  {{ use = "builtin/similarity", limit = {{ train = 48, validation = 24, test = 8 }} }},
]
[model]
backbone = "builtin:tiny"
architecture = "{architecture}"
[training]
epochs = 1
learning_rate = 1e-3
"""
NEW = """
name = "new"
output = "{folder}/runs"
tasks = [{{ use = "builtin/acceptability", limit = {{ train = 32, validation = 24, test = 8 }} }}]
[training]
epochs = 1
learning_rate = 1e-3
[adapt]
start = "{folder}/runs/trained"
like = "sentiment"
frozen = true
"""


@pytest.mark.parametrize("architecture", ["ca_mtl", pytest.param("shared", marks=pytest.mark.slow)])
def test_a_new_task_is_scored_from_every_start_and_then_trained(
    tmp_path: Path, command: Command, architecture: str
) -> None:
    trained, new = tmp_path / "trained.toml", tmp_path / "new.toml"
    trained.write_text(TRAINED.format(folder=tmp_path, architecture=architecture))
    new.write_text(NEW.format(folder=tmp_path))
    code, _, err = command("adapt", new)
    assert code == 2 and "no trained model in it: run `brodmann train` first" in err
    assert command("train", trained)[0] == 0
    code, out, err = command("adapt", new)
    assert (code, err) == (0, ""), err
    result = json.loads((tmp_path / "runs/new/adaptation.json").read_text("utf-8"))
    starts = result["zero_shot"]["acceptability"]
    assert list(starts) == ["sentiment", "similarity", "random", "xavier"]
    assert all("accuracy" in scores for scores in starts.values()) and "zero-shot" in out
    assert result["scores"]["validation"]["acceptability"]["examples"] == 24
    before, after = weights(tmp_path / "runs/trained"), weights(tmp_path / "runs/new")
    assert set(before) < set(after)
    assert_keeps_bits(before, after)  # the rest was frozen
    old = result["old"]  # as they were: the rest was frozen
    assert old["before"] == old["after"] and set(old["before"]) == {"sentiment", "similarity"}
    assert set(map(tuple, old["interval"].values())) == {(0.0, 0.0)}
    assert "old tasks (%, validation) before and after" in out
    page = (tmp_path / "runs/new/report.html").read_text("utf-8")
    assert "New tasks" in page and "old tasks (%, validation) before and after" in page
    moment = (tmp_path / "runs/new/model/model.safetensors").stat().st_mtime_ns
    code, out, _ = command("adapt", new, "--json")  # nothing is done again
    assert code == 0 and json.loads(out)["zero_shot"] == result["zero_shot"]
    assert (tmp_path / "runs/new/model/model.safetensors").stat().st_mtime_ns == moment
    for setting, words in (
        ("adapt.like=sentimnt", "did you mean 'sentiment'"),
        ("adapt.like=random", "belongs to another run"),
        (
            "model.max_length=64",
            "[adapt] takes model.max_length from the trained model: remove it here",
        ),
        ('name="other"', None),
    ):
        code, _, err = command("adapt", new, "--set", setting)
        assert (code == 0) if words is None else (code == 2 and words in err)
    start = ("--set", f'adapt.start="{tmp_path}/runs/other/model"', "--set", "name=further")
    further = ("--set", 'tasks.0.name="again"', "--set", "adapt.like=acceptability")
    assert command("adapt", new, *start, *further)[0] == 0  # an adapted model has more old tasks
    result = json.loads((tmp_path / "runs/further/adaptation.json").read_text("utf-8"))
    assert set(result["old"]["after"]) == {"acceptability", "sentiment", "similarity"}
    code, out, err = command("compare", tmp_path / "runs/new", tmp_path / "runs/other", "--json")
    assert code == 2 and "needs at least two arms" in err  # the same under another name
    assert command("evaluate", trained)[0] == 0
    code, _, err = command("compare", tmp_path / "runs/trained", tmp_path / "runs/new")
    assert code == 2 and "no task is common to all" in err and err.count("\n") == 1
    page = tmp_path / "both.html"
    code, out, err = command(
        "report", tmp_path / "runs/trained", tmp_path / "runs/new", "--out", page
    )
    assert (code, err) == (0, "") and "no task is common to all" in page.read_text("utf-8")
    code, _, err = command("run", new)
    assert code == 2 and "[adapt]: this configuration is for `brodmann adapt`" in err
    # The folder says nothing of a model that is not its own, and can be gone on with.
    assert "[model]" not in (tmp_path / "runs/new/config.toml").read_text("utf-8")
    assert command("adapt", tmp_path / "runs/new")[0] == 0
    two = ("--set", 'tasks=["builtin/topic", "builtin/opinion"]', "--set", "name=two")
    code, _, err = command("relate", new, *two, "--by", "words", "--pieces")
    assert code == 2 and "there is no backbone to read" in err
    log = (tmp_path / "runs/new/log.jsonl").read_text("utf-8").splitlines()
    stages = [entry["stage"] for line in log if "stage" in (entry := json.loads(line))]
    assert stages[:2] == ["zero-shot", "training"]
    code, _, err = command(
        "adapt", new, "--set", 'tasks=["builtin/sentiment"]', "--set", 'name="again"'
    )
    assert code == 2 and "already has a task 'sentiment'" in err


ALIKE = (
    "Every start has the same score before training, so it is shown once: in the architecture "
    "`shared` no part of the encoder belongs to one task, and `like` has nothing to copy."
)


def test_old_tasks_that_lose_are_named_with_what_keeps_them(
    tmp_path: Path, command: Command
) -> None:
    trained, new = tmp_path / "trained.toml", tmp_path / "new.toml"
    text = TRAINED.format(folder=tmp_path, architecture="shared")
    text = text.replace("train = 48, validation = 24", "train = 300, validation = 100")
    text = text.replace("sentiment", "topic").replace("epochs = 1", "epochs = 3")
    trained.write_text(text.replace("1e-3", "3e-3"))
    text = NEW.format(folder=tmp_path).replace("frozen = true\n", "").replace("sentiment", "topic")
    new.write_text(text.replace("train = 32", "train = 300").replace("1e-3", "1e-2"))
    assert command("train", trained)[0] == 0
    code, out, err = command("adapt", new)
    assert (code, err) == (0, "")
    result = json.loads((tmp_path / "runs/new/adaptation.json").read_text("utf-8"))
    old = result["old"]
    assert old["before"]["topic"] - old["after"]["topic"] > 0.1 > 0 > old["interval"]["topic"][1]
    assert result["alike"] and ALIKE in " ".join(out.split())
    lines = out.splitlines()
    place = next(i for i, line in enumerate(lines) if line.startswith("before training"))
    assert ": zero-shot, before any training. Every start" in lines[place + 1]  # one row
    told = " ".join(out.split()).split("warning: ")[1]
    assert told.startswith("Learning the new tasks cost old ones: topic (accuracy ")
    advice = (
        "Set frozen = true in [adapt]: then only what belongs to the new tasks is trained, and old "
        "tasks stay as they are. If that learns too little, train the start with an architecture "
        "that gives every task its own parts: 'single', 'ca_mtl', 'pals', 'adapters', 'hmnet' or "
        "'task_lora'."
    )
    assert advice in told
    page = (tmp_path / "runs/new/report.html").read_text("utf-8")
    assert page.replace("&#39;", "'").count(advice) == 2
    assert page.count("Learning the new tasks cost old ones") == 2
    words = page.replace("<code>", "`").replace("</code>", "`")
    assert "Train longer" not in page and ALIKE in words
    assert "1 new task beside 2 old ones · builtin:tiny (shared) · seed 0 · " in page

    only = ("--set", f'adapt.start="{tmp_path}/alone"', "--set", "name=alone")
    (tmp_path / "runs/trained/model").rename(tmp_path / "alone")
    code, out, err = command("adapt", new, *only)
    assert (code, err) == (0, "")
    assert (
        f"note: old tasks are not scored: {tmp_path}/alone/config.toml: no such file, so the "
        "location of their data is unknown\n" in out
    )


def test_everything_may_train_on_shares_of_the_data(tmp_path: Path, command: Command) -> None:
    """A loaded ca_mtl freezes its lower half again: `free` lets it train."""
    trained, new = tmp_path / "trained.toml", tmp_path / "new.toml"
    trained.write_text(TRAINED.format(folder=tmp_path, architecture="ca_mtl"))
    new.write_text(NEW.format(folder=tmp_path).replace("frozen = true", "shares = [1.0, 0.25]"))
    assert command("train", trained)[0] == 0
    runs = tmp_path / "runs"
    embeddings = "encoder.backbone.embeddings.word_embeddings.weight"
    before = load_file(runs / "trained/model/model.safetensors")[embeddings]
    code, out, err = command("adapt", new)
    assert (code, err) == (0, ""), err
    assert before.equal(load_file(runs / "new/model/model.safetensors")[embeddings])
    result = json.loads((runs / "new/adaptation.json").read_text("utf-8"))
    assert list(result["shares"]) == ["25 %", "100 %"]
    assert [row["examples"]["acceptability"] for row in result["shares"].values()] == [8, 32]
    whole = result["scores"]["validation"]["acceptability"]["score"]
    assert result["shares"]["100 %"]["scores"]["acceptability"] == whole
    assert (runs / "new/shares/0.25").is_dir()
    assert not list((runs / "new/shares").rglob("*.safetensors"))  # nobody goes on from there
    assert "once for each share of the data" in out and "\n25 %" in out
    assert "25 %" in (runs / "new/report.html").read_text("utf-8")
    assert result["old"]["before"] != result["old"]["after"]  # what is shared has moved

    free = ("--set", "adapt.free=true", "--set", "name=free", "--set", "adapt.shares=[1.0]")
    assert command("adapt", new, *free)[0] == 0
    assert not before.equal(load_file(runs / "free/model/model.safetensors")[embeddings])
    for setting, words in (
        ("adapt.frozen=true", "[adapt]: free = true trains everything, frozen = true nothing old"),
        ("adapt.shares=[0.01]", "0.01 of the 32 training examples of 'acceptability' is less than"),
        ("adapt.shares=[1, 1]", "one occurs twice"),
    ):
        code, _, err = command("adapt", new, *free, "--set", "name=wrong", "--set", setting)
        assert code == 2 and words in err and not (runs / "wrong").exists()
    few = tmp_path / "few.toml"
    few.write_text(
        'name = "few"\ntasks = ["builtin/acceptability"]\n'
        f'[transfer]\nstarts = {{ a = "{runs}/trained" }}\n'
    )
    code, _, err = command("transfer", few)
    assert code == 2 and "for shares of their data set [adapt] shares" in err


@pytest.mark.parametrize(("config", "resume"), [(TRAINED, "run"), (NEW, "adapt")])
def test_an_unfinished_folder_names_the_command_that_resumes_it(
    tmp_path: Path, command: Command, config: str, resume: str
) -> None:
    folder = tmp_path / "unfinished"
    (folder / "checkpoints").mkdir(parents=True)
    place = folder / "config.toml"
    place.write_text(config.format(folder=tmp_path, architecture="shared"))
    code, _, err = command("export", folder, "--task", "sentiment")
    wanted = f"{folder}: its training is not finished: `brodmann {resume} {place}` resumes it"
    assert (code, err) == (2, f"brodmann: {wanted}\n")


def test_relations_of_a_trained_run(tmp_path: Path, command: Command) -> None:
    config = tmp_path / "trained.toml"
    config.write_text(TRAINED.format(folder=tmp_path, architecture="ca_mtl"))
    code, _, err = command("relate", config, "--by", "covsim")
    assert code == 2 and "no trained model in it" in err
    assert command("train", config)[0] == 0
    run = (tmp_path / "runs/trained", "--by", "covsim", "--examples")
    code, out, err = command("relate", *run, "20")
    assert (code, err) == (0, "") and "CovSim (%)" in out
    found = json.loads((tmp_path / "runs/trained/covsim.json").read_text("utf-8"))
    assert found["tasks"] == ["sentiment", "similarity"] and found["examples"] == 20
    assert found["covsim"][0][1] == found["covsim"][1][0] == pytest.approx(found["mean"][0])
    assert 0 < found["mean"][0] <= 1
    code, out, _ = command("relate", *run, "20", "--json")
    assert json.loads(out)["covsim"] == found["covsim"]
    code, _, err = command("relate", *run, "1")
    assert code == 2 and "expected at least 2" in err


@pytest.mark.parametrize(("architecture", "starts"), [("shared", 1), ("ca_mtl", 4)])
def test_a_plan_and_then_what_it_took(
    tmp_path: Path, command: Command, architecture: str, starts: int
) -> None:
    trained, new = tmp_path / "trained.toml", tmp_path / "new.toml"
    trained.write_text(TRAINED.format(folder=tmp_path, architecture=architecture))
    new.write_text(NEW.format(folder=tmp_path) + "shares = [0.25, 0.5, 1.0]\n")
    code, _, err = command("plan", new)
    assert code == 2 and "no trained model in it: run `brodmann train` first" in err
    assert command("train", trained)[0] == 0
    code, out, err = command("plan", new, "--json")
    assert (code, err) == (0, "")
    plan = json.loads(out)
    seconds = plan["seconds"]
    assert set(seconds) == {"training", "evaluation", "smaller shares", "zero-shot"}
    assert seconds["smaller shares"] == pytest.approx(0.75 * seconds["training"])
    assert seconds["zero-shot"] == pytest.approx(starts * seconds["evaluation"])
    assert command("adapt", new)[0] == 0
    code, out, _ = command("plan", new, "--json")
    assert code == 0 and set(json.loads(out)["took"]["seconds"]) == set(seconds)


def test_each_new_task_has_a_start_of_its_own_and_a_grid_trains_them_apart(
    tmp_path: Path, command: Command
) -> None:
    trained, new = tmp_path / "trained.toml", tmp_path / "new.toml"
    trained.write_text(TRAINED.format(folder=tmp_path, architecture="ca_mtl"))
    assert command("train", trained)[0] == 0
    limit = "{ train = 32, validation = 24, test = 8 }"
    new.write_text(
        f"""
name = "new"
output = "{tmp_path}/runs"
tasks = [
  {{ use = "builtin/acceptability", limit = {limit} }},
  {{ use = "builtin/topic", limit = {limit} }},
]
[training]
epochs = 1
learning_rate = 1e-3
[adapt]
start = "{tmp_path}/runs/trained"
like = {{ acceptability = "similarity", topic = "sentiment" }}
frozen = true
shares = [0.5, 1.0]
[grid]
heads = false
groups = [["acceptability"], ["topic"]]
vary = {{ seed = [0, 1] }}
"""
    )
    code, _, err = command("grid", new)
    assert (code, err) == (0, ""), err
    cells = json.loads((tmp_path / "runs/new/grid.json").read_text("utf-8"))["cells"]
    assert [cell["state"] for cell in cells] == ["done"] * 4
    before = load_file(tmp_path / "runs/trained/model/model.safetensors")
    for cell, task in zip(cells, ("acceptability", "acceptability", "topic", "topic"), strict=True):
        assert set(cell["splits"]["validation"]) == {task}  # by itself
        found = cell["adaptation"]
        assert set(found["zero_shot"]) == {task} and set(found["shares"]) == {"50 %", "100 %"}
        folder = tmp_path / "runs" / "cells" / cell["fingerprint"]
        assert set(load_file(folder / "model/model.safetensors")) > set(before)
        assert not list(folder.rglob("checkpoints/step-*"))
    assert command("plan", new)[0] == 0
    code, _, err = command("adapt", new, "--set", 'adapt.like={topic="sentiment"}')
    message = "[adapt]: like: no start for the task 'acceptability': add one, or give a name"
    assert (code, err) == (2, f"brodmann: {message}\n")


def test_a_start_of_its_own_is_where_a_task_begins(tmp_path: Path) -> None:
    """Rows of the task embedding are copies of the named tasks' rows."""
    import brodmann as bm
    from brodmann.config import AdaptSection
    from brodmann.studies.adapt import with_tasks

    limit = {"train": 16, "validation": 8, "test": 8}
    names = ("sentiment", "similarity", "acceptability", "topic")
    tasks = bm.load_tasks([{"use": f"builtin/{name}", "limit": limit} for name in names])
    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks[:2], architecture="ca_mtl")
    like = {"acceptability": "similarity", "topic": "sentiment"}
    new = with_tasks(model, tasks[2:], AdaptSection(start="x", like=like))
    rows = {name: new.state_dict()[f"encoder.embedding.rows.task:{name}"] for name in names}
    assert all(rows[task].equal(rows[start]) for task, start in like.items())
