"""Adding an architecture, a sampler, a method, a relation or a kind of study: one file, one line.

Each dummy is a few lines in this file, registered for the length of a test, and goes through
training, saving, measuring, planning and the report.
"""

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import brodmann as bm
from brodmann.data.batches import Batch
from brodmann.data.sampling.samplers import SAMPLERS, Sampler
from brodmann.data.sampling.stream import BatchStream, Draw, Feedback, no_feedback
from brodmann.measuring.relations import RELATIONS, Inputs, Relation
from brodmann.models.encoders import ARCHITECTURES, Architecture
from brodmann.models.encoders.shared import SharedEncoder
from brodmann.pipeline.run import run
from brodmann.studies import STUDIES, Study
from brodmann.training.methods import METHODS, Method, Setup

Command = Callable[..., tuple[int, str, str]]
LIMIT = "{ train = 32, validation = 16, test = 16 }"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "dummy.toml"
    path.write_text(f"""
name = "dummy"
tasks = [
  {{ use = "builtin/sentiment", limit = {LIMIT} }},
  {{ use = "builtin/topic", limit = {LIMIT} }},
]
model = {{ backbone = "builtin:tiny", max_length = 32 }}
training = {{ epochs = 1, learning_rate = 1e-3, precision = "float32" }}
map = {{ examples = 16 }}
dissociation = {{ draws = 2, resamples = 20, redraws = 3, exchanges = 2 }}
""")
    return path


def whole_way(command: Command, config: Path, *settings: str) -> dict[str, Any]:
    """Plan, train, save, measure, report and ask; the run's scores."""
    words = [word for setting in settings for word in ("--set", setting)]
    code, _, err = command("plan", config, *words)
    assert code == 0, err
    code, _, err = command("run", config, *words)
    assert code == 0, err
    folder = Path("runs/dummy")
    for name in ("model/model.safetensors", "importance.json", "dissociation.json"):
        assert (folder / name).is_file()
    assert "dummy" in (folder / "report.html").read_text()
    model = bm.MultiTaskModel.from_pretrained(folder)
    assert model.predict("sentiment", ["A wonderful film."])[0]["label"]
    found: dict[str, Any] = json.loads((folder / "metrics.json").read_text())["splits"]
    return found


class Doubled(SharedEncoder):
    """The backbone, read as it is, with a scale that is one more parameter."""

    def forward(self, inputs: Any, parts: Sequence[Any]) -> list[Any]:
        Doubled.used = True  # type: ignore[attr-defined]
        return super().forward(inputs, parts)


def build(backbone: Any, specs: Any, max_length: int, *, strength: float = 1.0) -> Doubled:
    return Doubled(backbone)


