"""Methods that change how a step trains, behind one contract.

`METHODS` maps an option of `fit` to the module that creates its method: `make(setup)` returns a
`Method`, or None if the option asks for ordinary training. The loop knows no method by name; it
calls each at fixed points:

    due → switch                                once, before the step that a method begins at
    reading(batch): forward, term, backward     for each batch of a step
    combine                                     after the batches of a step
    around_step(tasks): optimizer               the step itself
    stops                                       between steps
    state, restore                              with every checkpoint
    close, finish                               at the end
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from brodmann.data.batches import Batch
from brodmann.data.tasks import Task
from brodmann.files import Document


@dataclass(frozen=True)
class Setup:
    """What a method is created from."""

    model: Any  # MultiTaskModel
    trained: nn.Module  # the model, or a module around it
    options: Any  # training/settings.py: Options
    steps: int
    world: int  # number of processes
    accelerator: Any


class Method:
    """Ordinary training. A method overrides what it changes."""

    name = ""  # key in METHODS and of its state in a checkpoint
    begins: int | None = None  # the step before which `switch` is due
    preparing = ""  # what `switch` does, for the terminal; empty if it takes no time

    def wrapped(self, model: nn.Module) -> nn.Module:
        """The module to train: the model, or one around it with a loss of its own."""
        return model

    def identity(self, *, shared_steps: bool) -> Document:
        """What distinguishes this from ordinary training; with `shared_steps`, before `begins`."""
        return {}

    def is_active(self) -> bool:
        """Whether the method has begun."""
        return True

    def splits_batches(self) -> bool:
        """Whether each batch must hold one task only, from now on."""
        return False

    def switch(self, tasks: Sequence[Task]) -> Document:
        """Begin, before step `begins`; returns facts for the log."""
        return {}

    def begun(self) -> str:
        """How training continues after `switch`, for the terminal: "from step N on, …"."""
        return f"'{self.name}' is active"

    def reading(self, batch: Batch) -> contextlib.AbstractContextManager[None]:
        """Surround the forward and backward pass of one batch."""
        return contextlib.nullcontext()

    def term(self, share: float) -> Tensor | None:
        """A term to add to the loss of a batch that carries this share of the step."""
        return None

    def combine(self) -> None:
        """Change the gradients of a step, before they are clipped."""

    def around_step(
        self, tasks: Sequence[str], optimizer: Optimizer
    ) -> contextlib.AbstractContextManager[None]:
        """Surround the optimizer's step after batches of these tasks."""
        return contextlib.nullcontext()

    def stops(self) -> bool:
        """Whether training ends here, before the next step."""
        return False

    def state(self) -> object:
        """The state to checkpoint, as JSON; None before the method has begun."""
        return None

    def restore(self, state: object) -> None:
        """Continue from a state that `state` returned."""

    def close(self) -> None:
        """Undo everything that was attached to the model, also after an error."""

    def finish(self) -> None:
        """Complete the trained model."""


METHODS: dict[str, str] = {
    "specialize": f"{__name__}.iat",
    "aggregation": f"{__name__}.aggregation",
    "sparsity": f"{__name__}.sparsity",
}


def make_methods(setup: Setup, given: Sequence[Method] = ()) -> list[Method]:
    """The methods that the options ask for, after those given as objects."""
    made = [import_module(module).make(setup) for module in METHODS.values()]
    return [*given, *(method for method in made if method is not None)]
