"""The commands from configuration to answers, on a tiny model, in this process."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from brodmann.errors import InputError

Command = Callable[..., tuple[int, str, str]]

CONFIG = """
name = "small"
output = "{output}"
[[tasks]]
use = "builtin/sentiment"
limit = {{ train = 64, validation = 32, test = 32 }}
[[tasks]]
use = "builtin/similarity"
limit = {{ train = 64, validation = 32, test = 32 }}
[[tasks]]
use = "builtin/entities"
limit = {{ train = 64, validation = 32, test = 32 }}
[model]
backbone = "builtin:tiny"
[training]
epochs = 2
batch_size = 16
learning_rate = 1e-3
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(CONFIG.format(output=tmp_path / "runs"), encoding="utf-8")
    return path


def test_run_evaluate_and_predict(
    config: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = command("run", config)
    assert (code, err) == (0, "")
    assert "sentiment" in out and "score (%)" in out and "generated text" in out
    assert "24 steps on " in out and "; 2 epochs, learning rate 0.001;" in out
    folder = tmp_path / "runs" / "small"
    names = {path.name for path in folder.iterdir()}
    assert names == {
        ".lock", "config.toml", "provenance.json", "log.jsonl", "model",
        "metrics.json", "evaluated.npz", "importance.json", "explained.json",
        "calibration.json",
        "dissociation.json", "outcomes.npz", "report.html", "figures",
        "mistakes.json",
    }  # fmt: skip
    page = (folder / "report.html").read_text(encoding="utf-8")
    for words in (
        "In short",
        "Atlas of heads",
        "gets wrong",
        "Dissociation",
        "map of heads",
        "texts cut",
    ):
        assert words in page, words
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    assert set(metrics["splits"]) == {"validation", "test"}
    assert metrics["splits"]["validation"]["similarity"]["metric"] == "spearman"
    for entry in metrics["splits"]["validation"].values():
        low, high = entry["interval"]
        assert low <= entry["score"] <= high and f"[{100 * low:.1f}, {100 * high:.1f}]" in out
    provenance = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    assert provenance["data"]["sentiment"]["generated"] is True
    assert provenance["sittings"][0]["versions"]["torch"]

    # A second time nothing is done again, and the stored configuration is itself runnable.
    before = (folder / "model" / "model.safetensors").stat().st_mtime_ns
    code, out, _ = command("run", folder / "config.toml", "--json")
    assert code == 0 and json.loads(out)["splits"] == metrics["splits"]
    assert (folder / "model" / "model.safetensors").stat().st_mtime_ns == before
    code, out, _ = command("evaluate", config, "--json")
    assert code == 0 and json.loads(out)["splits"] == metrics["splits"]

    monkeypatch.setattr(sys, "stdin", io.StringIO("A fine film.\n\nMaria came.\n"))
    code, out, _ = command("predict", folder)
    answers = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [answer["input"] for answer in answers] == ["A fine film.", "", "Maria came."]
    assert set(answers[0]) == {"input", "sentiment", "entities", "not_answered"}

    table = tmp_path / "pairs.csv"
    table.write_text("text,text_pair\na cat,a dog\n", encoding="utf-8")
    code, out, _ = command("predict", folder / "model", table, "--task", "similarity")
    assert code == 0 and isinstance(json.loads(out)["value"], float)
    code, _, err = command("predict", folder, table, "--task", "similarty")
    assert (code, err) == (
        2, "brodmann: the model has no task 'similarty'; did you mean 'similarity'?\n",
    )  # fmt: skip


def test_settings_can_be_changed_on_the_line(
    config: Path, tmp_path: Path, command: Command
) -> None:
    words = ["--set", "training.max_steps=2", "--set", "name=other", "--set", "tasks.0.weight=0.5"]
    code, out, _ = command("train", config, "--json", *words)
    folder = tmp_path / "runs" / "other"
    assert code == 0 and json.loads(out)["model"] == str(folder / "model")
    text = (folder / "config.toml").read_text(encoding="utf-8")
    assert "max_steps = 2" in text and "weight = 0.5" in text


def test_a_folder_of_a_run_that_was_killed_at_once(tmp_path: Path) -> None:
    from brodmann.config import load_config
    from brodmann.pipeline.run_folder import check_folder

    path = tmp_path / "demo.toml"
    path.write_text(f'name = "demo"\noutput = "{tmp_path}"\ntasks = ["builtin/topic"]\n', "utf-8")
    config = load_config(path)[0]
    config.folder.mkdir()
    (config.folder / ".config.toml.1f2e3d4c.tmp").write_text("name = ")
    check_folder(config, [])
    (config.folder / "mine.txt").write_text("")
    with pytest.raises(
        InputError, match=r"already holds other files \(mine.txt\) and is not a run"
    ):
        check_folder(config, [])


def test_init_writes_what_run_can_run(tmp_path: Path, command: Command) -> None:
    code, out, _ = command("init", tmp_path / "mine")
    assert (
        code == 0
        and out.splitlines()[-1] == f"next: brodmann run {tmp_path / 'mine' / 'brodmann.toml'}"
    )
    template = (tmp_path / "mine" / "brodmann.toml").read_text("utf-8")
    assert template.count("a tenth of the training examples is held out") == 1
    lines = (tmp_path / "mine" / "names.jsonl").read_text("utf-8").splitlines()
    plain = [row for row in map(json.loads, lines) if set(row["tags"]) == {"O"}]
    assert len(lines) == 400 and len(plain) == 187  # texts without names, or all texts have some
    assert all(len(row["tokens"]) == len(row["tags"]) for row in plain)
    words = ["--set", "training.max_steps=2", "--set", "model.backbone=builtin:tiny"]
    words += ["--set", f"output={tmp_path / 'runs'}", "--set", "dissociation.draws=1"]
    code, out, err = command("run", tmp_path / "mine" / "brodmann.toml", *words)
    assert (code, err) == (0, "")
    assert "; learning rate 0.0002;" in out  # max_steps decides, so no number of epochs is named
    code, _, err = command("init", tmp_path / "mine")
    assert code == 2 and "already exists: nothing was written" in err


def test_named_datasets_from_a_folder(tmp_path: Path, command: Command) -> None:
    from tests.hub_rows import hub_rows, write_dataset, write_split

    from brodmann.data.catalogue import entries

    for name in ("glue/mnli", "superglue/multirc"):
        folder = write_dataset(tmp_path / "data", entries()[name], count=18)
        if name == "glue/mnli":
            write_split(folder, "validation_mismatched", hub_rows(entries()[name], 9))
    config = tmp_path / "named.toml"
    config.write_text(
        'name = "named"\ndata_dir = "data"\ntasks = ["glue/mnli", "superglue/multirc"]\n'
        f"output = '{tmp_path / 'runs'}'\n[model]\nbackbone = \"builtin:tiny\"\n"
        "[training]\nepochs = 1\n",
        encoding="utf-8",
    )
    code, out, err = command("run", config)
    assert (code, err) == (0, "")
    assert "mnli: also evaluated on 9 validation_mismatched examples" in out
    metrics = json.loads((tmp_path / "runs/named/metrics.json").read_text("utf-8"))["splits"]
    assert set(metrics) == {"validation", "validation_mismatched"}
    assert set(metrics["validation_mismatched"]) == {"mnli"}
    assert metrics["validation"]["multirc"]["scores"]["exact_match"] >= 0
    assert "exact_match" in out  # both official metrics are shown


def test_tasks_and_doctor(command: Command) -> None:
    code, out, _ = command("tasks", "--language", "es", "--kind", "tokens", "--json")
    found = [name for task in json.loads(out) for name in task["names"] if name.endswith(":es")]
    assert code == 0 and found == ["builtin/entities:es", "xtreme/panx:es"]
    code, out, _ = command("tasks", "--json")
    assert len([task for task in json.loads(out) if task.get("generated")]) == 11
    code, out, _ = command("tasks")
    assert code == 0 and "sentiment" in out and "xtreme/xnli" in out
    code, out, _ = command("tasks", "glue/mnli")
    assert code == 0 and "nyu-mll/glue" in out and "williams-etal-2018-broad" in out
    code, out, err = command("tasks", "sst2")
    assert code == 2 and "did you mean 'glue/sst2'?" in err
    code, out, err = command("tasks", "--group", "glu")
    assert code == 2 and err == "brodmann: --group glu: no such task; did you mean 'glue'?\n"
    code, out, err = command("tasks", "--fetch", "glue/sst2")
    assert code == 2 and err == "brodmann: --fetch needs --out DIR, the folder to write into\n"
    code, out, _ = command("doctor", "--json")
    checks: dict[str, Any] = {check["name"]: check for check in json.loads(out)["checks"]}
    assert code == 0 and checks["torch"]["ok"] and checks["transformers"]["text"].startswith("5.")
    assert checks["disk"]["text"].endswith(" GB free in this folder")
    assert command("doctor")[0] == 0


@pytest.mark.parametrize(
    "words", [["--help"], *([c, "--help"] for c in ("run", "predict", "tasks"))]
)
def test_help_has_an_example(words: list[str], command: Command) -> None:
    code, out, _ = command(*words)
    assert code == 0
    assert "Use a trained model" in out if len(words) == 1 else "Example: " in out


@pytest.mark.parametrize("name", ["compare", "transfer", "distill", "adapt", "meta"])
def test_help_shows_the_name_of_a_table(name: str, command: Command) -> None:
    assert f"[{name}]" in command(name, "--help")[1]  # not taken for a colour


def test_version(command: Command) -> None:
    from brodmann import __version__

    assert command("--version")[1] == f"brodmann {__version__}\n"


def test_every_command_has_a_purpose_of_one_line(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = command("--help")
    lines = [line.strip("│ ") for line in out.partition("Start")[2].splitlines() if "│" in line]
    assert len(lines) >= 24
    names = [line.split()[0] for line in lines]
    assert "push" in names and "schema" in names
    assert [name for name in names if command(name, "--help")[0] != 0] == []


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    from brodmann.terminal.width import LastingConsole

    monkeypatch.setenv("NO_COLOR", "1")
    console = LastingConsole(force_terminal=True)
    with console.capture() as shown:
        console.print("[red]failed[/red]")
    assert "\x1b[31m" not in shown.get()


def test_no_command_at_all_shows_the_help(command: Command) -> None:
    code, out, err = command()
    assert (code, err) == (0, "")
    assert "Usage: " in out and "One Transformer encoder for many language tasks." in out
    assert out.strip() == command("--help")[1].strip()


def test_tables_that_run_does_not_read_are_named(
    config: Path, tmp_path: Path, command: Command
) -> None:
    text = config.read_text(encoding="utf-8")
    more = "\n[grid]\nvary = { seed = [0, 1] }\n[compare]\narms = ['multi', 'iat']\n"
    config.write_text(text + more, encoding="utf-8")
    before = sorted(tmp_path.rglob("*"))
    for name in ("run", "train"):
        code, _, err = command(name, config, "--set", "training.max_steps=1")
        assert (code, err) == (2, "brodmann: [grid]: this configuration is for `brodmann grid`\n")
    assert sorted(tmp_path.rglob("*")) == before
    quick = ("--set", "training.max_steps=1", "--set", "grid.heads=false", "--set", "name=g")
    code, _, err = command("grid", config, *quick)
    assert (code, err) == (0, "")


def test_an_output_that_cannot_be_written_is_named_before_anything_is_read(
    config: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tempfile

    (tmp_path / "taken").write_text("mine", encoding="utf-8")
    for output, place in (("taken", "taken"), ("taken/deeper", "taken")):
        code, out, err = command("run", config, "--set", f"output={tmp_path}/{output}")
        assert (code, out) == (2, "")
        assert err == (
            f"brodmann: output = '{tmp_path}/{output}': {tmp_path}/{place} is a file, so "
            f"{tmp_path}/{output}/small cannot be a folder: set another 'output' or name\n"
        )

    def refused(dir: Path) -> None:  # noqa: A002 (as tempfile calls it)
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    code, out, err = command("run", config)
    assert (code, out) == (2, "")
    assert err == (
        f"brodmann: output = '{tmp_path}/runs': {tmp_path} cannot be written (Permission denied): "
        "set another 'output', or fix its permissions\n"
    )
    assert not (tmp_path / "runs").exists()
