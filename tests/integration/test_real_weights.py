"""Real pretrained weights: the demo learns, and real text gives the scores one may expect."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
Command = Callable[..., tuple[int, str, str]]


def test_minilm_loads_and_reads() -> None:
    import brodmann as bm

    sizes = {"train": 8, "validation": 8, "test": 8}
    tasks = bm.load_tasks([{"use": "builtin/sentiment", "limit": sizes}])
    model = bm.MultiTaskModel.from_pretrained("builtin:minilm", tasks)
    assert model.parameter_counts()["encoder"] == 22_713_216
    assert len(model.predict("sentiment", ["A wonderful film."])) == 1


@pytest.mark.slow
def test_the_demo_is_clearly_better_than_the_majority_on_every_task(
    tmp_path: Path, command: Command
) -> None:
    demo = ROOT / "examples" / "demo.toml"
    assert command("run", demo, "--set", f"output={tmp_path}")[0] == 0
    metrics = json.loads((tmp_path / "demo" / "metrics.json").read_text(encoding="utf-8"))
    for name, result in metrics["splits"]["validation"].items():
        assert result["score"] > result["trivial"] + 0.2, name


@pytest.mark.realdata
def test_real_tasks_reach_their_scores(tmp_path: Path, command: Command) -> None:
    data = os.environ.get("BRODMANN_DATA")
    assert data, "BRODMANN_DATA names the folder of datasets"
    words = ["--set", f"data_dir={data}", "--set", f"output={tmp_path}"]
    assert command("run", ROOT / "examples" / "glue_small.toml", *words)[0] == 0
    metrics = json.loads((tmp_path / "glue-small" / "metrics.json").read_text(encoding="utf-8"))
    scores = {name: result["score"] for name, result in metrics["splits"]["validation"].items()}
    # Measured 83.9 and 81.0; a seed moves SST-2's 872 sentences by a point or two.
    assert scores["sst2"] > 0.82 and scores["qnli"] > 0.78, scores
