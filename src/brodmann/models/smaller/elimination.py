r"""In which order a block's units go, and what each task loses: the optimal brain surgeon.

A block's last map $y = Wx + b$ is repaired whenever inputs go (`repair.py`), so a unit is worth
what the others cannot replace. With the weighted moments $A$ of the extended inputs, the error of
removing the inputs $u$ of one unit after the best repair is

$$e_u = \operatorname{tr} \big( W_u \, [(A^{-1})_{uu}]^{-1} \, W_u^\top \big),$$

and the units with the least error go first; then $W$ and $A^{-1}$ are brought up to date. Tokens
are weighted by the gradient of the loss at $y$, so that the errors of all blocks are in one unit.

The order is made for a weighted sum of the tasks; the loss of each task along it is then measured
with its own moments, on random projections of the output.

Reference: Hassibi & Stork 1993, "Second Order Derivatives for Network Pruning: Optimal Brain
Surgeon"; for whole units with times per size: Kurtic et al. 2023, "ZipLM: Inference-Aware
Structured Pruning of Language Models". Departures: tokens weighted by their gradients, biases
repaired, several tasks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from brodmann.files import Array
from brodmann.models.backbone.anatomy import bare_models, is_transposed
from brodmann.models.smaller.repair import with_ridge
from brodmann.models.smaller.sensitivity import Sensitivity
from brodmann.models.smaller.units import Block

SKETCHES = 32  # random projections of an output


@dataclass(frozen=True)
class Emptying:
    """One block on its way to nothing: what it keeps at each size, and what each task loses."""

    kept: Array  # (size, unit): masks, from all units to none
    losses: Array  # (task, size)


def weighted_moments(sensitivity: Sensitivity, weights: Array) -> list[list[Tensor]]:
    """[bare model][block]: the tasks' moments, weighted and summed."""
    total: list[Any] = []
    for weight, moments in zip(weights, sensitivity.moments.values(), strict=True):
        for place, of_bare in enumerate(moments):
            if place == len(total):
                total.append(None)
            if of_bare is None:
                continue
            scaled = [float(weight) * one for one in of_bare]
            total[place] = (
                scaled
                if total[place] is None
                else [a + b for a, b in zip(total[place], scaled, strict=True)]
            )
    return total


def eliminate(
    model: nn.Module,
    blocks: Sequence[Block],
    number: int,
    sizes: Array,
    sensitivity: Sensitivity,
    moments: Sequence[Sequence[Tensor]],
) -> Emptying:
    """Empty one block of the model step by step; `sizes` are the units left, falling to none."""
    block = blocks[number]
    copies = [
        _Copy(bare.get_submodule(block.output), of_bare[number])
        for bare, of_bare in zip(bare_models(model), moments, strict=True)
    ]
    left = np.ones(block.units, dtype=bool)
    kept, sketches = [left.copy()], [[copy.sketch() for copy in copies]]
    for size in sizes[1:]:
        while (extra := int(left.sum()) - int(size)) > 0:
            errors = np.where(left, sum(copy.errors(block, left) for copy in copies), np.inf)
            # Heads interact through all their inputs and go one by one; neurons in whole steps.
            chosen = np.argsort(errors, kind="stable")[: 1 if block.width > 1 else extra]
            gone = np.zeros_like(left)
            gone[chosen] = True
            for copy in copies:
                copy.remove(torch.as_tensor(np.flatnonzero(block.inputs(gone))))
            left &= ~gone
        kept.append(left.copy())
        sketches.append([copy.sketch() for copy in copies])
    losses = []
    for of_task in sensitivity.moments.values():
        total = np.zeros(len(sizes))
        for place, of_bare in enumerate(of_task):
            if of_bare is not None:
                changes = torch.stack([of_size[place] for of_size in sketches])
                total += _mean_squares(changes, of_bare[number])
        losses.append(total)
    return Emptying(np.stack(kept), np.stack(losses))


def _mean_squares(changes: Tensor, moments: Tensor) -> Array:
    """(size,) half the weighted mean square of the output's changes; `changes` are sketches."""
    found = ((changes.float() @ moments) * changes.float()).sum(dim=(1, 2)) / 2
    result: Array = found.cpu().double().numpy()
    return result


class _Copy:
    """The map of one encoder with the inverse moments of its inputs."""

    def __init__(self, output: nn.Module, moments: Tensor) -> None:
        weight = output.get_parameter("weight").detach()
        matrix = (weight.T if is_transposed(output) else weight).double()
        has_bias = getattr(output, "bias", None) is not None
        self.map = torch.cat([matrix, matrix.new_zeros(len(matrix), int(has_bias))], dim=1)
        size = self.map.shape[1]
        self.inverse = torch.linalg.inv(with_ridge(moments)[:size, :size])
        self.start = self.map.clone()
        generator = torch.Generator().manual_seed(0)
        rows = torch.randn(SKETCHES, len(matrix), generator=generator, dtype=torch.float64)
        # Unit mean square over an output's dimensions: a change in a random direction.
        self.rows = rows.to(matrix.device) / (SKETCHES * len(matrix)) ** 0.5
        self.extended = moments.shape[0]

    def errors(self, block: Block, left: Array) -> Array:
        """(unit,) the error of removing each unit; what is gone has any value."""
        if block.width == 1:
            found = self.map[:, : block.units].square().sum(dim=0)
            found = found / self.inverse.diagonal()[: block.units].clamp_min(1e-300)
            result: Array = found.cpu().numpy()
            return result
        errors = np.zeros(block.units)
        for unit in np.flatnonzero(left):
            own = slice(unit * block.width, (unit + 1) * block.width)
            columns = self.map[:, own]
            solved = torch.linalg.solve(self.inverse[own, own], columns.T)
            errors[unit] = float((columns.T * solved).sum())
        return errors

    def remove(self, inputs: Tensor) -> None:
        inputs = inputs.to(self.map.device)
        rows = self.inverse[inputs]
        share = torch.linalg.solve(rows[:, inputs], rows)
        self.map -= self.map[:, inputs] @ share
        self.inverse -= rows.T @ share
        self.map[:, inputs] = 0.0
        self.inverse[inputs] = 0.0
        self.inverse[:, inputs] = 0.0

    def sketch(self) -> Tensor:
        """Random projections of the output's change, (projection, input + 1)."""
        change = self.rows @ (self.map - self.start)
        short = self.extended - change.shape[1]
        return torch.cat([change, change.new_zeros(len(change), short)], dim=1) if short else change
