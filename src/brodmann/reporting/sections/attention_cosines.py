"""Where two models look alike: attention maps head by head (HMNet, Figures 5 and 6)."""

from typing import Any

import numpy as np

from brodmann.reporting.blocks import Matrix, Section, Words
from brodmann.reporting.record import Study


def section(study: Study) -> Section | None:
    run = next((run for run in study.runs if "attention-maps" in run.measures), None)
    if run is None:
        return None
    found = run.measures["attention-maps"]
    one, other = found["runs"]
    text = (
        f"Mean cosine between the attention maps of {one} and {other} on the same texts "
        f"({found['examples']:,} a task at most), layer by head; the last layer is on top. 100 %: "
        "the head looks where it looks in the other model."
    )
    blocks: list[Any] = [Words(text)]
    for task, values in zip(found["tasks"], found["maps"], strict=True):
        layers = np.array(values, dtype=float)[::-1]
        rows = [f"layer {len(layers) - 1 - place}" for place in range(len(layers))]
        means = ", ".join(f"{100 * layer.mean():.0f}" for layer in layers[::-1])
        caption = f"{task}: cosine (%) of every head. Mean by layer, from the input on: {means}."
        columns = [str(head) for head in range(layers.shape[1])]
        shades = ((layers - layers.min()) / (np.ptp(layers) or 1.0)).tolist()
        block = Matrix(rows, columns, layers.tolist(), caption, shades, digits=0, numbered=False)
        blocks.append(block)
    return Section("attention", "Where the two models look", blocks)
