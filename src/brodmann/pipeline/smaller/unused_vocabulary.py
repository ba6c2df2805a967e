"""Which pieces of the vocabulary a model keeps, from the texts in use."""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from brodmann.data.tasks import Task

if TYPE_CHECKING:
    from brodmann.models.multitask import MultiTaskModel

CHECKED = 200  # texts per task that both tokenizers must read alike


def cut_unused(
    model: "MultiTaskModel", tasks: Sequence[Task], vocabulary: str
) -> tuple["MultiTaskModel", dict[str, Any] | None]:
    """A copy with the pieces that training and validation texts use, or the model itself."""
    from brodmann.models.smaller.vocabulary import cut_vocabulary, pieces_to_keep

    if vocabulary == "keep":
        return model, None
    used: set[int] = set()
    for task in tasks:
        for split in ("train", "validation"):
            used |= set(np.unique(model.encode(task.spec, task.splits.get(split, [])).ids).tolist())
    texts = list(dict.fromkeys(text for task in tasks for text in some_texts(task)))
    if vocabulary != "data":
        lines = [
            line
            for line in Path(vocabulary).read_text(encoding="utf-8").splitlines()
            if line.strip()
        ]
        for start in range(0, len(lines), 1000):
            for ids in model.tokenizer(lines[start : start + 1000])["input_ids"]:
                used |= set(ids)
        texts += lines[:CHECKED]
    kept = pieces_to_keep(model.tokenizer, used)
    small = copy.deepcopy(model)
    cut_vocabulary(small, kept, texts)
    return small, {"from": vocabulary, "before": model.config.vocab_size, "after": len(kept)}


def some_texts(task: Task) -> list[str]:
    """Texts of a task that both tokenizers must read alike."""
    rows = task.splits["train"][:CHECKED]
    return [value for row in rows for value in row.values() if isinstance(value, str)]
