"""What a finished run leaves on disk, and what `run` does where part of it is gone."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.checkers import assert_same_bits, weights
from tests.conftest import in_process

Command = Callable[..., tuple[int, str, str]]
CONFIG = """
name = "small"
output = "{folder}/runs"
tasks = [
  {{ use = "builtin/sentiment", limit = {{ train = 32, validation = 16, test = 8 }} }},
  {{ use = "builtin/topic", limit = {{ train = 32, validation = 16, test = 8 }} }},
]
[model]
backbone = "builtin:tiny"
[training]
epochs = 2
learning_rate = 1e-3
[map]
examples = 8
[dissociation]
draws = 0
resamples = 10
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(CONFIG.format(folder=tmp_path), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run with its checkpoints."""
    folder = tmp_path_factory.mktemp("kept")
    path = folder / "small.toml"
    path.write_text(CONFIG.format(folder=folder), encoding="utf-8")
    assert in_process("run", path, "--set", "keep_checkpoints=true")[0] == 0
    return folder / "runs" / "small"


def heavy(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*.safetensors")}


def test_a_finished_run_keeps_its_model_alone(
    config: Path, tmp_path: Path, command: Command
) -> None:
    folder = tmp_path / "runs" / "small"
    assert command("run", config)[0] == 0
    assert heavy(folder) == {"model/model.safetensors"} and not (folder / "checkpoints").exists()
    # The setting decides nothing about the result: it is the same run.
    code, out, err = command("run", config, "--set", "keep_checkpoints=true")
    assert (code, err) == (0, "") and "already trained" in out

    kept = ("--set", "keep_checkpoints=true", "--set", "name=kept")
    assert command("run", config, *kept)[0] == 0
    assert len(list((tmp_path / "runs/kept/checkpoints").glob("step-*"))) == 2
    # Killed between the model and the end, or asked otherwise now: the next command tidies up.
    assert command("run", config, "--set", "name=kept")[0] == 0
    assert heavy(tmp_path / "runs" / "kept") == {"model/model.safetensors"}


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("model.safetensors", "model.safetensors is missing"),
        ("tokenizer.json", "tokenizer.json is missing"),
        ("config.json", "config.json is missing"),
    ],
)
def test_a_missing_file_is_made_again_from_the_checkpoint(
    config: Path, kept: Path, tmp_path: Path, command: Command, name: str, damage: str
) -> None:
    folder = tmp_path / "runs" / "small"
    shutil.copytree(kept, folder)
    before = weights(folder)
    metrics = (folder / "metrics.json").read_bytes()
    (folder / "model" / name).unlink()
    code, out, err = command("run", config, "--set", "keep_checkpoints=true")
    assert (code, err) == (0, "")
    note = f"note: {folder}/model: {damage}: rebuilding the model from its last checkpoint\n"
    assert note in out and "already trained" not in out
    assert_same_bits(before, folder)
    assert (folder / "metrics.json").read_bytes() == metrics
    code, out, _ = command("run", config)
    assert code == 0 and "already trained" in out


def test_without_a_checkpoint_it_says_what_to_do(
    config: Path, kept: Path, tmp_path: Path, command: Command
) -> None:
    folder = tmp_path / "runs" / "small"
    shutil.copytree(kept, folder)
    assert command("run", config)[0] == 0 and not (folder / "checkpoints").exists()
    weights = folder / "model" / "model.safetensors"
    whole = weights.read_bytes()
    cut = f"model.safetensors is damaged (1,000 bytes, expected {len(whole):,})"
    for content, damage in (
        (whole[:1000] + b"", "model.safetensors is damaged (its header cannot be read)"),
        (None, "model.safetensors is missing"),
        (b"", "model.safetensors is damaged (its header cannot be read)"),
        (whole[:-1], cut.replace("1,000", f"{len(whole) - 1:,}")),
    ):
        if content is None:
            weights.unlink()
        else:
            weights.write_bytes(content)
        code, out, err = command("run", config)
        assert code == 2 and "already trained" not in out
        assert err == (
            f"brodmann: {folder}/model: {damage}, and no checkpoint is left to rebuild the model "
            f"from: restore it, or remove {folder}/model and run again to train from the "
            "beginning\n"
        )
        code, _, err = command("evaluate", config)
        assert code == 2 and err == (
            f"brodmann: {folder}/model: {damage}: `brodmann run` rebuilds the model if a "
            "checkpoint is left\n"
        )
    shutil.rmtree(folder / "model")
    stamp = {name: (folder / name).stat().st_mtime_ns for name in ("metrics.json",)}
    code, out, err = command("run", config)
    assert (code, err) == (0, "") and "trained on" in out
    # The numbers of the model that is gone are not those of the new one.
    assert (folder / "metrics.json").stat().st_mtime_ns > stamp["metrics.json"]
    assert weights.read_bytes() == whole


def test_a_finished_comparison_keeps_models_alone(
    config: Path, tmp_path: Path, command: Command
) -> None:
    text = config.read_text(encoding="utf-8")
    text += '[compare]\narms = ["multi", "iat"]\nseeds = [0, 1]\n[specialize]\ndelta = 0.5\n'
    config.write_text(text + "examples = 8\n", encoding="utf-8")
    code, out, err = command("compare", config)
    assert (code, err) == (0, ""), err
    assert "resuming from step" in out  # iat from multi's steps
    folder = tmp_path / "runs" / "small"
    assert heavy(folder) == {
        f"{arm}-seed{seed}/model/model.safetensors" for arm in ("multi", "iat") for seed in (0, 1)
    }
    code, out, err = command("plan", config, "--set", "name=again", "--json")
    disk = json.loads(out)["disk"]
    one = (folder / "multi-seed0/model/model.safetensors").stat().st_size
    assert disk["afterwards"] == pytest.approx(4 * one, rel=0.05)
    assert disk["training"] > disk["afterwards"] + 2 * 3 * one  # branches of both seeds
    code, out, err = command("plan", config, "--set", "name=again")
    assert (code, err) == (0, "") and "disk: " in out and " free\n" in out


def test_an_interrupted_comparison_keeps_the_branch(
    config: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    from brodmann.errors import Interrupted
    from brodmann.studies import arms

    text = config.read_text(encoding="utf-8")
    text += '[compare]\narms = ["multi", "iat"]\n[specialize]\ndelta = 0.5\nexamples = 8\n'
    config.write_text(text, encoding="utf-8")
    right = arms.run

    def stopped(settings: object, *words: object, **options: object) -> object:
        if settings.name.startswith("iat"):  # type: ignore[attr-defined]
            raise Interrupted("stopped", 2)
        return right(settings, *words, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(arms, "run", stopped)
    assert command("compare", config)[0] == 130
    branch = tmp_path / "runs/small/multi-seed0/checkpoints/branch"
    assert len(list(branch.iterdir())) == 1
    assert not list(branch.parent.glob("step-*"))
    monkeypatch.setattr(arms, "run", right)
    code, out, err = command("compare", config)
    assert (code, err) == (0, "") and "resuming from step" in out
    assert not branch.parent.exists()
