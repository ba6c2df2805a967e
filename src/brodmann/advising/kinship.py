"""How the tasks relate before any of them is trained: by their words and by a frozen encoder.

Two matrices are averaged: the share of the target's words that the source has, and the cosine of
the tasks' mean representations around the mean of all tasks, scaled to 0 … 1. Their clusters are
the groups to try.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from brodmann.data.tasks import Task
from brodmann.files import Array, without_nan
from brodmann.measuring.relations import Inputs
from brodmann.measuring.relations.of_data import share_words, training_texts
from brodmann.pipeline.relate import described

TEXTS = 200  # per task, whose representations are averaged


def relate_all(model: Any, tasks: Sequence[Task], seed: int) -> dict[str, Any]:
    """The two relations, their mean, and its clusters."""
    inputs = Inputs(tasks=tasks, examples=0, batch_size=1, precision="float32", seed=seed)
    words = share_words(inputs)["matrix"]
    states = _cosines(model, tasks)
    found = described((words + states) / 2, inputs.names, "words and representations", None, seed)
    return {
        "tasks": inputs.names,
        "words": without_nan(words),
        "representations": without_nan(states),
        "clusters": found["clusters"],
        "silhouette": found["suggested"]["silhouette"],
    }


def _cosines(model: Any, tasks: Sequence[Task]) -> Array:
    from brodmann.models.representations import sentence_representations

    means = []
    for task in tasks:
        texts = list(dict.fromkeys(training_texts(task)))[:TEXTS]
        means.append(sentence_representations(model, task.name, texts).mean(axis=0))
    centred = np.array(means) - np.mean(means, axis=0)
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    unit = centred / np.where(lengths > 0, lengths, 1.0)
    return np.asarray((1 + unit @ unit.T) / 2)
