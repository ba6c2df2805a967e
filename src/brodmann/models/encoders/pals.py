r"""`pals`: a small attention per task, in parallel with every layer.

$$h^{l+1} = \mathrm{LN}(a + \mathrm{FFN}(a) + V^E\, g_l(V^D h^l))$$

where $a$ is the output of the layer's own attention, $V^D$ and $V^E$ project the states to a small
size and back and are shared by all layers of a task, and $g_l$ is multi-head attention of that size
without an output projection.

Reference: Stickland & Murray 2019, "BERT and PALs: Projected Attention Layers for Efficient
Adaptation in Multi-Task Learning", §3.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from brodmann.data.tasks import TaskSpec
from brodmann.errors import InputError
from brodmann.models.backbone.anatomy import layers_of, residual_slots
from brodmann.models.encoders.task_context import current
from brodmann.models.encoders.task_modules import TaskModulesEncoder
from brodmann.models.task_heads import module_key


class ProjectedAttention(nn.Module):
    """One task's modules: down, one attention per layer, up.

    Its output is initially zero, because $V^E$ is.
    """

    def __init__(self, size: int, small: int, heads: int, layers: int) -> None:
        super().__init__()
        self.heads = heads
        self.down = nn.Linear(size, small, bias=False)
        self.up = nn.Linear(small, size, bias=False)
        self.layers = nn.ModuleList(nn.Linear(small, 3 * small) for _ in range(layers))
        self.start()

    def start(self) -> None:
        nn.init.zeros_(self.up.weight)

    def forward(self, states: Tensor, padding: Tensor, layer: int) -> Tensor:
        rows, tokens, _ = states.shape
        narrow = self.down(states)
        query, key, value = (
            part.reshape(rows, tokens, self.heads, -1).transpose(1, 2)
            for part in self.layers[layer](narrow).chunk(3, dim=-1)
        )
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=padding)
        found: Tensor = self.up(mixed.transpose(1, 2).reshape(rows, tokens, -1))
        return found


class PALsEncoder(TaskModulesEncoder):
    """A backbone with a projected attention beside every layer for every task."""

    PARTS: ClassVar[dict[str, str]] = {"modules_by_task.": "pals"}
    RATES: ClassVar[dict[str, float]] = {"pals": 1.0}

    def __init__(self, backbone: Any, names: Sequence[str], small: int) -> None:
        config = backbone.config
        heads = int(config.num_attention_heads)
        if small % heads:
            raise InputError(
                f"pals: size = {small}: expected a multiple of the {heads} attention heads"
            )
        layers = layers_of(backbone)
        slots = residual_slots(backbone, "pals")
        size = int(config.hidden_size)
        modules = {
            module_key(name): ProjectedAttention(size, small, heads, len(layers)) for name in names
        }
        super().__init__(backbone, modules)
        for place, layer in enumerate(layers):
            layer.register_forward_pre_hook(partial(_remember, place), with_kwargs=True)
            hook = partial(_add, self.modules_by_task, place)
            slots[place][1].added.register_forward_hook(hook)


def _remember(place: int, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    current().kept["layer input", place] = args[0] if args else kwargs["hidden_states"]


def _add(modules: nn.ModuleDict, place: int, _: nn.Module, __: Any, states: Tensor) -> Tensor:
    context = current()
    before = context.kept["layer input", place]
    padding = context.kept["attention_mask"][:, None, None, :] > 0
    parts = [
        modules[module_key(task)](before[rows], padding[rows], place)
        for task, rows in zip(context.tasks, context.rows, strict=True)
    ]
    return states + torch.cat(parts)


def build(
    backbone: Any, specs: Sequence[TaskSpec], max_length: int, *, size: int = 204
) -> PALsEncoder:
    """Build it; the default `size` gives BERT-base 1.13 times its parameters with 8 tasks."""
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise InputError(f"pals: size = {size!r}: expected a number above 0")
    return PALsEncoder(backbone, [spec.name for spec in specs], size)
