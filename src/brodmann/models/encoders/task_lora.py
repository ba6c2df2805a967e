r"""`task_lora`: a frozen backbone, with one low-rank update of chosen projections per task.

$$W'_t = W + \frac{\alpha}{r}\, B_t A_t$$

for task $t$: the adapters of `lora` (`lora.py`), none of which is shared. A batch of several tasks
passes the backbone once; each row gets the update of its own task.

Reference: Hu et al. 2022, "LoRA: Low-Rank Adaptation of Large Language Models", §4; compared with
one shared adapter by Yang et al. 2024, "MTL-LoRA: Low-Rank Adaptation for Multi-Task Learning".
Departure: peft can choose adapters by row too, but visits them in an order that differs from
process to process, and with it the random numbers of dropout: here the order is that of the batch.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from brodmann.data.batches import Part
from brodmann.data.tasks import TaskSpec
from brodmann.models.encoders.lora import LoraEncoder, backward_passes, settings_of
from brodmann.models.encoders.task_context import current, of_parts, task_context
from brodmann.models.model_settings import AUTO_TARGETS, LoraSettings
from brodmann.models.task_heads import module_key

__all__ = ["TaskLoraEncoder", "backward_passes", "build"]


class TaskLoraEncoder(LoraEncoder):
    """A frozen backbone with an adapter per task."""

    def __init__(self, backbone: Any, names: Sequence[str], settings: LoraSettings) -> None:
        super().__init__(backbone, settings, [module_key(name) for name in names])
        for layer in self.adapted().values():
            layer.register_forward_hook(_add)

    def inject(self, adapter: str) -> None:
        trained = {id(p): p.requires_grad for p in self.backbone.parameters()}
        super().inject(adapter)
        for layer in self.adapted().values():
            layer.enable_adapters(False)  # peft adds nothing: `_add` does
        for name, parameter in self.backbone.named_parameters():
            new = f".{adapter}." in name
            parameter.requires_grad_(new or trained.get(id(parameter), False))

    def adapter_of(self, task: str) -> str:
        return module_key(task)

    def forward(self, inputs: dict[str, Tensor], parts: Sequence[Part]) -> list[Any]:
        with task_context(of_parts(parts, inputs["input_ids"].device)):
            return super().forward(inputs, parts)

    def task_parameters(self, task: str) -> list[nn.Parameter]:
        """The parameters that belong to this task alone: its adapter."""
        key = self.adapter_of(task)
        return [
            linear[key].weight
            for layer in self.adapted().values()
            for linear in (layer.lora_A, layer.lora_B)
        ]

    def add_task(self, name: str, like: str) -> None:
        """Add an adapter: a copy of another task's, or a new one that starts at zero."""
        key, source = self.adapter_of(name), self.adapter_of(like)
        self.inject(key)
        for layer in self.adapted().values():
            for linear in (layer.lora_A, layer.lora_B):
                if source in linear:
                    linear[key].load_state_dict(copy.deepcopy(linear[source].state_dict()))


def _add(layer: Any, args: tuple[Any, ...], output: Tensor) -> Tensor:
    """Add the output of its adapter to the rows of each task."""
    context, states = current(), args[0]
    found = []
    for task, rows in zip(context.tasks, context.rows, strict=True):
        key = module_key(task)
        narrow = layer.lora_A[key](
            layer.lora_dropout[key](states[rows].to(layer.lora_A[key].weight.dtype))
        )
        found.append(output[rows] + (layer.lora_B[key](narrow) * layer.scaling[key]).to(output))
    return torch.cat(found)


def build(
    backbone: Any,
    specs: Sequence[TaskSpec],
    max_length: int,
    *,
    r: int = 8,
    alpha: float = 16.0,
    dropout: float = 0.0,
    targets: Any = AUTO_TARGETS,
) -> TaskLoraEncoder:
    """Build it; the parameters are those of `lora`, and hold for every task's adapter."""
    names = [spec.name for spec in specs]
    return TaskLoraEncoder(backbone, names, settings_of(r, alpha, dropout, targets))
