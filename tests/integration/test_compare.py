"""Arms in one command, resumable, and finished runs side by side."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.checkers import assert_same_bits

from brodmann.models.backbone.precision import computed_in

pytestmark = pytest.mark.long  # all of them, or the shared study would run twice
Command = Callable[..., tuple[int, str, str]]
CONFIG = """
name = "arms"
output = "{output}"
tasks = [
  {{ use = "builtin/sentiment", limit = {{ train = 48, validation = 24, test = 8 }} }},
  {{ use = "builtin/entities", limit = {{ train = 48, validation = 24, test = 8 }} }},
]
[model]
backbone = "builtin:tiny"
[training]
epochs = 2
batch_size = 16
learning_rate = 1e-3
keep = "last"
[specialize]
delta = 0.5
examples = 16
[dissociation]
draws = 0
resamples = 50
[compare]
arms = ["single", "multi", "iat", "random"]
seeds = [0, 1]
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    (folder / "study.toml").write_text(CONFIG.format(output=folder / "runs"), encoding="utf-8")
    return folder


def test_every_arm_and_seed_in_one_command(study: Path, command: Command) -> None:
    code, out, err = command("compare", study / "study.toml")
    assert (code, err) == (0, "")
    for word in ("single, seed 0", "iat, seed 1", "tasks better", "spread over tasks"):
        assert word in out
    result = json.loads((study / "runs" / "arms" / "comparison.json").read_text("utf-8"))
    assert result["configuration"]["training"]["epochs"] and "seed" not in result["configuration"]
    (machine,) = result["machines"]  # what a reader needs to trust or repeat the numbers
    assert machine["versions"]["torch"] and machine["precision"] == computed_in("auto")
    assert result["baseline"] == "multi" and list(result["arms"]) == [
        "single", "multi", "iat", "random",
    ]  # fmt: skip
    assert result["arms"]["iat"]["seeds"] == [0, 1]
    assert result["arms"]["single"]["dissociation"] is None
    arm = result["arms"]["iat"]  # entities may not be learnt at all: then D is undefined
    assert arm["dissociation_over"] == [2 - len(arm["undefined"]), 2]
    assert (arm["dissociation"] is None) is (len(arm["undefined"]) == 2)
    for reason in arm["undefined"].values():
        assert reason == "entities: its base score is 0, so a ratio to it means nothing"
    assert arm["against"]["test"] == "two-sided permutation test over validation examples"
    assert "iat against multi: difference of scores with its 95 % interval (over examples)" in out
    assert "points against multi" in out
    assert "(two-sided permutation test over validation examples)" in " ".join(out.split())
    metrics = json.loads((study / "runs/arms/iat-seed1/metrics.json").read_text("utf-8"))
    score = metrics["splits"]["validation"]["sentiment"]["score"]
    assert result["arms"]["iat"]["scores"]["sentiment"][1] == pytest.approx(score)

    # The arm went on from multi's checkpoint: the same bits as a run of its own from the start.
    log = (study / "runs/arms/iat-seed0/log.jsonl").read_text("utf-8").splitlines()
    steps = [entry["step"] for entry in map(json.loads, log) if "step" in entry]
    assert min(steps) == 6
    page = (study / "runs/arms/report.html").read_text("utf-8")
    assert "Ways of training compared" in page and "Sharing against single-task" in page
    alone = study / "alone.toml"
    text = (study / "runs/arms/iat-seed0/config.toml").read_text("utf-8")
    alone.write_text(text.replace('name = "iat-seed0"', 'name = "alone"'), encoding="utf-8")
    assert command("train", alone)[0] == 0
    assert_same_bits(study / "runs/arms/iat-seed0", study / "runs/arms/alone")

    # A second time nothing is trained again.
    before = (study / "runs/arms/multi-seed0/model/model.safetensors").stat().st_mtime_ns
    code, out, _ = command("compare", study / "study.toml", "--json")
    assert code == 0 and json.loads(out)["arms"] == result["arms"]
    assert (study / "runs/arms/multi-seed0/model/model.safetensors").stat().st_mtime_ns == before


