"""compress: from a run to a smaller model with a promise, by command and by verb."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.conftest import in_process

import brodmann as bm

pytestmark = pytest.mark.long
Command = Callable[..., tuple[int, str, str]]
CONFIG = """
name = "small"
output = "{output}"
[[tasks]]
use = "builtin/sentiment"
limit = {{ train = 96, validation = 400, test = 300 }}
[[tasks]]
use = "builtin/topic"
limit = {{ train = 96, validation = 400, test = 300 }}
[model]
backbone = "builtin:tiny"
architecture = "{architecture}"
[training]
epochs = 3
batch_size = 16
learning_rate = 2e-3
"""


def trained_run(folder: Path, architecture: str) -> Path:
    path = folder / "small.toml"
    path.write_text(CONFIG.format(output=folder / "runs", architecture=architecture))
    code, _, err = in_process("train", path)
    assert code == 0, err
    return folder / "runs" / "small"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_run(tmp_path_factory.mktemp("trained"), "shared")


@pytest.fixture
def compressed(trained: Path, command: Command) -> dict[str, object]:
    """What the command finds if much may be lost."""
    if not (trained / "compression.json").is_file():
        code, out, err = command("compress", trained, "--lose", "8", "--json")
        assert code == 0, err
        stored = json.loads((trained / "compression.json").read_text())
        assert stored.pop("schema_version") == 1 and stored == json.loads(out)
    return json.loads((trained / "compression.json").read_text())


def test_a_smaller_model_is_written_and_works(
    trained: Path, compressed: dict[str, object], command: Command
) -> None:
    before, after = compressed["parameters"]
    assert after < before and compressed["speed"].keys() == {"1 × 128", "32 × 128"}
    assert any(not trial["holds"] for trial in compressed["trials"])
    small = bm.MultiTaskModel.from_pretrained(trained / "compressed")
    whole = bm.Run(trained).load_model()
    assert small.parameter_counts()["total"] == after
    assert whole.parameter_counts()["total"] == before
    tasks = bm.load_tasks([{"use": "builtin/topic", "limit": {"train": 8, "test": 300}}])
    found = bm.evaluate(small, tasks, split="test")["topic"].scores["accuracy"]
    assert found == pytest.approx(compressed["confirmed"]["topic"]["after"])
    entry = compressed["confirmed"]["topic"]
    assert entry["points"] == pytest.approx(100 * (entry["before"] - entry["after"]))
    assert compressed["verdict"] in ("confirmed", "consistent", "refuted")
    assert not (trained / "compression" / "trials.jsonl").exists()
    code, _, _ = command("report", trained)
    page = (trained / "report.html").read_text("utf-8")
    assert code == 0 and "A smaller model" in page and "Each task may lose 8 points" in page


def test_a_smaller_model_is_exported_mapped_and_predicts(
    trained: Path, compressed: dict[str, object], command: Command, tmp_path: Path
) -> None:
    small = bm.MultiTaskModel.from_pretrained(trained / "compressed")
    texts = ["The soup was cold.", "A wonderful film."]
    answers = bm.predict(small, texts, "sentiment")
    out = tmp_path / "package"
    code, _, err = command("export", trained / "compressed", "--to", "onnx", "--out", out)
    assert code == 0, err
    from brodmann import runtime

    package = runtime.load(out)
    assert [a["label"] for a in package.predict("sentiment", texts)] == [
        a["label"] for a in answers
    ]
    tasks = bm.load_tasks([{"use": "builtin/topic", "limit": 40}])
    scores = bm.head_importance(small, tasks, examples=20)
    left = sum(
        units
        for block, units in zip(compressed["blocks"], compressed["left"], strict=True)
        if block["kind"] == "attention"
    )
    assert scores.heads == left
    stock = tmp_path / "stock"
    code, _, err = command(
        "export", trained / "compressed", "--task", "topic", "--zeroed", "--out", stock
    )
    assert code in (0, 2) and (code == 0 or "emptied block" in err)


def test_nothing_is_written_if_nothing_holds(
    trained: Path, command: Command, tmp_path: Path
) -> None:
    out = tmp_path / "small"
    asked = ("--lose", "0.001", "--latency", "0.5")
    code, shown, err = command("compress", trained, *asked, "--out", out)
    assert code == 1, err
    assert "No model at latency 0.5 keeps every task within 0.001 points" in shown
    assert "too few validation examples" in shown and "no model was written" in shown
    assert not out.exists()
    (trained / "compression.json").unlink()


@pytest.mark.parametrize(
    "architecture",
    ["ca_mtl", *(pytest.param(name, marks=pytest.mark.slow) for name in ("single", "adapters"))],
)
def test_other_architectures(architecture: str, tmp_path: Path) -> None:
    run = trained_run(tmp_path, architecture)
    found = bm.compress(run, lose=30, latency=0.8)
    assert found.folder == run / "compressed"
    assert found.document["parameters"][1] < found.document["parameters"][0]
    assert {row["task"] for row in found.rows} == {"sentiment", "topic"}
    small = bm.MultiTaskModel.from_pretrained(found.folder)
    assert len(bm.predict(small, ["A wonderful film."], "sentiment")) == 1


def test_a_model_in_memory_a_dropped_task_and_a_vocabulary(trained: Path, tmp_path: Path) -> None:
    model = bm.Run(trained).load_model()
    before = [p.detach().clone() for p in model.parameters()]
    uses = [{"use": f"builtin/{name}", "limit": {"train": 96, "validation": 300, "test": 300}}
            for name in ("sentiment", "topic")]  # fmt: skip
    tasks = bm.load_tasks(uses)
    found = bm.compress(
        model, tasks, lose=30, size=0.7, vocabulary="data", drop=["topic"], out=tmp_path / "small"
    )
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    small = bm.MultiTaskModel.from_pretrained(tmp_path / "small")
    assert list(small.specs) == ["sentiment"]
    whole, left = found.document["parameters"]
    assert left <= 0.7 * whole
    assert small.config.vocab_size == found.document["vocabulary"]["after"]
    with pytest.raises(bm.InputError, match="needs tasks"):
        bm.compress(model)


@pytest.mark.slow
def test_recovery_goes_further_than_cutting(trained: Path, tmp_path: Path) -> None:
    found = bm.compress(trained, lose=6, recover=1, out=tmp_path / "recovered").document
    steps = found["recovered"]
    shares = [step["share"] for step in steps]
    assert shares == sorted(shares, reverse=True) and len(steps) >= 1
    assert all(step["holds"] for step in steps[:-1])
    assert not (trained / "compression").exists()


@pytest.mark.slow
def test_an_interrupted_search_goes_on_where_it_was(trained: Path, tmp_path: Path) -> None:
    """Killed after its first trial, a search finds the same as one that was left alone."""
    target = tmp_path / "small"
    options = ["--lose", "15", "--out", str(target), "--json"]
    command = [sys.executable, "-m", "brodmann", "compress", str(trained), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    trials = trained / "compression" / "trials.jsonl"
    for _ in range(3000):
        seen = trials.read_text() if trials.is_file() else ""
        if '"key"' in seen or process.poll() is not None:  # the first trial is stored
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    kept = trials.read_text().splitlines()
    assert kept and not target.exists()
    found = bm.compress(trained, lose=15, out=target).document
    times, first = (json.loads(line) for line in kept[:2])
    assert times["times"]["whole"] > times["times"]["rest"] > 0
    assert json.loads(json.dumps(found["trials"][0]["losses"])) == first["trial"]["losses"]
    assert found["trials"][0]["units"] == first["trial"]["units"]
    (trained / "compression.json").unlink()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--lose", "0"], "expected points between 0 and 100"),
        (["--latency", "1.5"], "expected a share between 0 and 1"),
        (["--latency", "0.5", "--size", "0.5"], "give one of them"),
        (["--latency", "0.001"], "the parts that are never cut already take more"),
        (["--vocabulary", "nowhere.txt"], "expected keep, data or a text file"),
        (["--drop", "topics"], "did you mean 'topic'"),
        (["--drop", "topic", "--drop", "sentiment"], "no task would be left"),
    ],
)
def test_bad_input_is_one_line(
    trained: Path, options: list[str], told: str, command: Command
) -> None:
    code, _, err = command("compress", trained, *options)
    assert code == 2 and told in err and "Traceback" not in err
