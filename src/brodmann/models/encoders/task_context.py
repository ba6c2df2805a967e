"""The task of each row of the batch, for modules deep inside a backbone.

The encoder sets the context during its forward pass; conditional modules read it. Gradient
checkpointing recomputes during the backward pass, long after the forward pass: every checkpoint
restores its own context (`checkpoint_contexts`).
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from brodmann.data.batches import Part
from brodmann.errors import InputError


@dataclass
class TaskContext:
    """The tasks of one batch, each with its rows side by side."""

    tasks: tuple[str, ...]
    rows: tuple[slice, ...]
    of_row: Tensor  # (row,) → index in `tasks`
    kept: dict[Any, Any] = field(default_factory=dict)  # shared by modules in this forward pass

    def spread(self, values: Tensor) -> Tensor:
        """(task, …) → (row, …); a single task stays (1, …) and is broadcast."""
        return values if len(self.tasks) == 1 else values[self.of_row]


_current: ContextVar[TaskContext | None] = ContextVar("task_context", default=None)
_instead: ContextVar[Mapping[str, str]] = ContextVar(
    "exchanged_tasks", default=MappingProxyType({})
)


def of_parts(parts: Sequence[Part], device: torch.device) -> TaskContext:
    counts = torch.tensor([part.rows.stop - part.rows.start for part in parts])
    # Counted on the CPU: a GPU would have to be waited for to know the size of the result.
    of_row = torch.repeat_interleave(torch.arange(len(parts)), counts).to(device)
    return TaskContext(
        tuple(acting_task(part.task) for part in parts),
        tuple(part.rows for part in parts),
        of_row,
    )


@contextlib.contextmanager
def exchanged_tasks(instead: Mapping[str, str]) -> Iterator[None]:
    """Inside the block, make the encoder treat a task as another one: {task: the other}.

    Output heads do not change, so a loss in score measures what the encoder knew of its task.
    """
    token = _instead.set(dict(instead))
    try:
        yield
    finally:
        _instead.reset(token)


def acting_task(task: str) -> str:
    """The task that the encoder takes this one for."""
    return _instead.get().get(task, task)


def current() -> TaskContext:
    found = _current.get()
    if found is None:
        raise InputError(
            "this encoder is conditioned on the task: call the multi-task model, not its backbone"
        )
    return found


@contextlib.contextmanager
def task_context(context: TaskContext | None) -> Iterator[None]:
    token = _current.set(context)
    try:
        yield
    finally:
        _current.reset(token)


def checkpoint_contexts() -> tuple[Any, Any]:
    """Contexts for torch's checkpoint: none now, the current one for the recomputation."""
    return contextlib.nullcontext(), _Again(_current.get())


class _Again:
    """A context that can be entered as often as the graph is traversed."""

    def __init__(self, context: TaskContext | None) -> None:
        self.context = context
        self.tokens: list[Any] = []

    def __enter__(self) -> None:
        self.tokens.append(_current.set(self.context))

    def __exit__(self, *_: object) -> None:
        _current.reset(self.tokens.pop())
