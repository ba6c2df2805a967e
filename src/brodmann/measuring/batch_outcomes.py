"""Outcomes of any transformers model on batches of its user, scored row by row."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from brodmann.data.metrics import mean
from brodmann.errors import InputError
from brodmann.files import Array
from brodmann.measuring.head_outcomes import HeadOutcomes, Progress
from brodmann.results import Head

RowScores = Callable[..., torch.Tensor | Array]  # outputs, batch → one number per row


@dataclass(frozen=True)
class BatchTask:
    """A task that is only known by its batches."""

    name: str
    batches: list[Any]


def batch_tasks(tasks: Mapping[str, Iterable[Any]]) -> list[BatchTask]:
    return [BatchTask(name, list(batches)) for name, batches in tasks.items()]


class BatchOutcomes(HeadOutcomes):
    """The mean over rows of `score(outputs, batch)`; by default, the share of right answers."""

    def __init__(
        self,
        model: Any,
        tasks: Sequence[BatchTask],
        score: RowScores | None,
        precision: str,
        progress: Progress | None,
    ) -> None:
        super().__init__(tasks)
        self.model, self.judge, self.precision = model, score or right_answers, precision
        self.progress = progress
        self.own_judge = score is not None

    def measure(self, task: BatchTask, off: Sequence[Head]) -> Array:
        from brodmann.models.backbone.precision import autocast
        from brodmann.models.heads.gates import head_gates
        from brodmann.models.heads.measure import measuring

        found = []
        with measuring(self.model), head_gates(self.model, off=off), torch.inference_mode():
            for batch in task.batches:
                with autocast(_device(batch), self.precision):
                    outputs = self.model(**batch)
                found.append(self._rows(outputs, batch))
                if self.progress is not None:
                    self.progress(len(found[-1]))
        return np.concatenate(found)[:, None]

    def _rows(self, outputs: Any, batch: Any) -> Array:
        values = self.judge(outputs, batch)
        array = torch.as_tensor(values).detach().double().cpu().numpy()
        from brodmann.models.heads.probes import rows_of_batch

        rows = rows_of_batch(batch)
        if array.shape != (rows,):
            raise InputError(
                f"score returned shape {array.shape} for {rows} rows: expected one number per row"
            )
        return np.asarray(array)

    def resample(self, values: Array, weights: Array, task: BatchTask) -> Array:
        return mean(values, weights)

    def metric(self, task: BatchTask) -> str:
        return "score" if self.own_judge else "accuracy"

    def trivial(self, task: BatchTask) -> float:
        """The share of the most frequent label; 0 for the user's own score."""
        if self.own_judge:
            return 0.0
        labels = torch.cat([batch["labels"].flatten() for batch in task.batches])
        counts = torch.bincount(labels[labels >= 0])
        return float(counts.max() / counts.sum())

    def examples(self, task: BatchTask) -> int:
        from brodmann.models.heads.probes import rows_of_batch

        return sum(rows_of_batch(batch) for batch in task.batches)


def right_answers(outputs: Any, batch: Any) -> torch.Tensor:
    """Per row, 1 if the most likely label is right, or the share of the right tokens."""
    labels = batch.get("labels") if hasattr(batch, "get") else None
    logits = getattr(outputs, "logits", None)
    if labels is None or logits is None or labels.is_floating_point() or logits.shape[-1] == 1:
        raise InputError("no classes to compare: pass score=(outputs, batch) → one number per row")
    right: torch.Tensor = logits.argmax(dim=-1) == labels
    if right.dim() == 1:
        return right.cpu().double()
    counted: torch.Tensor = labels != -100
    return (right & counted).sum(dim=1).cpu().double() / counted.sum(dim=1).clamp(min=1).cpu()


def _device(batch: Any) -> torch.device:
    return next(value.device for value in batch.values() if isinstance(value, torch.Tensor))