def test_an_architecture(command: Command, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = Architecture(__name__, one_pass=True, plain=True)
    monkeypatch.setitem(ARCHITECTURES, "doubled", line)
    whole_way(command, config, "model.architecture=doubled", "model.parameters={strength=2.0}")
    model = bm.MultiTaskModel.from_pretrained("runs/dummy")
    assert isinstance(model.encoder, Doubled) and Doubled.used  # type: ignore[attr-defined]
    code, _, err = command("run", config, "--set", "model.architecture=dubled")
    assert code == 2 and "did you mean 'doubled'" in err


class Alternating(BatchStream):
    """Tasks in turn, the second one only where the model is unsure of the first."""

    def next(self, feedback: Feedback = no_feedback) -> Draw:
        task = self.drawn % len(self.lengths)
        self.drawn += 1
        return Draw({task: self.take(task)}, 1 + (self.drawn - 1) // self.batches_per_epoch)


def only_last(sizes: Any, epoch: int, epochs: int, bias: float = 1.0) -> Any:
    return np.array([bias * 1e-9] * (len(sizes) - 1) + [1.0])


@pytest.mark.parametrize(
    ("line", "share"), [(Sampler(Alternating), 0.5), (Sampler(weights=only_last), 1.0)]
)
def test_a_sampler(
    command: Command, config: Path, monkeypatch: pytest.MonkeyPatch, line: Sampler, share: float
) -> None:
    monkeypatch.setitem(SAMPLERS, "mine", line)
    whole_way(command, config, "training.sampling=mine")
    log = [json.loads(text) for text in Path("runs/dummy/log.jsonl").read_text().splitlines()]
    taken = [entry["examples"] for entry in log if "examples" in entry]
    counts = [sum(entry.get(name, 0) for entry in taken) for name in ("sentiment", "topic")]
    assert counts[1] / sum(counts) == share


class Counting(Method):
    """Counts what the loop calls; begins in the middle, and is resumed with its count."""

    name = "counting"
    calls: list[str]

    def __init__(self, begins: int) -> None:
        self.begins, self.active = begins, False
        Counting.calls = []

    def is_active(self) -> bool:
        return self.active

    def switch(self, tasks: Any) -> dict[str, Any]:
        self.active = True
        self.calls.append("switch")
        return {}

    @contextlib.contextmanager
    def reading(self, batch: Batch) -> Iterator[None]:
        self.calls.append("reading")
        yield

    def combine(self) -> None:
        self.calls.append("combine")

    @contextlib.contextmanager
    def around_step(self, tasks: Any, optimizer: Any) -> Iterator[None]:
        self.calls.append("before")
        yield
        self.calls.append("after")

    def state(self) -> Any:
        return {"begun": True}

    def close(self) -> None:
        self.calls.append("close")

    def finish(self) -> None:
        self.calls.append("finish")


def make(setup: Setup) -> Method | None:
    return Counting(setup.steps - 1)


def test_a_method(command: Command, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "counting", __name__)
    code, out, err = command("train", config)
    assert code == 0, err
    one = ["reading", "combine", "before", "after"]
    assert Counting.calls == [*one, "switch", *one, "close", "finish"]
    assert "from step 1 on, 'counting' is active" in out and "heads" not in out
    log = [json.loads(text) for text in Path("runs/dummy/log.jsonl").read_text().splitlines()]
    assert [entry for entry in log if "begins" in entry] == [{"step": 1, "begins": "counting"}]
    whole_way(command, config)


def measure(inputs: Inputs) -> dict[str, Any]:
    sizes = np.array([len(task.splits["train"]) for task in inputs.tasks], dtype=float)
    return {"examples": inputs.examples, "matrix": np.minimum.outer(sizes, sizes).tolist()}


def test_a_relation(command: Command, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = Relation("run", f"{__name__}:measure", "the smaller of two training sets")
    monkeypatch.setitem(RELATIONS, "size", line)
    assert command("run", config)[0] == 0
    code, out, err = command("relate", config, "--by", "size")
    assert code == 0, err
    assert "SIZE" in out
    stored = json.loads(Path("runs/dummy/similarity.json").read_text())
    assert stored["size"]["matrix"] == [[32.0, 32.0], [32.0, 32.0]]
    assert command("report", "runs/dummy")[0] == 0
    assert "the smaller of two training sets" in Path("runs/dummy/report.html").read_text()


class Twice(Study):
    """The same run with two seeds."""

    command = "study"

    def runs(self, config: Any) -> dict[str, Any]:
        changes = {"study": None, "output": str(config.folder)}
        return {
            f"seed {seed}": config.model_copy(
                update={**changes, "seed": seed, "name": f"seed{seed}"}
            )
            for seed in range(config.study.model_extra["seeds"])
        }

    def folders(self, config: Any) -> list[Path]:
        return [one.folder for one in self.runs(config).values()]

    def run(self, config: Any, base: Path, report: Any, **options: Any) -> dict[str, Any]:
        return {label: run(one, base, report) for label, one in self.runs(config).items()}

    def plan(
        self, config: Any, base: Path, report: Any, *, speed: float | None, heads: bool
    ) -> dict[str, Any]:
        return {"runs": list(self.runs(config))}


STUDY = Twice()


def test_a_kind_of_study(command: Command, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STUDIES, "twice", __name__)
    own = ("--set", "study.kind=twice", "--set", "study.seeds=2")
    code, out, _ = command("plan", config, *own, "--json")
    assert code == 0 and json.loads(out) == {"runs": ["seed 0", "seed 1"]}
    code, out, err = command("study", config, *own, "--json")
    assert code == 0, err
    assert set(json.loads(out.splitlines()[-1])) == {"seed 0", "seed 1"}
    for seed in (0, 1):
        assert (Path("runs/dummy") / f"seed{seed}" / "model" / "model.safetensors").is_file()
        assert command("report", f"runs/dummy/seed{seed}")[0] == 0
    page = Path("runs/dummy/report.html").read_text()
    assert "seed0" in page and "seed1" in page
    code, _, err = command("study", config, "--set", "study.kind=twise")
    assert code == 2 and "did you mean 'twice'" in err
    code, _, err = command("run", config, *own)
    assert code == 2 and "`brodmann study`" in err
