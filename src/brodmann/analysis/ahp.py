r"""`ahp`: which source helps a target most? A tournament of sources, ranked by an eigenvector.

For each target, $w_{ab}$ is the share of held-out examples on which the model transferred from $a$
has a lower loss than the one from $b$ (a tie counts half), kept within [0.001, 0.999]. The
principal eigenvector of $w_{ab} / w_{ba}$, summing to 1, is the transferability of each source to
the target. The similarity of two tasks is the mean of both directions.

Reference: Zamir et al. 2018, "Taskonomy", §3.4; Saaty 1987, "The analytic hierarchy process"; as in
Li et al. 2023, "Interpreting and Exploiting Functional Specialization in Multi-Head Attention under
Multi-task Learning", appendix D.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from brodmann.errors import InputError
from brodmann.files import Array

LEAST = 0.001


def tournament(losses: Array) -> Array:
    """w for every two sources from their losses on the same examples, (source, example)."""
    values = np.asarray(losses, dtype=float)
    if values.ndim != 2 or values.shape[1] < 1 or not np.isfinite(values).all():
        raise InputError(f"ahp: expected losses (source, example), found {values.shape}")
    wins = (values[:, None, :] < values[None, :, :]).mean(axis=2)
    ties = (values[:, None, :] == values[None, :, :]).mean(axis=2)
    return np.asarray(np.clip(wins + ties / 2, LEAST, 1 - LEAST))


def transferability(w: Array) -> Array:
    """(source,) weights that sum to 1: the principal eigenvector of W / W^T."""
    ratios = np.asarray(w) / np.asarray(w).T
    values, vectors = np.linalg.eig(ratios)
    principal = np.abs(np.real(vectors[:, int(np.argmax(np.real(values)))]))
    return np.asarray(principal / principal.sum())


def ahp(losses: Mapping[str, Array], tasks: Sequence[str]) -> tuple[Array, Array]:
    """(transferability [source, target], similarity), from each target's (source, example) losses.

    A task is not a source for itself: its row is left out of its own tournament and is nan.
    """
    count = len(tasks)
    if count < 3:
        raise InputError("ahp: a tournament needs at least three tasks")
    matrix = np.full((count, count), np.nan)
    for column, target in enumerate(tasks):
        if target not in losses or len(losses[target]) != count:
            raise InputError(f"ahp: expected losses of {count} sources on '{target}'")
        others = [place for place in range(count) if place != column]
        matrix[others, column] = transferability(tournament(np.asarray(losses[target])[others]))
    return matrix, (matrix + matrix.T) / 2
