"""`shared`: hard parameter sharing, with one encoder for all tasks and one output head each.

Reference: Caruana 1997, "Multitask Learning"; Liu et al. 2019, "Multi-Task Deep Neural Networks for
Natural Language Understanding".
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from torch import Tensor, nn

from brodmann.data.batches import Part
from brodmann.data.tasks import TaskSpec
from brodmann.models.backbone.anatomy import AroundBackbones


class SharedEncoder(AroundBackbones):
    """Reads all rows with one backbone in one pass, whatever their tasks.

    Encoders that add modules to one backbone start from this class.
    """

    PARTS: ClassVar[dict[str, str]] = {}  # nothing besides the backbone
    RATES: ClassVar[dict[str, float]] = {}

    def __init__(self, backbone: Any) -> None:
        super().__init__()
        self.backbone = backbone

    def backbone_of(self, task: str) -> Any:
        """The transformers model that reads this task."""
        return self.backbone

    def paths(self) -> list[Any]:
        return [self.backbone]

    def describe(self, given: dict[str, Any] | None) -> dict[str, Any] | None:
        return given

    def activated_parameters(self) -> int | None:
        return None

    def task_parameters(self, task: str) -> list[nn.Parameter]:
        """The encoder's parameters that belong to this task alone: none."""
        return []

    def add_task(self, name: str, like: str) -> None:
        """Do nothing: the encoder does not know the tasks."""

    def forward(self, inputs: dict[str, Tensor], parts: Sequence[Part]) -> list[Any]:
        """The states of every part."""
        states = self.backbone(**inputs)
        if len(parts) == 1:
            return [states]
        return [rows_of(states, part.rows) for part in parts]


def rows_of(states: Any, rows: slice) -> Any:
    """The same kind of output with only these rows."""
    fields = {"last_hidden_state": states.last_hidden_state[rows]}
    if states.get("pooler_output") is not None:
        fields["pooler_output"] = states.pooler_output[rows]
    return type(states)(**fields)


def build(backbone: Any, specs: Sequence[TaskSpec], max_length: int) -> SharedEncoder:
    return SharedEncoder(backbone)
