r"""CovSim: how similar the inputs of two tasks are, by the covariance of their representations.

$$X_i^T X_i \approx U_i D_i U_i^T, \quad A_i = U_i D_i^{1/2}, \quad
  \mathrm{CovSim}(i, j) = \frac{\lVert A_i^T A_j \rVert}{\lVert A_i \rVert \lVert A_j \rVert}$$

(Frobenius norms), where a row of $X_i$ is a text of task $i$ as the first layer receives it,
averaged over its real tokens, and the decomposition keeps 99 % of the sum of the eigenvalues.
CovSim is not a cosine: that of a task with itself is below 1 unless its covariance has rank one. A
task's own CovSim is the mean over the other tasks.

References: Wu et al. 2020, "Understanding and Improving Information Transfer in Multi-Task
Learning"; Pilault et al. 2021, "Conditionally Adaptive Multi-Task Learning", eq. 7, Figure 6.
"""

from collections.abc import Sequence

import numpy as np

from brodmann.errors import InputError
from brodmann.files import Array

KEPT = 0.99  # of the sum of the eigenvalues


def covsim(x_i: Array, x_j: Array, *, kept: float = KEPT) -> float:
    """CovSim of two sets of representations, (text, size) each."""
    return _similarity(_root(x_i, kept), _root(x_j, kept))


def covsim_matrix(inputs: Sequence[Array], *, kept: float = KEPT) -> tuple[Array, Array]:
    """CovSim of every pair, (task, task), and each task's mean over the others."""
    roots = [_root(one, kept) for one in inputs]
    count = len(roots)
    matrix = np.zeros((count, count))
    for i in range(count):
        for j in range(i, count):
            matrix[i, j] = matrix[j, i] = _similarity(roots[i], roots[j])
    own = matrix.diagonal()
    means = (matrix.sum(axis=1) - own) / (count - 1) if count > 1 else np.full(count, np.nan)
    return matrix, means


def _root(x: Array, kept: float) -> Array:
    """A = U D^(1/2) of X^T X, with enough columns to keep this share of the eigenvalues."""
    try:
        matrix = np.asarray(x, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("covsim: expected (text, size) of finite numbers") from None
    if matrix.ndim != 2 or not len(matrix) or not np.isfinite(matrix).all():
        raise InputError(f"covsim: expected (text, size) of finite numbers, found {matrix.shape}")
    if not 0 < kept <= 1:
        raise InputError(f"covsim: kept = {kept}: expected a share above 0, up to 1")
    _, singular, rows = np.linalg.svd(matrix, full_matrices=False)
    values = singular**2  # eigenvalues of X^T X
    if values.sum() == 0:
        raise InputError("covsim: all representations are zero")
    share = np.cumsum(values) / values.sum()
    rank = int(np.searchsorted(share, kept - 1e-12)) + 1
    return np.asarray(rows[:rank].T * singular[:rank])


def _similarity(a: Array, b: Array) -> float:
    if len(a) != len(b):
        raise InputError(f"covsim: representations of different sizes, {len(a)} and {len(b)}")
    both = float(np.linalg.norm(a.T @ b))
    return both / (float(np.linalg.norm(a)) * float(np.linalg.norm(b)))
