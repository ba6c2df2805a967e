"""Count what studies take from sizes and shapes alone, without data or weights."""

from dataclasses import dataclass

from brodmann.config import Config
from brodmann.studies.plan.estimate import (
    RunEstimate,
    Sized,
    Trainings,
    estimate_run,
    operations_of,
    sized,
)

Run = tuple[str, Config, bool, float]  # (label, configuration, with heads, share of a training)


@dataclass(frozen=True)
class Counted:
    """Whole runs, and the operations and tokens of everything that is not a run."""

    config: Config  # with the model that it starts from
    runs: list[RunEstimate]
    trainings: int = 0  # short ones
    operations: float = 0.0
    tokens: float = 0.0

    def parts(self) -> list[RunEstimate]:
        """The runs from which parameters, memory and assumptions are read."""
        if self.runs or not self.trainings:
            return self.runs
        return [estimate_run(self.config.name, self.config, heads=False)]


def count_runs(config: Config, runs: list[Run]) -> Counted:
    """Count ordinary runs."""
    return Counted(config, [estimate_run(n, one, heads=h, share=s) for n, one, h, s in runs])


def count_trainings(config: Config, trainings: Trainings) -> Counted:
    """Count many short trainings."""
    tokens = sum(trainings.learnt.values())
    return Counted(config, [], trainings.count, operations_of(trainings, config), tokens)


def sizes_of_tasks(config: Config) -> list[Sized]:
    return [sized(task, config.model.max_length) for task in config.tasks]