def test_finished_runs_side_by_side(study: Path, command: Command) -> None:
    runs = study / "runs" / "arms"
    if not (runs / "comparison.json").is_file():
        assert command("compare", study / "study.toml")[0] == 0
    folders = [runs / f"{arm}-seed{seed}" for arm in ("multi", "iat") for seed in (0, 1)]
    code, out, err = command("compare", *folders, "--out", study / "two", "--json")
    assert code == 0, err
    result = json.loads(out)
    assert {arm: len(facts["seeds"]) for arm, facts in result["arms"].items()} == {
        "multi": 2, "iat": 2,
    }  # fmt: skip
    whole = json.loads((runs / "comparison.json").read_text("utf-8"))
    assert result["arms"]["iat"]["average"] == whole["arms"]["iat"]["average"]
    assert (study / "two" / "comparison.json").is_file()
    for words, message in (
        ([runs / "multi-seed0", study], f"{study}: not a run (config.toml is missing)"),
        ([runs / "multi-seed0", runs / "multi-seed1"], "compare needs at least two arms"),
        ([*folders, "--baseline", "x"], "no arm 'x': expected one of multi, iat"),
        ([folders[0], folders[0], folders[2]], "named twice"),
        ([*folders, "--set", "seed=1"], "--set needs a configuration"),
    ):
        code, out, err = command("compare", *words)
        assert code == 2 and out == "" and message in err and err.count("\n") == 1, err


def test_every_arm_is_checked_before_the_first_one_trains(tmp_path: Path, command: Command) -> None:
    config = tmp_path / "study.toml"
    config.write_text(CONFIG.format(output=tmp_path / "runs"), encoding="utf-8")
    for settings, message in (
        (("model.architecture=adapters",), "specialize: the backbone of architecture 'adapters'"),
        (
            ("training.aggregation=mgda", "training.accumulation=2"),
            "aggregation cannot be combined with specialize",
        ),
    ):
        words = [word for setting in settings for word in ("--set", setting)]
        code, _, err = command("compare", config, *words)
        assert code == 2 and message in err and err.count("\n") == 1, err
        assert not (tmp_path / "runs").exists()


def test_parameters_of_an_architecture_are_not_its_single_arms(
    tmp_path: Path, command: Command
) -> None:
    config = tmp_path / "study.toml"
    config.write_text(CONFIG.format(output=tmp_path / "runs"), encoding="utf-8")
    settings = ("model.architecture=adapters", "model.parameters={size=8}", "training.epochs=1")
    settings += ('compare.arms=["multi", "single"]', "compare.seeds=[0]", "map.examples=8")
    words = [word for setting in settings for word in ("--set", setting)]
    code, out, err = command("compare", config, *words, "--json")
    assert (code, err) == (0, ""), err
    assert set(json.loads(out)["arms"]) == {"multi", "single"}
    there = (tmp_path / "runs/arms/single-seed0/config.toml").read_text("utf-8")
    assert "size = 8" not in there


def test_runs_of_unlike_kinds_never_become_one_arm(tmp_path: Path) -> None:
    from brodmann.studies.compare import grouped

    folders = []
    for place, rate in enumerate((1, 2, 3)):
        folder = tmp_path / f"{place}" / "multi-seed0"
        folder.mkdir(parents=True)
        (folder / "config.toml").write_text(f"seed = 0\nrate = {rate}\n", "utf-8")
        folders.append(folder)
    other = tmp_path / "3" / "multi-seed1"
    other.mkdir(parents=True)
    (other / "config.toml").write_text("seed = 1\nrate = 1\n[map]\nexamples = 3\n", "utf-8")
    arms = grouped([*folders, other])
    assert arms == {
        "multi": [folders[0], other], "multi-seed0": [folders[1]], str(folders[2]): [folders[2]],
    }  # fmt: skip
