"""Which pieces of the vocabulary a model keeps, from the texts in use."""

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from brodmann.data.sources.decoding import read_text
from brodmann.data.tasks import Example, Task
from brodmann.errors import InputError

if TYPE_CHECKING:
    from brodmann.models.multitask import MultiTaskModel

CHECKED = 200  # examples per task, and lines, that both tokenizers must read alike


def cut_unused(
    model: "MultiTaskModel",
    tasks: Sequence[Task],
    searched: Mapping[str, Sequence[Example]],
    vocabulary: str,
) -> tuple["MultiTaskModel", dict[str, Any] | None]:
    """A copy with the pieces that known texts use, or the model itself.

    Known are training texts, those searched on, and the lines of the file that `vocabulary` names.
    """
    from brodmann.models.smaller.vocabulary import cut_vocabulary, pieces_to_keep

    if vocabulary == "keep":
        return model, None
    used: set[int] = set()
    for task in tasks:
        for examples in (task.splits["train"], searched[task.name]):
            used |= set(np.unique(model.encode(task.spec, examples).ids).tolist())
    lines: list[str] = []
    if vocabulary != "data":
        text, _ = read_text(Path(vocabulary), "utf-8")
        lines = [line for line in text.splitlines() if line.strip()]
        for start in range(0, len(lines), 1000):
            for ids in model.tokenizer(lines[start : start + 1000])["input_ids"]:
                used |= set(ids)
    kept = pieces_to_keep(model.tokenizer, used)
    small = copy.deepcopy(model)
    cut_vocabulary(small, kept, lines[:CHECKED])
    for task in tasks:
        examples = task.splits["train"][:CHECKED]
        before, after = (one.encode(task.spec, examples).ids for one in (model, small))
        if not np.array_equal(before, kept[after]):
            raise InputError(
                f"the vocabulary cannot be cut: texts of task '{task.name}' would be read "
                "differently; use --vocabulary keep"
            )
    return small, {"from": vocabulary, "before": model.config.vocab_size, "after": len(kept)}
