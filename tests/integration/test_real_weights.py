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
        assert result["score"] > result["trivial"] + 0.15, name
    import brodmann as bm

    result = bm.Dissociation.load(tmp_path / "demo" / "dissociation.json")
    place = {name: number for number, name in enumerate(result.tasks)}
    strangers = result.verdicts[place["sentiment"]][place["entities"]]
    assert strangers == "double-distinct", result.pairwise
    assert result.pairwise[place["sentiment"]][place["opinion"]] == pytest.approx(0, abs=0.1)


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


@pytest.mark.slow
def test_known_structure_is_found_in_the_heads() -> None:
    """Twins share their heads; tasks that share nothing separate."""
    import brodmann as bm
    from brodmann.data.builtin import SHARES_NOTHING, TWINS

    assert TWINS == ("sentiment", "opinion") and SHARES_NOTHING == ("sentiment", "entities")
    limit = {"train": 300, "validation": 100, "test": 5}
    names = ("sentiment", "opinion", "entities")
    tasks = bm.load_tasks([{"use": f"builtin/{name}", "limit": limit} for name in names])
    model = bm.MultiTaskModel.from_pretrained("builtin:minilm", tasks, max_length=64)
    bm.fit(model, tasks, epochs=3, learning_rate=2e-4, precision="auto", batch_size=16)
    scores = bm.head_importance(model, tasks, examples=100, precision="auto")
    result = bm.dissociation(model, tasks, scores, draws=0, resamples=200, precision="auto")
    assert not result.undertrained and not result.undefined
    twins = [result.pairwise[0][1], result.pairwise[1][0]]
    strangers = [result.pairwise[0][2], result.pairwise[2][0]]
    # Over four seeds the means were -0.06 to 0 and 0.27 to 0.55; in two of them, sentiment falls to
    # chance without the heads of entities as well.
    assert sum(twins) / 2 < 0.1 < 0.2 < sum(strangers) / 2, (twins, strangers)
    assert strangers[1] > 0.4, strangers
    assert result.overlap[0][1] > 0.6 > result.overlap[0][2]
