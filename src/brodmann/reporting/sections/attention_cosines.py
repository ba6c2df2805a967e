"""Where two models attend alike: attention maps head by head (HMNet, Figures 5 and 6)."""

from collections.abc import Sequence

import numpy as np

from brodmann.files import Array
from brodmann.reporting.blocks import Block, Matrix, Section, Words
from brodmann.reporting.record import Study
from brodmann.results import AttentionMaps


def section(study: Study) -> Section | None:
    run = next((run for run in study.runs if "attention-maps" in run.measures), None)
    if run is None:
        return None
    found = run.measures["attention-maps"]
    maps = AttentionMaps(found["tasks"], found["maps"], tuple(found["runs"]), found["examples"])
    return Section("attention", "Where the two models look", [*layers(maps), *heads(maps)])


def layers(maps: AttentionMaps) -> list[Block]:
    """Mean over heads, layer by task."""
    one, other = maps.runs
    text = (
        f"Mean cosine between the attention maps of {one} and {other} on the same texts "
        f"(at most {maps.examples:,} per task); the last layer is on top. 100 %: the heads look "
        "where they look in the other model."
    )
    means = maps.values.mean(axis=2).T[::-1]
    return [Words(text), _matrix(means, maps.tasks, "Cosine (%), mean over a layer's heads.", 1)]


def heads(maps: AttentionMaps) -> list[Block]:
    """Every head, layer by head, for every task."""
    return [
        _matrix(
            values[::-1],
            [str(head) for head in range(values.shape[1])],
            f"{task}: cosine (%) of every head.",
            0,
        )
        for task, values in zip(maps.tasks, maps.values, strict=True)
    ]


def _matrix(values: Array, columns: Sequence[str], caption: str, digits: int) -> Matrix:
    rows = [f"layer {len(values) - 1 - place}" for place in range(len(values))]
    shades = ((values - values.min()) / (np.ptp(values) or 1.0)).tolist()
    return Matrix(rows, columns, values.tolist(), caption, shades, digits=digits, numbered=False)
