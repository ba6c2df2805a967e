"""An exported task opens in transformers' own `pipeline` and gives the same answers."""

from pathlib import Path
from typing import Any

import pytest
import transformers
from tests.conftest import every_kind

import brodmann as bm

TEXTS = ["the red cat sat", "a dog ran over there"]


@pytest.fixture(scope="module")
def model() -> bm.MultiTaskModel:
    tasks = [task for task in bm.load_tasks(every_kind(12)) if task.name in ("single", "tag")]
    return bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks, max_length=32)


def opened(model: bm.MultiTaskModel, task: str, kind: Any, folder: Path) -> Any:
    bm.export(model, task, out=folder)
    return transformers.pipeline(kind, str(folder), device="cpu")


def test_a_classifier(model: bm.MultiTaskModel, tmp_path: Path) -> None:
    found = opened(model, "single", "text-classification", tmp_path / "single")(TEXTS)
    for theirs, ours in zip(found, model.predict("single", TEXTS), strict=True):
        assert theirs["label"] == ours["label"]
        assert theirs["score"] == pytest.approx(ours["score"], abs=1e-6)


def test_a_tagger(model: bm.MultiTaskModel, tmp_path: Path) -> None:
    found = opened(model, "tag", "token-classification", tmp_path / "tag")
    (answer,) = model.predict("tag", [TEXTS[0]])
    tags = {piece["start"]: piece["entity"] for piece in found(TEXTS[0], ignore_labels=[])}
    first_pieces = [tags[TEXTS[0].index(word)] for word in TEXTS[0].split()]
    assert first_pieces == answer["tags"]
