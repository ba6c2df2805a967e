"""`brodmann plan`: what it counts is what then happens; grids and comparisons are counted whole."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from brodmann.data.loading import load_tasks
from brodmann.models.encoders import ARCHITECTURES
from brodmann.models.multitask import MultiTaskModel
from brodmann.training.loop import Loop
from brodmann.training.settings import checked_options
from brodmann.training.step_costs import measure_costs, padded_tokens, split_tokens

Command = Callable[..., tuple[int, str, str]]
SMALL = """
name = "small"
output = "{folder}/runs"
threads = 1
tasks = [
  {{ use = "builtin/sentiment", limit = {{ train = 50, validation = 20, test = 10 }} }},
  {{ use = "builtin/similarity", limit = {{ train = 70, validation = 20, test = 10 }} }},
]
[model]
backbone = "builtin:tiny"
[training]
epochs = 2
batch_size = 8
sampling = "{sampling}"
[map]
examples = 20
[dissociation]
draws = 2
resamples = 20
"""


def written(folder: Path, more: str = "", sampling: str = "proportional") -> Path:
    path = folder / "small.toml"
    path.write_text(SMALL.format(folder=folder, sampling=sampling) + more, encoding="utf-8")
    return path


def operations(plan: dict[str, Any]) -> list[float]:
    return [sum(cell["operations"].values()) for cell in plan["cells"]]


@pytest.mark.long
@pytest.mark.parametrize("sampling", ["proportional", "uncertainty"])
def test_a_plan_and_then_what_it_took(tmp_path: Path, command: Command, sampling: str) -> None:
    config = written(tmp_path, sampling=sampling)
    code, out, err = command("plan", config, "--json")
    assert (code, err) == (0, "")
    plan = json.loads(out)
    folder = tmp_path / "runs" / "small"
    assert not folder.exists() and plan["took"] is None  # nothing has run
    stages = {"training", "evaluation", "calibration", "map of heads", "dissociation"}
    assert set(plan["seconds"]) == stages
    assert all(value > 0 for value in plan["seconds"].values())
    assert all(value > 0 for value in plan["operations"].values())
    assert plan["memory"]["process"] > plan["memory"]["weights"] > 0
    assert plan["memory"]["activations"] > 0

    assert command("run", config)[0] == 0
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert plan["steps"] == max(entry.get("step", 0) for entry in log) > 20
    assert plan["evaluations"] == sum("evaluation" in entry for entry in log) == 2
    assert plan["parameters"] == next(e["parameters"] for e in log if "start" in e)
    code, out, err = command("plan", config)
    assert code == 0 and "took" in out and "off by" in out and "it reached" in out
    code, out, err = command("plan", config, "--speed", "1e12", "--json")
    fast = json.loads(out)
    total = sum(fast["operations"].values())
    assert sum(fast["seconds"].values()) == pytest.approx(total / 1e12)


@pytest.mark.parametrize("architecture", sorted(set(ARCHITECTURES) - {"shared"}))
def test_every_architecture_has_a_plan(tmp_path: Path, command: Command, architecture: str) -> None:
    parameters = {"adapters": "{ size = 8 }", "pals": "{ size = 8 }"}.get(architecture, "{}")
    changes = [f"model.architecture={architecture}", f"model.parameters={parameters}"]
    words = [word for change in changes for word in ("--set", change)]
    code, out, err = command("plan", written(tmp_path), *words, "--json")
    assert (code, err) == (0, ""), err
    plan = json.loads(out)
    assert all(value > 0 for value in (*plan["seconds"].values(), *plan["operations"].values()))


def test_tokens_are_counted_exactly() -> None:
    """The padded tokens of every batch that training reads, seen from inside the model."""
    sizes = {"train": 40, "validation": 8, "test": 8}
    tasks = load_tasks([{"use": f"builtin/{n}", "limit": sizes} for n in ("topic", "question")])
    model = MultiTaskModel.from_pretrained("builtin:tiny", tasks, max_length=32, stride=8)
    options = checked_options({"epochs": 2, "batch_size": 8})
    found = measure_costs(Loop(model, tasks, options, None, {}))
    loop = Loop(model, tasks, options, None, {})
    seen = 0
    for _ in range(loop.steps):
        batches, _ = loop.source.next("cpu")
        seen += sum(batch.inputs["input_ids"].numel() for batch in batches)
    assert found.tokens == seen and found.steps == loop.steps
    encoded = loop.train_sets["question"]
    everything = np.arange(encoded.items)
    assert padded_tokens(encoded, everything) == len(everything) * encoded.lengths().max()
    assert split_tokens(encoded, 1) == encoded.lengths().sum()


def test_a_grid_is_measured_once_for_all_seeds(tmp_path: Path, command: Command) -> None:
    grid = '[grid]\nvary = { seed = [0, 1, 2], "training.epochs" = [1, 2] }\n'
    code, out, err = command("plan", written(tmp_path, grid), "--json")
    assert (code, err) == (0, "")
    plan = json.loads(out)
    assert plan["runs"] == 6 and plan["calibrated"] == 2
    assert plan["steps"] == sum(cell["steps"] for cell in plan["cells"]) > 0
    assert plan["parameters"] > 0 and plan["tokens"] > 0
    seconds = [sum(cell["seconds"].values()) for cell in plan["cells"]]
    assert plan["seconds"] == pytest.approx(sum(seconds))


def test_a_plan_of_many_and_then_what_each_took(tmp_path: Path, command: Command) -> None:
    grid = "[grid]\nheads = false\nvary = { seed = [0, 1] }\n"
    config = written(tmp_path, grid)
    planned = json.loads(command("plan", config, "--json")[1])
    assert planned["reached"] is None and not any(cell["took"] for cell in planned["cells"])
    assert command("grid", config)[0] == 0
    code, out, _ = command("plan", config, "--json")
    found = json.loads(out)
    assert [c["seconds"] for c in found["cells"]] == [c["seconds"] for c in planned["cells"]]
    assert all(set(cell["took"]) == {"training", "evaluation"} for cell in found["cells"])
    took = sorted(cell["took"]["training"] for cell in found["cells"])
    logs = [(path / "log.jsonl").read_text() for path in (tmp_path / "runs/cells").glob("*")]
    entries = [json.loads(line) for text in logs for line in text.splitlines()]
    assert took == sorted(e["seconds"] for e in entries if e.get("stage") == "training")
    code, out, _ = command("plan", config)
    assert code == 0 and "off by" in out and "they reached" in " ".join(out.split())


def test_cells_that_share_steps_count_them_once(tmp_path: Path, command: Command) -> None:
    grid = '[grid]\nheads = false\ncases = [{}, { "specialize.delta" = 0.25 }]\n'
    code, out, err = command("plan", written(tmp_path, grid), "--json")
    assert (code, err) == (0, "")
    plain, iat = operations(json.loads(out))
    assert iat < 0.5 * plain


def test_a_plan_of_other_settings_is_made_anew(tmp_path: Path, command: Command) -> None:
    config = written(tmp_path)
    assert command("plan", config)[0] == 0 and command("run", config)[0] == 0
    kept = json.loads(command("plan", config, "--json")[1])["seconds"]
    code, out, _ = command("plan", config, "--set", "training.epochs=4", "--json")
    other = json.loads(out)
    assert code == 0 and other["evaluations"] == 4
    assert other["took"] is None  # what the run took is not of these settings
    again = json.loads(command("plan", config, "--json")[1])
    assert again["seconds"] == kept and again["took"] is not None  # nor is its plan lost
    code, _, err = command("plan", config, "--output", tmp_path)
    assert code == 2 and "--output is only for a recipe" in err


def test_arms_share_their_first_steps(tmp_path: Path, command: Command) -> None:
    arms = '[compare]\narms = ["multi", "iat", "off_least"]\n[specialize]\ndelta = 0.25\n'
    code, out, err = command("plan", written(tmp_path, arms), "--json")
    assert (code, err) == (0, "")
    multi, iat, off = operations(json.loads(out))
    assert off < iat < multi and not (tmp_path / "runs" / "small").exists()


def test_an_arm_without_a_map_is_measured_apart(tmp_path: Path, command: Command) -> None:
    """Whichever comes first: `multi` maps its heads, `off_least` uses that map."""
    found = []
    for arms in (["multi", "off_least"], ["off_least", "multi"]):
        path = written(tmp_path, f"[compare]\narms = {arms}\n")
        plan = json.loads(command("plan", path, "--json")[1])
        labels = [cell["label"] for cell in plan["cells"]]
        found.append(dict(zip(labels, operations(plan), strict=True)))
    assert found[0] == pytest.approx(found[1])
    assert found[0]["multi, seed 0"] > 2 * found[0]["off_least, seed 0"]


@pytest.mark.parametrize("grid", ["", "[grid]\nvary = { seed = [0] }\n"])
def test_a_wrong_speed_is_one_line(tmp_path: Path, command: Command, grid: str) -> None:
    code, _, err = command("plan", written(tmp_path, grid), "--speed", "0")
    assert code == 2 and "speed = 0.0: expected operations per second, above 0" in err


def test_a_training_that_ends_early_is_judged_less_often(tmp_path: Path, command: Command) -> None:
    config = written(tmp_path)
    short = ("--set", "training.max_steps=3", "--set", "training.epochs=5")
    plan = json.loads(command("plan", config, *short, "--json")[1])
    assert command("train", config, *short)[0] == 0
    log = (tmp_path / "runs" / "small" / "log.jsonl").read_text().splitlines()
    assert plan["evaluations"] == sum("evaluation" in json.loads(line) for line in log) == 1


def test_tokens_of_the_map_are_those_of_each_task(tmp_path: Path, command: Command) -> None:
    """Many short texts and few long ones, of which equally many are read."""
    tasks = ", ".join(
        f'{{ use = "builtin/{name}", limit = {{ train = {size}, validation = 8, test = 8 }} }}'
        for name, size in (("sentiment", 200), ("question", 20))
    )
    words = ("--set", f"tasks=[{tasks}]", "--set", "map.examples=20", "--json")
    plan = json.loads(command("plan", written(tmp_path), *words)[1])
    each = {}
    for name, size in (("sentiment", 200), ("question", 20)):
        limit = {"train": size, "validation": 8, "test": 8}
        (task,) = load_tasks([{"use": f"builtin/{name}", "limit": limit}])
        model = MultiTaskModel.from_pretrained("builtin:tiny", [task])
        each[name] = split_tokens(model.encode(task.spec, task.splits["train"]), 64)
    assert plan["tokens"]["mapped"] == int(each["sentiment"] / 10 + each["question"])


def test_a_sharded_run_is_planned_as_one_process(tmp_path: Path, command: Command) -> None:
    code, out, err = command("plan", written(tmp_path), "--set", "training.sharding=full")
    assert (code, err) == (0, "") and "planned as one process" in out


def test_redraws_and_exchanges_are_planned(tmp_path: Path, command: Command) -> None:
    """Of two tasks at one share: 1 + 2 passes, and two more for every redraw and exchange."""
    config = written(tmp_path)
    plain = json.loads(command("plan", config, "--set", "dissociation.draws=0", "--json")[1])
    for changes, passes in (
        (("draws=20",), 1 + 20 + 2 * (1 + 5 + 9)),
        (("draws=20", "redraws=0", "exchanges=0"), 1 + 20 + 2),
        (("draws=0", "redraws=3", "exchanges=4"), 1 + 2 * (1 + 3 + 4)),
    ):
        words = [word for change in changes for word in ("--set", f"dissociation.{change}")]
        code, out, err = command("plan", config, *words, "--json")
        assert (code, err) == (0, "")
        found = json.loads(out)["operations"]["dissociation"]
        assert found == pytest.approx(plain["operations"]["dissociation"] * passes / 3)
    iterative = ("--set", "map.estimator=iterative", "--set", "dissociation.draws=20")
    found = json.loads(command("plan", config, *iterative, "--json")[1])["operations"]
    expected = plain["operations"]["dissociation"] * (1 + 20 + 2 * (1 + 9)) / 3
    assert found["dissociation"] == pytest.approx(expected)


def test_a_plan_has_the_notes_on_the_data(tmp_path: Path, command: Command) -> None:
    rows = "".join(f"text {i % 30} of them,{'ab'[i % 2]}\n" for i in range(60))
    (tmp_path / "t.csv").write_text("text,label\n" + rows, "utf-8")
    config = tmp_path / "c.toml"
    config.write_text(
        f'name = "r"\noutput = "{tmp_path / "runs"}"\nthreads = 1\n[[tasks]]\nname = "t"\n'
        'kind = "classification"\ntrain = "t.csv"\nvalidation = "t.csv"\n'
        '[model]\nbackbone = "builtin:tiny"\n[training]\nmax_steps = 2\n',
        "utf-8",
    )
    code, out, err = command("plan", config)
    assert (code, err) == (0, "")
    assert "note: t: every one of its 60 validation examples is also a training example" in out
    assert "The plan" not in out and "; trains on 0.00 M tokens and evaluates" in out
