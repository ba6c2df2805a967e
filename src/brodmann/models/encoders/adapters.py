r"""`adapters`: a frozen backbone, with two small bottlenecks per task in every layer.

$$\mathrm{adapter}(x) = x + W^{up}\, \sigma(W^{down} x + b^{down}) + b^{up}$$

after the attention and after the feed-forward block, each before its residual. $W^{up}$ starts near
zero, so the model starts near the pretrained one. The layer norms train with all tasks; the rest of
the backbone is frozen.

Reference: Houlsby et al. 2019, "Parameter-Efficient Transfer Learning for NLP", §2.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from brodmann.data.tasks import TaskSpec
from brodmann.errors import InputError
from brodmann.models.backbone.anatomy import residual_slots
from brodmann.models.encoders.task_context import current
from brodmann.models.encoders.task_modules import TaskModulesEncoder
from brodmann.models.task_heads import module_key

NEAR_ZERO = 1e-3  # spread of the weights that make an adapter the identity


class Adapter(nn.Module):
    def __init__(self, size: int, small: int) -> None:
        super().__init__()
        self.down = nn.Linear(size, small)
        self.up = nn.Linear(small, size)
        self.start()

    def start(self) -> None:
        for linear in (self.down, self.up):
            nn.init.normal_(linear.weight, std=NEAR_ZERO)
            nn.init.zeros_(linear.bias)

    def forward(self, states: Tensor) -> Tensor:
        found: Tensor = states + self.up(nn.functional.gelu(self.down(states)))
        return found


class TaskAdapters(nn.Module):
    """The adapters of one task: two per layer."""

    def __init__(self, size: int, small: int, layers: int) -> None:
        super().__init__()
        self.slots = nn.ModuleList(Adapter(size, small) for _ in range(2 * layers))

    def start(self) -> None:
        for adapter in self.slots:
            assert isinstance(adapter, Adapter)
            adapter.start()


class AdaptersEncoder(TaskModulesEncoder):
    """A frozen backbone with adapters at both residuals of every layer."""

    PARTS: ClassVar[dict[str, str]] = {"modules_by_task.": "adapters"}
    RATES: ClassVar[dict[str, float]] = {"adapters": 10.0}  # only norms move besides

    def __init__(self, backbone: Any, names: Sequence[str], small: int) -> None:
        slots = residual_slots(backbone, "adapters")
        size = int(backbone.config.hidden_size)
        modules = {module_key(name): TaskAdapters(size, small, len(slots)) for name in names}
        super().__init__(backbone, modules)
        backbone.requires_grad_(False)
        for layer, pair in enumerate(slots):
            for side, slot in enumerate(pair):
                hook = partial(_adapt, self.modules_by_task, 2 * layer + side)
                slot.added.register_forward_hook(hook)
                slot.norm.requires_grad_(True)


def _adapt(modules: nn.ModuleDict, place: int, _: nn.Module, __: Any, states: Tensor) -> Tensor:
    context = current()
    parts = []
    for task, rows in zip(context.tasks, context.rows, strict=True):
        own = modules[module_key(task)]
        assert isinstance(own, TaskAdapters)
        parts.append(own.slots[place](states[rows]))
    return torch.cat(parts)


def backward_passes(freeze: float | str, parameters: Mapping[str, Any]) -> float:
    """Only adapters and norms need gradients of weights; all activations need theirs."""
    return 1.0


def build(
    backbone: Any, specs: Sequence[TaskSpec], max_length: int, *, size: int = 256
) -> AdaptersEncoder:
    """Build the encoder; `size` is the width of the bottlenecks."""
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise InputError(f"adapters: size = {size!r}: expected a number above 0")
    return AdaptersEncoder(backbone, [spec.name for spec in specs], size)
