r"""Gradient aggregation with torchjd: combine the tasks' gradients so that they conflict less.

A step's gradient for the shared parameters is a weighted sum of the tasks' own,
$g = \sum_i w_i g_i$, with weights from their Gramian $G_{ij} = \langle g_i, g_j \rangle$:

- `upgrad`: the mean of all gradients, each projected onto the cone where no task gets worse;
- `pcgrad`: the mean of all gradients, each without its conflicts with the others;
- `cagrad`: near the mean, best for the worst-off task;
- `mgda`: the shortest vector in the gradients' convex hull.

The tasks of a step are those of its `accumulation` batches: set it to the number of tasks or more.
A parameter that only one task moves (its output head) takes that task's gradient, averaged over the
batches as usual. Aggregation keeps one gradient per task in memory.

References: Quinton & Rey 2024, "Jacobian Descent for Multi-Objective Optimization"; Yu et al. 2020,
"Gradient Surgery for Multi-Task Learning"; Liu et al. 2021, "Conflict-Averse Gradient Descent for
Multi-task Learning"; Désidéri 2012, "Multiple-Gradient Descent Algorithm".
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from brodmann.data.batches import Batch
from brodmann.data.sampling.samplers import SAMPLERS
from brodmann.errors import InputError, did_you_mean
from brodmann.training.methods import Method, Setup
from brodmann.training.settings import AGGREGATIONS

INSTALL = "pip install 'brodmann[torchjd]'"
CAGRAD_RADIUS = 0.5  # c of Liu et al., as in their experiments


def check_aggregation(name: str | None) -> None:
    if name is not None and name not in AGGREGATIONS:
        raise InputError(f"unknown aggregation '{name}'{did_you_mean(name, AGGREGATIONS)}")


def check_together(world: int, accumulation: int, specialized: bool, sampling: str) -> None:
    """Raise InputError for settings that aggregation cannot be combined with."""
    if world > 1:
        raise InputError("aggregation works in one process: its gradients are not averaged")
    if specialized or SAMPLERS[sampling].by_example:
        other = "specialize" if specialized else f"sampling = '{sampling}'"
        raise InputError(f"aggregation cannot be combined with {other}")
    if accumulation < 2:
        raise InputError(
            "aggregation needs several tasks per step: set accumulation to the number of tasks"
        )


def make_weighting(name: str) -> Any:
    """A function from the Gramian (task, task) to weights (task,), from torchjd."""
    check_aggregation(name)
    try:
        from torchjd import aggregation
    except ImportError:
        raise InputError(f"aggregation = '{name}' needs torchjd: {INSTALL}") from None
    try:
        return {
            "upgrad": aggregation.UPGradWeighting,
            "pcgrad": aggregation.PCGradWeighting,
            "cagrad": lambda: aggregation.CAGradWeighting(c=CAGRAD_RADIUS),
            "mgda": aggregation.MGDAWeighting,
        }[name]()
    except ImportError as error:
        raise InputError(f"aggregation = '{name}': {error}: {INSTALL}") from None


class TaskGradients(Method):
    """Removes the gradients of every batch, task by task, and puts one back for the step."""

    name = "aggregation"

    def __init__(self, model: nn.Module, aggregation: str) -> None:
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.aggregation, self.weighting = aggregation, make_weighting(aggregation)
        self.by_task: dict[str, list[Tensor | None]] = {}

    @contextlib.contextmanager
    def reading(self, batch: Batch) -> Iterator[None]:
        yield
        self.collect(batch.parts[0].task)

    def collect(self, task: str) -> None:
        """Add the gradients of the last backward pass to the task's own."""
        held = self.by_task.setdefault(task, [None] * len(self.parameters))
        for place, parameter in enumerate(self.parameters):
            found, before = parameter.grad, held[place]
            if found is not None:
                held[place] = found if before is None else before.add_(found)
            parameter.grad = None

    def combine(self) -> None:
        """Set the step's gradient: weighted if several tasks move a parameter, else their own."""
        tasks = list(self.by_task.values())
        shared = [sum(own[n] is not None for own in tasks) > 1 for n in range(len(self.parameters))]
        weights = self._weights(tasks, shared)
        for place, parameter in enumerate(self.parameters):
            total: Tensor | None = None
            for own, weight in zip(tasks, weights, strict=True):
                gradient = own[place]
                if gradient is None:
                    continue
                gradient = gradient.mul_(weight) if shared[place] else gradient
                total = gradient if total is None else total.add_(gradient)
            parameter.grad = total
        self.by_task = {}

    def _weights(self, tasks: list[list[Tensor | None]], shared: list[bool]) -> list[float]:
        """Weights on the scale of the plain sum of the gradients: those of equal tasks are 1."""
        count = len(tasks)
        if count == 1:
            return [1.0]
        gramian = torch.zeros(count, count, dtype=torch.float64)
        for place, together in enumerate(shared):
            if not together:
                continue
            for i in range(count):
                for j in range(i, count):
                    one, other = tasks[i][place], tasks[j][place]
                    if one is not None and other is not None:
                        value = float((one * other).sum())
                        gramian[i, j] += value
                        gramian[j, i] = gramian[i, j]
        weights = self.weighting(gramian)
        # torchjd's PCGrad is a sum, the others are means.
        scale = 1 if self.aggregation == "pcgrad" else count
        return [float(weight) * scale for weight in weights]


def make(setup: Setup) -> TaskGradients | None:
    options = setup.options
    if options.aggregation is None:
        return None
    check_together(
        setup.world, options.accumulation, options.specialize is not None, options.sampling
    )
    return TaskGradients(setup.trained, options.aggregation)
