"""Runs and models in torch: they answer, and they can say which heads carried an answer."""

from pathlib import Path
from typing import Any

import numpy as np

from brodmann.data.answering.inputs import read_inputs
from brodmann.errors import InputError
from brodmann.measuring.explaining import Explanation, explain_heads
from brodmann.models.multitask import MultiTaskModel
from brodmann.models.predicting import TorchReader
from brodmann.reporting.html import ownership
from brodmann.results import HeadScores
from brodmann.serving.opening import Explaining, Opened

SHOWN_HEADS = 8  # of which the attention is sent
IMPORTANCE = "importance.json"


def of_folder(folder: Path, name: str, device: str) -> Opened:
    """A run or model folder."""
    model = MultiTaskModel.from_pretrained(folder, device=device)
    place = folder if (folder / IMPORTANCE).is_file() else folder.parent
    atlas = None
    if (place / IMPORTANCE).is_file():
        scores = HeadScores.load(place / IMPORTANCE)
        owner, strength = ownership(scores)
        atlas = {
            "tasks": list(scores.tasks),
            "owner": owner.tolist(),
            "strength": np.round(np.asarray(strength, np.float64), 3).tolist(),
            "removed": [list(head) for head in scores.removed],
        }
    return of_model(model, name, atlas)


def of_model(model: MultiTaskModel, name: str, atlas: dict[str, Any] | None = None) -> Opened:
    """A model in memory."""
    return Opened(name, TorchReader(model), _explaining(model), atlas)


def _explaining(model: MultiTaskModel) -> Explaining:
    def explain(task: str, entry: Any, label: str | None) -> dict[str, Any]:
        spec = model.spec(task)
        if spec.kind != "classification":
            raise InputError(
                f"task '{task}' is {spec.kind}: heads are explained for classification"
            )
        (example,) = read_inputs(spec, [entry])
        pair = example.get("text_pair")
        found = explain_heads(model, example["text"], task=task, pair=pair, label=label)
        return _document(found)

    return explain


def _document(found: Explanation) -> dict[str, Any]:
    """The gradient of every head, and where the strongest look: the mean over looking tokens."""
    strongest = found.top(SHOWN_HEADS)
    seen = []
    if found.attention is not None:
        seen = [found.looks_at(head).mean(0, dtype=np.float64) for head, _ in strongest]
    return {
        "answer": found.answer,
        "score": found.score,
        "tokens": found.tokens,
        "gradients": found.gradients.tolist(),
        "top": [
            {
                "layer": layer,
                "head": head,
                "value": value,
                "sees": np.round(seen[place], 4).tolist() if seen else None,
            }
            for place, ((layer, head), value) in enumerate(strongest)
        ],
    }
