"""What a model gets wrong: from its predictions on a split to `Mistakes`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from brodmann.analysis.mistake_lists import mistakes_of
from brodmann.data.tasks import Task
from brodmann.models.model_settings import EVALUATION_BATCH
from brodmann.results import Mistakes

if TYPE_CHECKING:
    from brodmann.models.evaluation import Evaluation, Progress
    from brodmann.models.multitask import MultiTaskModel


def mistakes(
    model: "MultiTaskModel",
    tasks: Sequence[Task],
    *,
    split: str = "validation",
    texts: bool = True,
    batch_size: int = EVALUATION_BATCH,
    precision: str = "float32",
    progress: "Progress | None" = None,
) -> Mistakes:
    """Find what a model gets wrong: confusions, scores of labels, the most confident mistakes.

    Also lists the least certain answers and suspected label errors; for these, the model must not
    have been trained on the split. Without `texts`, examples are named by their rows alone.
    """
    from brodmann.models.evaluation import evaluate

    measured = evaluate(
        model, tasks, split=split, batch_size=batch_size, precision=precision, progress=progress
    )
    return mistakes_in(measured, tasks, split=split, texts=texts)


def mistakes_in(
    measured: "Mapping[str, Evaluation]", tasks: Sequence[Task], *, split: str, texts: bool
) -> Mistakes:
    """The same from predictions that are there."""
    return Mistakes(
        {
            task.name: mistakes_of(
                measured[task.name].predictions, task.splits[split], task.spec, texts=texts
            )
            for task in tasks
            if task.name in measured
        }
    )
