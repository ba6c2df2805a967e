"""Architectures by name, and the capabilities that the rest of the program relies on.

To add one, write a file with `build` and register it in `ARCHITECTURES`. The entry states what
callers need to know about an architecture without building it, so that no other module compares
names. `Encoder` is what `build(backbone, specs, max_length, **parameters)` returns.
"""

import importlib.util
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from brodmann.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from torch import Tensor, nn

    from brodmann.data.batches import Part
    from brodmann.data.tasks import TaskSpec


class Encoder(Protocol):
    """A module (`nn.Module`) that turns the rows of a batch into states, task by task."""

    PARTS: ClassVar[dict[str, str]]  # start of parameter names (with *) → part with its own rate
    RATES: ClassVar[dict[str, float]]  # part → multiple of the common learning rate

    def __call__(self, inputs: "dict[str, Tensor]", parts: "Sequence[Part]") -> list[Any]:
        """The states of every part: transformers' own output objects, with that part's rows."""

    def backbone_of(self, task: str) -> Any:
        """The transformers model that reads this task."""

    def paths(self) -> list[Any]:
        """Every transformers model inside, one per path; paths may share layers."""

    def task_parameters(self, task: str) -> "list[nn.Parameter]":
        """The parameters that belong to this task alone."""

    def add_task(self, name: str, like: str) -> None:
        """Add parameters for a new task, copied from another one or random."""

    def describe(self, given: dict[str, Any] | None) -> dict[str, Any] | None:
        """The parameters that build the same encoder again, including defaults and random draws."""

    def activated_parameters(self) -> int | None:
        """Number of parameters that one text uses; None if it uses all of them."""


@dataclass(frozen=True)
class Architecture:
    """The module that builds an architecture, and its capabilities."""

    module: str  # with `build` and, if freezing differs, `backward_passes`
    one_pass: bool = False  # all tasks see the same states: one pass answers several tasks
    knows_tasks: bool = False  # one encoder that treats tasks differently: they can be swapped
    plain: bool = False  # a task's backbone alone is its whole encoder
    separate: bool = False  # every task has its own encoder
    heads_stay: str = ""  # why no single head can be trained; empty if they train
    task_parts: bool = False  # parts belong to one task, so a new task can copy them
    takes_clusters: bool = False  # `clusters` groups the tasks
    merges: bool = False  # a task's encoder can be merged into one plain backbone
    needs: str = ""  # a package that only the extra `lora` installs

    @property
    def is_shared(self) -> bool:
        """Whether all tasks use exactly the same encoder and nothing else."""
        return self.plain and not self.separate

    @property
    def trains_heads(self) -> bool:
        """Whether attention heads train, unless layers are frozen."""
        return not self.heads_stay

    @property
    def stands_alone(self) -> bool:
        """Whether a task's whole encoder can be written as one plain transformers model."""
        return self.plain or self.merges

    @property
    def serves_others(self) -> bool:
        """Whether one plain encoder serves all tasks, and so can serve tasks that it never saw."""
        return self.one_pass and self.stands_alone

    def build(
        self, backbone: Any, specs: "Sequence[TaskSpec]", max_length: int, **parameters: Any
    ) -> Any:
        """An `Encoder` around `backbone`."""
        return import_module(self.module).build(backbone, specs, max_length, **parameters)

    def parameter_names(self) -> list[str]:
        return list(inspect.signature(import_module(self.module).build).parameters)[3:]

    def backward_passes(self, freeze: float | str, parameters: Mapping[str, Any]) -> float:
        """Cost of the gradients of activations and of weights, in forward passes."""
        own = vars(import_module(self.module)).get("backward_passes")
        if own is not None:
            return float(own(freeze, parameters))
        frozen = 1.0 if freeze == "encoder" else float(freeze)
        return 2 * (1 - frozen)  # frozen layers at the bottom need neither


_ALL_TOGETHER = (
    "with LoRA one matrix moves all heads of a projection together, so no head can be held still"
)

ARCHITECTURES: dict[str, Architecture] = {
    "shared": Architecture(f"{__name__}.shared", one_pass=True, plain=True),
    "single": Architecture(f"{__name__}.single", plain=True, separate=True, task_parts=True),
    "ca_mtl": Architecture(f"{__name__}.ca_mtl", knows_tasks=True, task_parts=True),
    "pals": Architecture(f"{__name__}.pals", knows_tasks=True, task_parts=True),
    "adapters": Architecture(
        f"{__name__}.adapters",
        knows_tasks=True,
        task_parts=True,
        heads_stay="the backbone of architecture 'adapters' is frozen, so no head can be trained",
    ),
    "hmnet": Architecture(
        f"{__name__}.hmnet", knows_tasks=True, task_parts=True, takes_clusters=True
    ),
    "skillnet": Architecture(f"{__name__}.skillnet", knows_tasks=True),
    "lora": Architecture(
        f"{__name__}.lora", one_pass=True, merges=True, needs="peft", heads_stay=_ALL_TOGETHER
    ),
    "task_lora": Architecture(
        f"{__name__}.task_lora",
        knows_tasks=True,
        task_parts=True,
        merges=True,
        needs="peft",
        heads_stay=_ALL_TOGETHER,
    ),
}


def architecture_of(name: Any) -> Architecture:
    """The architecture with that name; an unknown one has no capabilities."""
    return ARCHITECTURES.get(name, Architecture(""))


def names_with(capability: str) -> str:
    """The architectures with a capability, in words: `'shared' or 'single'`."""
    able = [f"'{name}'" for name, one in ARCHITECTURES.items() if getattr(one, capability)]
    return " or ".join(part for part in (", ".join(able[:-1]), *able[-1:]) if part)


def check_architecture(name: str, parameters: Mapping[str, Any]) -> None:
    """Raise `InputError` for an unknown architecture or parameter."""
    if name not in ARCHITECTURES:
        raise InputError(f"unknown architecture '{name}'{did_you_mean(name, ARCHITECTURES)}")
    _check_installed(name)
    known = ARCHITECTURES[name].parameter_names()
    for key in parameters:
        if key not in known:
            hint = did_you_mean(key, known)
            raise InputError(f"architecture '{name}' has no parameter '{key}'{hint}")


def _check_installed(name: str) -> None:
    needs = ARCHITECTURES[name].needs
    if needs and importlib.util.find_spec(needs) is None:
        raise InputError(f"architecture '{name}' needs {needs}: pip install 'brodmann[lora]'")
