"""`single`: one model per task, the baseline that sharing is measured against.

Every task has its own encoder, which starts from the same pretrained weights; nothing is shared.
"""

import copy
from collections.abc import Sequence
from typing import Any, ClassVar

from torch import Tensor, nn

from brodmann.data.batches import Part
from brodmann.data.tasks import TaskSpec
from brodmann.errors import InputError
from brodmann.models.backbone.anatomy import AroundBackbones
from brodmann.models.task_heads import module_key


class SingleEncoders(AroundBackbones):
    """Reads each part of a batch with its task's own backbone."""

    PARTS: ClassVar[dict[str, str]] = {}  # nothing besides the backbone
    RATES: ClassVar[dict[str, float]] = {}

    def __init__(self, backbone: Any, names: Sequence[str]) -> None:
        super().__init__()
        # Copies share one configuration, so that a later change reaches all of them.
        same = {id(backbone.config): backbone.config}
        copies = [backbone, *(copy.deepcopy(backbone, dict(same)) for _ in names[1:])]
        keys = map(module_key, names)
        self.backbones = nn.ModuleDict(dict(zip(keys, copies, strict=True)))

    def backbone_of(self, task: str) -> Any:
        """The transformers model that reads this task."""
        return self.backbones[module_key(task)]

    def paths(self) -> list[Any]:
        return list(self.backbones.values())

    def describe(self, given: dict[str, Any] | None) -> dict[str, Any] | None:
        return given

    def activated_parameters(self) -> int | None:
        return None

    def task_parameters(self, task: str) -> list[nn.Parameter]:
        """The parameters that belong to this task alone: its whole encoder."""
        return list(self.backbones[module_key(task)].parameters())

    def add_task(self, name: str, like: str) -> None:
        """Add a copy of another task's encoder."""
        if module_key(like) not in self.backbones:
            raise InputError(
                f"like = '{like}': in 'single' a new task starts from another task's encoder"
            )
        source = self.backbones[module_key(like)]
        same = {id(source.config): source.config}
        self.backbones[module_key(name)] = copy.deepcopy(source, same)

    def forward(self, inputs: dict[str, Tensor], parts: Sequence[Part]) -> list[Any]:
        return [
            self.backbones[module_key(part.task)](**{k: v[part.rows] for k, v in inputs.items()})
            for part in parts
        ]


def build(backbone: Any, specs: Sequence[TaskSpec], max_length: int) -> SingleEncoders:
    return SingleEncoders(backbone, [spec.name for spec in specs])
