"""What a search found, as a document: trials, the task that blocks, and what is left."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from brodmann.measuring.points_lost import Loss
from brodmann.pipeline.smaller.bisection import Search, Trial, blocker, provable
from brodmann.pipeline.smaller.candidates import TOKENS, Survey

if TYPE_CHECKING:
    from brodmann.models.multitask import MultiTaskModel

SHAPES = ((1, TOKENS), (32, TOKENS))  # texts and tokens of the reported speeds


def facts_of(search: Search, held: Trial | None) -> dict[str, Any]:
    """The task that blocks and how far the others get without it; trials, blocks, few examples."""
    known, blocking = search.known, blocker(search.trials, search.lose)
    found: dict[str, Any] = {"blocking": None}
    if blocking is not None:
        found["blocking"] = blocking_task(search, blocking)
        if len(search.judge.tasks) > 1:
            search.fastest(without=blocking, slower=held)
    found["trials"] = [trial_document(known, trial) for trial in search.trials]
    found["blocks"] = [
        {"kind": block.kind, "layer": block.layer, "units": block.units, "width": block.width}
        for block in known.blocks
    ]
    nothing = search.judge.losses(search.judge.before)
    found["unprovable"] = [t for t, loss in nothing.items() if not provable(loss, search.lose)]
    return found


def measured(whole: Any, small: Any) -> dict[str, Any]:
    """Speeds of both models in turn, at one text and at a batch, and their parameters."""
    from brodmann.measuring.block_times import speed_ratio

    return {
        "speed": {
            f"{texts} × {tokens}": speed_ratio(whole, small, texts, tokens)
            for texts, tokens in SHAPES
        },
        "parameters": [model.parameter_counts()["total"] for model in (whole, small)],
    }


def blocking_task(search: Search, task: str) -> dict[str, Any]:
    """How much the task needs each head (its importance), and the neurons of each layer."""
    known = search.known
    gradients = np.abs(known.sensitivity.gradients[task]).mean(axis=0)
    starts = np.cumsum([0, *[block.units for block in known.blocks]])
    heads: list[tuple[int, int, float]] = []
    neurons: dict[str, float] = {}
    for block, start in zip(known.blocks, starts, strict=False):
        values = gradients[start : start + block.units]
        for unit, several in enumerate(block.heads):
            heads += [(block.layer, head, float(values[unit])) for head in several]
        if not block.heads:
            neurons[str(block.layer)] = float(values.sum())
    heads.sort(key=lambda entry: -entry[2])
    total = sum(neurons.values()) or 1.0
    shares = {layer: value / total for layer, value in neurons.items()}
    return {"task": task, "heads": heads, "neurons": shares}


def trial_document(known: Survey, trial: Trial) -> dict[str, Any]:
    return {
        "share": trial.share,
        "speed": 1.0 / known.predicted(trial.choice),
        "units": trial.units,
        "losses": documents(trial.losses),
        "holds": trial.holds,
        "without": trial.without,
    }


def documents(losses: Mapping[str, Loss]) -> dict[str, Any]:
    return {task: asdict(loss) for task, loss in losses.items()}


def left_units(small: "MultiTaskModel", known: Survey) -> list[int]:
    """Units left in each block of the written model."""
    from brodmann.models.backbone.anatomy import bare_models, kept_heads
    from brodmann.models.backbone.feed_forward import neurons_left

    bare = bare_models(small)[0]
    heads, neurons = kept_heads(bare), neurons_left(bare)
    return [
        len(heads[block.layer]) // len(block.heads[0]) if block.heads else neurons[block.output]
        for block in known.blocks
    ]
