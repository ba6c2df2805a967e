"""Outcomes and scores of every task with chosen heads off; each choice is measured once."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from brodmann.data.kinds import outcomes, resampled_scores
from brodmann.data.tasks import Task
from brodmann.files import Array, write_arrays
from brodmann.results import Head

Progress = Callable[[int], None]


class HeadOutcomes:
    """Contribution of every example to its task's metric, by choice of heads.

    Named choices keep their outcomes for resampling; others keep only their scores.
    """

    def __init__(
        self,
        model: Any,
        tasks: Sequence[Task],
        split: str,
        batch_size: int,
        precision: str,
        progress: Progress | None,
    ) -> None:
        self.model, self.tasks, self.split = model, tasks, split
        self.options: dict[str, Any] = {
            "batch_size": batch_size,
            "precision": precision,
            "progress": progress,
        }
        self.encoded = {t.name: model.encode(t.spec, t.splits[split]) for t in tasks}
        self.found: dict[tuple[str, tuple[Head, ...]], Array] = {}
        self.scored: dict[tuple[Head, ...], list[float]] = {}
        self.choices: dict[str, tuple[Head, ...]] = {}

    def add(self, name: str, off: Sequence[Head]) -> None:
        self.choices[name] = tuple(off)
        for task in self.tasks:
            key = (task.name, tuple(off))
            if key not in self.found:  # two tasks may have the same heads
                self.found[key] = self._measured(task, off)

    def _measured(self, task: Task, off: Sequence[Head]) -> Array:
        from brodmann.models.evaluation import evaluate_task
        from brodmann.models.heads.gates import head_gates

        examples, encoded = task.splits[self.split], self.encoded[task.name]
        with head_gates(self.model, off=off):
            result = evaluate_task(self.model, task.name, encoded, examples, **self.options)
        return outcomes(result.predictions, examples, task.spec)

    def outcomes_of(self, task: Task, choice: str) -> Array:
        return self.found[task.name, self.choices[choice]]

    def score(self, task: Task, choice: str, weights: Array | None = None) -> Any:
        values = self.outcomes_of(task, choice)
        if weights is not None:
            return resampled_scores(values, weights, task.spec)
        return _whole(values, task)

    def matrix(self, share: float) -> list[list[float]]:
        return [[self.score(i, f"{share}/{j.name}") for j in self.tasks] for i in self.tasks]

    def matrix_of(self, heads: Sequence[Sequence[Head]]) -> list[list[float]]:
        """[i][j]: task i's score with the j-th choice of heads off."""
        columns = [self._scores_without(off) for off in heads]
        return [list(row) for row in zip(*columns, strict=True)]

    def _scores_without(self, off: Sequence[Head]) -> list[float]:
        key = tuple(off)
        if key not in self.scored:
            self.scored[key] = [
                _whole(
                    self.found[task.name, key]
                    if (task.name, key) in self.found
                    else self._measured(task, off),
                    task,
                )
                for task in self.tasks
            ]
        return self.scored[key]

    def save(self, path: Path) -> None:
        arrays = {
            f"{task.name}|{choice}": self.outcomes_of(task, choice).astype(np.float32)
            for task in self.tasks
            for choice in self.choices
        }
        write_arrays(path, arrays)


def _whole(values: Array, task: Task) -> float:
    return float(resampled_scores(values, np.ones((1, len(values))), task.spec)[0])
