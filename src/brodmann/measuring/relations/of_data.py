"""Relations from the training data alone: common words, common groups."""

from collections.abc import Iterable
from typing import Any

from brodmann.analysis.relevance import group_matrix, vocabulary, vocabulary_matrix, words
from brodmann.data.tasks import TEXT_COLUMNS, Task
from brodmann.errors import InputError
from brodmann.measuring.relations import Inputs


def share_words(inputs: Inputs) -> dict[str, Any]:
    """Share of each task's vocabulary that the others have."""
    split = inputs.split or words
    found = [vocabulary(training_texts(task), split) for task in inputs.tasks]
    return {"matrix": vocabulary_matrix(found)}


def share_groups(inputs: Inputs) -> dict[str, Any]:
    """Which tasks declare the same group."""
    if not any(task.spec.group for task in inputs.tasks):
        raise InputError("no task names a group: set some (group = ...), or use --by words")
    return {"matrix": group_matrix([task.spec.group for task in inputs.tasks])}


def training_texts(task: Task) -> Iterable[str]:
    """Yield every text of the training examples."""
    for example in task.splits["train"]:
        for column in TEXT_COLUMNS:
            value = example.get(column)
            if isinstance(value, str):
                yield value
            elif isinstance(value, list):
                yield " ".join(str(one) for one in value)
