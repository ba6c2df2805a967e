"""An encoder with separate modules for every task at the slots of one backbone."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from brodmann.data.batches import Part
from brodmann.models.encoders.shared import SharedEncoder, rows_of
from brodmann.models.encoders.task_context import of_parts, task_context
from brodmann.models.task_heads import module_key


class TaskModulesEncoder(SharedEncoder):
    """The common part of `pals` and `adapters`: sends each row through its task's module."""

    def __init__(self, backbone: Any, modules: Mapping[str, nn.Module]) -> None:
        super().__init__(backbone)
        self.modules_by_task = nn.ModuleDict(dict(modules))

    def forward(self, inputs: dict[str, Tensor], parts: Sequence[Part]) -> list[Any]:
        context = of_parts(parts, inputs["input_ids"].device)
        context.kept["attention_mask"] = inputs["attention_mask"]
        with task_context(context):
            states = self.backbone(**inputs)
        return [states] if len(parts) == 1 else [rows_of(states, part.rows) for part in parts]

    def task_parameters(self, task: str) -> list[nn.Parameter]:
        """The parameters that belong to this task alone."""
        return list(self.modules_by_task[module_key(task)].parameters())

    def add_task(self, name: str, like: str) -> None:
        """Add a copy of another task's module, or a new one (initialised like the others)."""
        known = module_key(like)
        if known in self.modules_by_task:
            new = copy.deepcopy(self.modules_by_task[known])
        else:
            new = copy.deepcopy(next(iter(self.modules_by_task.values())))
            self.start_anew(new)
        self.modules_by_task[module_key(name)] = new

    def start_anew(self, module: nn.Module) -> None:
        for inner in module.modules():
            if isinstance(inner, nn.Linear):
                inner.reset_parameters()
        start = getattr(module, "start", None)
        if start is not None:
            start()
