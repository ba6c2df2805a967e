"""`bm.advise` with real weights: what can be learnt is learnt, noise is not shared."""

import json
import random
from pathlib import Path

import pytest

import brodmann as bm
from brodmann.data import builtin

ROWS = 240


@pytest.mark.slow
def test_minilm_learns_what_is_there_and_leaves_noise_alone(tmp_path: Path) -> None:
    def rows(task: str, seed: int = 0) -> list[dict[str, str]]:
        return builtin.generate(task, "en", sizes={"train": ROWS}, seed=seed)["train"]

    noise = [row["label"] for row in rows("topic", 1)]
    random.Random(0).shuffle(noise)
    files = {
        "feeling": [{"u": r["text"], "v": r["label"]} for r in rows("sentiment")],
        "about": [{"body": r["text"], "k": r["label"]} for r in rows("topic")],
        "noise": [{"b": r["text"], "k": y} for r, y in zip(rows("topic", 1), noise, strict=True)],
    }
    paths = []
    for name, own in files.items():
        paths.append(tmp_path / f"{name}.jsonl")
        paths[-1].write_text("".join(json.dumps(row) + "\n" for row in own))
    advice = bm.advise(paths, budget="4m", to=tmp_path / "advice")
    assert advice is not None
    found = advice.document
    assert found["without_signal"] == ["noise"]
    assert found["scores"]["about"]["chosen"] > 0.8
    shared = {task for group in found["choice"]["shared"] for task in group}
    assert shared <= {"feeling", "about"}
    assert bm.Run(found["models"][0]["folder"]).scores["test"]
