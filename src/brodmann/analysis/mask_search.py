r"""How many units each block of a model keeps: many tasks' predicted losses under a budget.

Each block comes with a path from all its units to none: what each task loses at each size, and what
that size costs. For weights $w_t$ of the tasks, dynamic programming over the budget finds the sizes
with the least $\sum_t w_t \sum_b \mathcal{L}_{t,b}$. The weights are then moved by multiplicative
updates towards whichever task loses most, so that the largest loss of any task, not the mean,
becomes as small as weights can make it:

$$w_t \leftarrow w_t \, \exp \big( \eta \, \mathcal{L}_t / \max_s \mathcal{L}_s \big).$$

Reference: the budget by dynamic programming over measured times, Frantar & Alistarh 2022, "SPDY:
Accurate Pruning with Speedup Guarantees"; the updates, Freund & Schapire 1999, "Adaptive Game
Playing Using Multiplicative Weights".
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from brodmann.files import Array

BINS = 2000  # of the budget
ROUNDS = 15  # of weights
PACE = 1.0  # the updates' eta in the first round; it falls with the root of the round


@dataclass(frozen=True)
class Choice:
    """The chosen size of every block, as a place on its path."""

    places: list[int]
    weights: Array  # (task,) those under which it was found
    losses: Array  # (task,) predicted


def choose(
    losses: Sequence[Array], costs: Sequence[Array], budget: float, matters: Array
) -> Choice | None:
    """The sizes whose worst task loses least; None if no choice is within the budget.

    `losses` are (task, size) and `costs` (size,), one per block; `matters` scales each task, and a
    task with 0 is left out.
    """
    scaled = [matters[:, None] * of_block for of_block in losses]
    weights = (matters > 0) / np.count_nonzero(matters)
    best: Choice | None = None
    for number in range(ROUNDS):
        places = cheapest([weights @ of_block for of_block in scaled], costs, budget)
        if places is None:
            return None
        found = np.sum(
            [of_block[:, place] for of_block, place in zip(scaled, places, strict=True)], axis=0
        )
        if best is None or found.max() < best.losses.max():
            best = Choice(places, weights.copy(), found)
        if np.count_nonzero(matters) == 1 or found.max() <= 0:
            break
        weights = weights * np.exp(PACE / np.sqrt(1 + number) * found / found.max())
        weights /= weights.sum()
    return best


def cheapest(
    losses: Sequence[Array], costs: Sequence[Array], budget: float, bins: int = BINS
) -> list[int] | None:
    """One option per block with the least sum of losses whose costs are within the budget."""
    floors = [float(of_block.min()) for of_block in costs]
    room = budget - sum(floors)
    if room < 0:
        return None
    # Costs are rounded up, so that the budget holds; a block's cheapest option costs nothing here.
    step = max(room, 1e-12) / bins
    best = np.zeros(bins + 1)  # least loss by bins used at most
    chosen = []
    for of_loss, of_cost, floor in zip(losses, costs, floors, strict=True):
        needs = np.ceil((of_cost - floor) / step - 1e-9).astype(int)
        table = np.full((len(of_loss), bins + 1), np.inf)
        for option, (loss, need) in enumerate(zip(of_loss, needs, strict=True)):
            if need <= bins:
                table[option, need:] = best[: bins + 1 - need] + loss
        chosen.append((table.argmin(axis=0), needs))
        best = table.min(axis=0)
    places, at = [], bins
    for options, needs in reversed(chosen):
        places.append(int(options[at]))
        at -= int(needs[places[-1]])
    return places[::-1]
