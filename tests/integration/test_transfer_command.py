"""`brodmann transfer`: a table, a curve, resumed where it was stopped, refused where it differs."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import brodmann as bm
from brodmann.config import load_config
from brodmann.studies.transfer import start_of

Command = Callable[..., tuple[int, str, str]]
CONFIG = """
name = "few"
output = "{folder}/runs"
tasks = [{{ use = "builtin/topic", limit = {{ train = 80, validation = 24, test = 8 }} }}]
[model]
max_length = 32
[transfer]
starts = {{ plain = "{folder}/model", none = "builtin:tiny" }}
examples = [4, 8]
shares = [0.5]
seeds = [3, 3, 2]
epochs = 2
learning_rate = 1e-3
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    limit = {"train": 16, "validation": 8, "test": 8}
    tasks = bm.load_tasks([{"use": "builtin/sentiment", "limit": limit}])
    bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks, seed=3).save_pretrained(
        tmp_path / "model"
    )
    path = tmp_path / "few.toml"
    path.write_text(CONFIG.format(folder=tmp_path), encoding="utf-8")
    return path


def test_transfer_resumes_and_reports(config: Path, tmp_path: Path, command: Command) -> None:
    code, out, err = command("transfer", config)
    assert (code, err) == (0, "")
    assert "topic: accuracy (%)" in out and "plain" in out and "50 %" in out
    folder = tmp_path / "runs" / "few"
    summary = json.loads((folder / "transfer.json").read_text("utf-8"))
    assert summary["configuration"]["transfer"] and summary["machine"]["versions"]["torch"]
    table = summary["tasks"]["topic"]
    assert list(table) == ["4", "8", "50 %"] and len(table["8"]["none"]["scores"]) == 3
    assert "p" not in table["4"]["none"]  # three seeds prove nothing
    assert (folder / "learning_curve.svg").stat().st_size > 1000
    lines = (folder / "transfer.jsonl").read_text("utf-8").splitlines()
    assert len(lines) == 1 + 2 * 8

    # Killed in the middle of a line: what is whole is kept, the rest is measured again.
    (folder / "transfer.jsonl").write_text("\n".join([*lines[:9], lines[9][:20]]), "utf-8")
    code, out, _ = command("transfer", config, "--json")
    assert code == 0 and json.loads(out)["tasks"] == summary["tasks"]
    assert len((folder / "transfer.jsonl").read_text("utf-8").splitlines()) == 17

    code, _, err = command("transfer", config, "--set", "transfer.epochs=3")
    assert code == 2 and "was measured from other models, data or settings" in err
    assert err.count("\n") == 1


def test_wrong_requests_are_one_line(config: Path, tmp_path: Path, command: Command) -> None:
    (tmp_path / "empty").mkdir()
    for setting, message in (
        (
            "transfer.seeds=[1]",
            "[transfer]: seeds = [1]: expected one number, or one for each of 4, 8",
        ),
        (
            f'transfer.starts.plain="{tmp_path / "empty"}"',
            "no trained model in it: run `brodmann train`",
        ),
        ("transfer.examples=[900]", "900: 900 of 80 training examples cannot be drawn"),
        ("transfer.examples=[]", ""),
    ):
        words = ["transfer", config, "--set", setting]
        if "examples" in setting:
            words += ["--set", "transfer.seeds=1"]
        if not message:
            words += ["--set", "transfer.shares=[]"]
            message = "[transfer]: set 'examples' or 'shares'"
        code, out, err = command(*words, "--json")
        assert code == 2 and out == "" and message in err and err.count("\n") == 1, err


def test_a_trained_runs_folder_is_left_alone(
    config: Path, tmp_path: Path, command: Command
) -> None:
    (tmp_path / "runs" / "few" / "model").mkdir(parents=True)
    (tmp_path / "runs" / "few" / "config.toml").write_text("x = 1", "utf-8")
    code, _, err = command("transfer", config)
    assert code == 2 and "contains a trained run: set another name" in err
    assert (tmp_path / "runs" / "few" / "config.toml").read_text("utf-8") == "x = 1"
    code, _, err = command("run", config, "--set", "name=other")
    assert code == 2 and "[transfer]: this configuration is for `brodmann transfer`" in err


def test_fewer_seeds_than_are_there_are_the_same_for_all_starts(
    config: Path, tmp_path: Path, command: Command
) -> None:
    assert command("transfer", config)[0] == 0
    code, out, _ = command("transfer", config, "--set", "transfer.seeds=[2,1,2]", "--json")
    table = json.loads(out)["tasks"]["topic"]
    counts = {
        amount: {len(e["scores"]) for e in starts.values()} for amount, starts in table.items()
    }
    assert code == 0 and counts == {"4": {2}, "8": {1}, "50 %": {2}}
    lines = (tmp_path / "runs" / "few" / "transfer.jsonl").read_text("utf-8").splitlines()
    assert len(lines) == 17  # nothing that was measured is thrown away


def test_a_plan_and_then_what_it_took(config: Path, tmp_path: Path, command: Command) -> None:
    code, out, err = command("plan", config, "--json")
    assert (code, err) == (0, "")
    plan = json.loads(out)
    assert not (tmp_path / "runs" / "few").exists() and plan["trainings"] == 2 * 8
    examples = 2 * 2 * (3 * 4 + 3 * 8 + 2 * 40)  # starts, epochs, seeds of each amount
    assert 5 * examples < plan["tokens"]["training"] <= 32 * examples
    assert 5 * 16 * 24 < plan["tokens"]["read"] <= 32 * 16 * 24
    assert command("transfer", config)[0] == 0
    code, out, _ = command("plan", config, "--json")
    took = json.loads(out)["took"]["seconds"]
    assert code == 0 and set(took) == {"transfer"} and took["transfer"] > 0
    code, out, _ = command("plan", config, "--set", "transfer.epochs=9", "--json")
    other = json.loads(out)  # of other settings: made anew
    assert other["tokens"]["training"] == pytest.approx(4.5 * plan["tokens"]["training"])


def test_a_bare_backbone_is_read_as_the_model_table_says(config: Path, command: Command) -> None:
    tasks = bm.load_tasks([{"use": "builtin/topic", "limit": {"train": 8, "validation": 8}}])
    usual = load_config(config)[0]
    for pooling in ("mean", "first"):
        settings = load_config(config, [f"model.pooling={pooling}"])[0]
        start = start_of("builtin:tiny", tasks, settings)
        assert start.settings.pooling == pooling
        assert start.for_tasks(tasks).settings.pooling == pooling
    assert start_of("builtin:tiny", tasks, usual).settings.pooling != "mean"
    quick = ("--set", "transfer.examples=[4]", "--set", "transfer.shares=[]")
    quick += ("--set", "transfer.seeds=1", "--set", "transfer.epochs=1")
    code, out, _ = command("transfer", config, *quick, "--json")
    assert code == 0 and "pooling" not in json.loads(out)["settings"]
    code, _, err = command("transfer", config, *quick, "--set", "model.pooling=mean")
    assert code == 2 and "was measured from other models, data or settings" in err
