"""Outcomes and scores of every task with chosen heads off; each choice is measured once."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from brodmann.analysis.statistics import score_interval
from brodmann.data.kinds import outcomes, resampled_scores, trivial_score
from brodmann.data.tasks import Task
from brodmann.files import Array, write_arrays
from brodmann.results import Head

RESAMPLES = 1000  # as for the scores of an evaluation

Progress = Callable[[int], None]


class Named(Protocol):
    """A task, as far as outcomes need to know it."""

    @property
    def name(self) -> str: ...


class HeadOutcomes:
    """Contribution of every example to its task's score, by choice of heads.

    Named choices keep their outcomes for resampling; others keep only their scores.
    """

    def __init__(self, tasks: Sequence[Any]) -> None:
        self.tasks = tasks
        self.found: dict[tuple[str, tuple[Head, ...]], Array] = {}
        self.scored: dict[tuple[Head, ...], list[float]] = {}
        self.choices: dict[str, tuple[Head, ...]] = {}

    def measure(self, task: Any, off: Sequence[Head]) -> Array:
        """(unit, addend): what every example contributes with these heads off."""
        raise NotImplementedError

    def resample(self, values: Array, weights: Array, task: Any) -> Array:
        """The scores of weighted examples, one per row of weights."""
        raise NotImplementedError

    def metric(self, task: Any) -> str:
        """The name of the score."""
        raise NotImplementedError

    def trivial(self, task: Any) -> float:
        """The score of the best answers without reading."""
        raise NotImplementedError

    def interval(self, task: Any, choice: str) -> list[float] | None:
        """The interval of the score over examples, if it is known how to make one."""
        return None

    def examples(self, task: Any) -> int:
        raise NotImplementedError

    def add(self, name: str, off: Sequence[Head]) -> None:
        self.choices[name] = tuple(off)
        for task in self.tasks:
            key = (task.name, tuple(off))
            if key not in self.found:  # two tasks may have the same heads
                self.found[key] = self.measure(task, off)

    def outcomes_of(self, task: Named, choice: str) -> Array:
        return self.found[task.name, self.choices[choice]]

    def score(self, task: Named, choice: str, weights: Array | None = None) -> Any:
        values = self.outcomes_of(task, choice)
        if weights is not None:
            return self.resample(values, weights, task)
        return self.whole(values, task)

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
                self.whole(
                    self.found[task.name, key]
                    if (task.name, key) in self.found
                    else self.measure(task, off),
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

    def whole(self, values: Array, task: Named) -> float:
        """The score of all examples."""
        return float(self.resample(values, np.ones((1, len(values))), task)[0])


class TaskOutcomes(HeadOutcomes):
    """Outcomes of a multi-task model on one split of its tasks."""

    def __init__(
        self,
        model: Any,
        tasks: Sequence[Task],
        split: str,
        batch_size: int,
        precision: str,
        progress: Progress | None,
    ) -> None:
        super().__init__(tasks)
        self.model, self.split = model, split
        self.options: dict[str, Any] = {
            "batch_size": batch_size,
            "precision": precision,
            "progress": progress,
        }
        self.encoded = {t.name: model.encode(t.spec, t.splits[split]) for t in tasks}

    def measure(self, task: Task, off: Sequence[Head]) -> Array:
        from brodmann.models.evaluation import evaluate_task
        from brodmann.models.heads.gates import head_gates

        examples, encoded = task.splits[self.split], self.encoded[task.name]
        with head_gates(self.model, off=off):
            result = evaluate_task(self.model, task.name, encoded, examples, **self.options)
        return outcomes(result.predictions, examples, task.spec)

    def resample(self, values: Array, weights: Array, task: Task) -> Array:
        return resampled_scores(values, weights, task.spec)

    def metric(self, task: Task) -> str:
        return task.spec.metric

    def trivial(self, task: Task) -> float:
        return trivial_score(task, self.split)

    def interval(self, task: Task, choice: str) -> list[float] | None:
        values = self.outcomes_of(task, choice)
        return score_interval(values, task.spec, resamples=RESAMPLES)

    def examples(self, task: Task) -> int:
        return len(task.splits[self.split])
