"""A metric is one entry in a kind's METRICS: all stages, from training to the report, follow."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import brodmann as bm
from brodmann.data.kinds import classification, every_score
from brodmann.data.metrics import Metric, of_counts
from brodmann.data.tasks import TaskSpec

Command = Callable[..., tuple[int, str, str]]

CONFIG = """
name = "judged"
output = "{output}"
[[tasks]]
use = "builtin/sentiment"
metric = "balanced_accuracy"
limit = {{ train = 128, validation = 32, test = 32 }}
[[tasks]]
use = "builtin/topic"
metrics = ["accuracy", "balanced_accuracy"]
limit = {{ train = 128, validation = 32, test = 32 }}
[model]
backbone = "builtin:tiny"
[training]
epochs = 8
batch_size = 16
learning_rate = 3e-3
[dissociation]
draws = 2
resamples = 50
"""


def recalls(predictions: Sequence[Any], examples: Sequence[Any], spec: Any) -> Any:
    """(example, 2 per label): whether the label was found, and whether it was there."""
    truth = np.eye(len(spec.label_list))[[example["label"] for example in examples]]
    guess = np.eye(len(spec.label_list))[[spec.label_places[p["label"]] for p in predictions]]
    return np.hstack([truth * guess, truth])


def mean_recall(totals: Any) -> Any:
    found, there = np.hsplit(totals, 2)
    return (found / np.maximum(there, 1)).sum(axis=1) / (there > 0).sum(axis=1)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    metric = Metric(recalls, of_counts(mean_recall))
    monkeypatch.setitem(classification.METRICS, "balanced_accuracy", metric)


@pytest.mark.slow
def test_a_new_metric_goes_from_training_to_the_report(
    registered: None, tmp_path: Path, command: Command
) -> None:
    config = tmp_path / "judged.toml"
    config.write_text(CONFIG.format(output=tmp_path / "runs"), encoding="utf-8")
    code, out, err = command("run", config)
    assert (code, err) == (0, "") and "balanced_accuracy" in out
    folder = tmp_path / "runs" / "judged"

    lines = (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
    judged = [line["scores"] for line in map(json.loads, lines) if "scores" in line]
    assert judged and all("balanced_accuracy" in scores["sentiment"] for scores in judged)

    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))["splits"]
    entry = metrics["validation"]["sentiment"]
    assert entry["metric"] == "balanced_accuracy"
    assert entry["score"] == entry["scores"]["balanced_accuracy"]
    low, high = entry["interval"]
    assert 0 <= low < entry["score"] < high <= 1
    assert entry["score"] > entry["trivial"] == 0.5  # always the same label
    assert "balanced_accuracy" in metrics["validation"]["topic"]["scores"]
    assert metrics["validation"]["topic"]["metric"] == "accuracy"

    dissociation = bm.Dissociation.load(folder / "dissociation.json")
    place = dissociation.tasks.index("sentiment")
    assert dissociation.metrics[place] == "balanced_accuracy"
    assert dissociation.base[place] == entry["score"]
    low, high = dissociation.intervals["per_task"][place]
    assert low <= dissociation.per_task[place] <= high
    with np.load(folder / "outcomes.npz") as stored:
        assert stored["sentiment|base"].shape == (32, 4)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert f"balanced_accuracy</td><td>{100 * entry['score']:.1f}</td>" in page


def test_the_new_metric_is_scored_as_scikit_learn_does(registered: None) -> None:
    from sklearn.metrics import balanced_accuracy_score

    spec = TaskSpec("t", "classification", labels=("a", "b", "c"))
    truth = [place * place % 3 for place in range(20)] + [2]
    guess = [place % 3 for place in range(20)] + [2]
    examples = [{"label": place} for place in truth]
    scores = every_score([{"label": "abc"[place]} for place in guess], examples, spec)
    assert scores["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(truth, guess))


def test_without_its_entry_it_is_unknown(tmp_path: Path, command: Command) -> None:
    config = tmp_path / "judged.toml"
    config.write_text(CONFIG.format(output=tmp_path / "runs"), encoding="utf-8")
    code, _, err = command("run", config)
    assert code == 2 and "unknown metric 'balanced_accuracy'" in err
