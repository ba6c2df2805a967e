r"""What the examples of a task say of every unit, from one backward pass.

Each unit $i$ of a block has a mask $m_i = 1$ on its inputs $x_i$ of the block's last linear map. An
example's gradient at the mask is

$$g_i = \frac{\partial \mathcal{L}}{\partial m_i} = \sum_{\text{tokens}} \Big\langle x_i,
  \frac{\partial \mathcal{L}}{\partial x_i} \Big\rangle,$$

for heads exactly the gate gradient by which importance is measured. The same pass gives the
weighted second moments of the map's inputs,

$$A = \sum_{\text{tokens}} \Big\| \frac{\partial \mathcal{L}}{\partial y} \Big\| \, \tilde x
  \tilde x^\top, \qquad \tilde x = (x, 1),$$

$y$ being its output: tokens count as much as they matter to the loss (padding does not). The second
order asks for the square of the norm; but then the few examples that are not yet fitted decide
alone, and both the choice and the repair get worse (measured: docs/compress.md).

Reference: Kwon et al. 2022, "A Fast Post-Training Pruning Framework for Transformers", §4.1.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from brodmann.files import Array
from brodmann.models.backbone.anatomy import bare_models
from brodmann.models.heads.measure import measuring
from brodmann.models.heads.probes import Probe
from brodmann.models.smaller.units import Block


@dataclass
class Sensitivity:
    """Gradients of every task at every unit, and moments of every block's inputs."""

    gradients: dict[str, Array]  # task → (example, unit): the units of all blocks side by side
    # task → [bare model][block], (input + 1, input + 1): mean over the task's examples; None for
    # the encoders of other tasks
    moments: dict[str, list[list[Tensor] | None]]


def measure_sensitivity(
    model: nn.Module,
    blocks: Sequence[Block],
    probes: Mapping[str, Sequence[Callable[[], Probe]]],
    progress: Callable[[int], None] | None = None,
) -> Sensitivity:
    """Read the probes of every task once."""
    inner = bare_models(model)
    found = Sensitivity({}, {})
    with measuring(model):
        for task, of_task in probes.items():
            moments: list[list[Tensor] | None] = [None] * len(inner)
            rows = []
            for make in of_task:
                probe = make()
                rows.append(_read(inner, blocks, probe, moments))
                if progress is not None:
                    progress(probe.examples)
            found.gradients[task] = np.concatenate(rows)
            for several in moments:
                for one in several or ():
                    one /= len(found.gradients[task])
            found.moments[task] = moments
    return found


def _read(
    inner: Sequence[Any], blocks: Sequence[Block], probe: Probe, moments: list[list[Tensor] | None]
) -> Array:
    """Gradients of one batch at every unit; its tokens are added to the moments."""
    seen: list[tuple[int, int, Tensor, Tensor]] = []
    handles = []

    def watch(bare: int, place: int) -> Any:
        def before(_: nn.Module, args: Any) -> None:
            if not args[0].requires_grad:  # the lowest block: nothing below needs gradients
                args[0].requires_grad_()

        def after(_: nn.Module, args: Any, answer: Tensor) -> None:
            seen.append((bare, place, args[0], answer))

        return before, after

    for number, bare in enumerate(inner):
        for place, block in enumerate(blocks):
            before, after = watch(number, place)
            module = bare.get_submodule(block.output)
            handles += [
                module.register_forward_pre_hook(before),
                module.register_forward_hook(after),
            ]
    try:
        with torch.enable_grad():
            losses = probe.losses()
            read = [entry[2] for entry in seen] + [entry[3] for entry in seen]
            found = torch.autograd.grad(losses.sum(), read)
    finally:
        for handle in handles:
            handle.remove()
    result: list[Any] = [None] * len(blocks)
    for (number, place, states, _), at_input, at_output in zip(
        seen, found[: len(seen)], found[len(seen) :], strict=True
    ):
        block = blocks[place]
        states = states.detach().float()
        products = states * at_input.float()
        by_unit = products.reshape(*products.shape[:-1], block.units, block.width).sum(-1)
        rows = by_unit.flatten(1, -2).sum(dim=1)
        if probe.example_of_row is not None:
            empty = rows.new_zeros(probe.examples, block.units)
            rows = empty.index_add(0, probe.example_of_row, rows)
        result[place] = rows.cpu().numpy()
        if (of_bare := moments[number]) is None:
            sizes = [block.units * block.width + 1 for block in blocks]
            of_bare = moments[number] = [states.new_zeros(size, size) for size in sizes]
        _add_moments(of_bare[place], states, at_output.float())
    return np.concatenate(result, axis=1)


def _add_moments(total: Tensor, states: Tensor, gradients: Tensor) -> None:
    weights = gradients.flatten(0, -2).square().sum(dim=-1).sqrt()
    counted = weights > 0
    scaled = states.flatten(0, -2)[counted] * (root := weights[counted].sqrt())[:, None]
    extended = torch.cat([scaled, root[:, None]], dim=1)
    total.addmm_(extended.T, extended)
