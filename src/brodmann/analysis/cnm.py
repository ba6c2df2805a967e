r"""`cnm`: do two models predict the same parts of the brain? Voxel-wise encoding of fMRI.

Ridge regression from sentence representations to the activity of each voxel, cross-validated over
sentences; a voxel's score is the correlation of predicted and measured activity. The similarity of
two tasks is the correlation of their voxels' scores. The most predictable voxels are chosen inside
the training folds.

Data: Pereira et al. 2018, 384 sentences, a folder a participant with `examples_384sentences.mat`
(a matrix `examples`, sentence × voxel), from https://osf.io/crwz7. Departure from Luo et al. 2022,
whose code fits an MLP: ridge, as the field does.

Reference: Li et al. 2023, appendix D; Luo et al. 2022.
"""

from pathlib import Path

import numpy as np

from brodmann.artifacts import Array
from brodmann.errors import InputError

FILE, KEY, SENTENCES = "examples_384sentences.mat", "examples", 384
SOURCE = "https://osf.io/crwz7"
PENALTIES = (1.0, 10.0, 100.0, 1000.0, 10_000.0)


def voxel_scores(
    representations: Array, voxels: Array, *, folds: int = 5, most: int = 5000, seed: int = 0
) -> Array:
    """(voxel,): mean correlation over the folds in which a voxel was chosen; nan for the others."""
    x, y = np.asarray(representations, float), np.asarray(voxels, float)
    if x.ndim != 2 or y.ndim != 2 or len(x) != len(y):
        raise InputError(f"cnm: representations {x.shape} and voxels {y.shape} of other sentences")
    if not 2 <= folds <= len(x) // 4:
        raise InputError(f"cnm: {folds} folds of {len(x)} sentences: expected 2 to {len(x) // 4}")
    order = np.random.default_rng(seed).permutation(len(x))
    total, times = np.zeros(y.shape[1]), np.zeros(y.shape[1])
    for fold in range(folds):
        test = order[fold::folds]
        train = order[~np.isin(order, test)]  # in their random order
        inner, held = train[len(train) // 5 :], train[: len(train) // 5]
        trials = [
            _correlations(_ridge(x[inner], y[inner], x[held], penalty), y[held])
            for penalty in PENALTIES
        ]
        best = int(np.argmax([np.nanmean(trial) for trial in trials]))
        chosen = np.argsort(-np.nan_to_num(trials[best], nan=-1.0), kind="stable")[:most]
        predicted = _ridge(x[train], y[train][:, chosen], x[test], PENALTIES[best])
        total[chosen] += np.nan_to_num(_correlations(predicted, y[test][:, chosen]))
        times[chosen] += 1
    found = np.full(len(total), np.nan)
    np.divide(total, times, where=times > 0, out=found)
    return found


def cnm(scores_a: Array, scores_b: Array) -> float:
    """Correlation of two tasks' voxel scores, over the voxels that both have."""
    a, b = np.asarray(scores_a, float), np.asarray(scores_b, float)
    both = np.isfinite(a) & np.isfinite(b)
    if a.shape != b.shape or both.sum() < 3:
        raise InputError("cnm: expected the scores of the same voxels, three at least in both")
    return float(np.corrcoef(a[both], b[both])[0, 1])


def read_voxels(folder: str | Path) -> dict[str, Array]:
    """participant → (sentence, voxel), from the published files."""
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    # NotImplementedError: files of MATLAB 7.3, which scipy does not read.
    unreadable = (KeyError, ValueError, TypeError, OSError, NotImplementedError, MatReadError)
    place = Path(folder)
    files = sorted(place.glob(f"*/{FILE}"))
    if not files:
        raise InputError(
            f"{place}: no */{FILE} there: the fMRI data of Pereira et al. 2018 are at {SOURCE}, a "
            "folder a participant"
        )
    found = {}
    for path in files:
        try:
            matrix = np.asarray(loadmat(path)[KEY], dtype=float)
        except unreadable as error:
            reason = " ".join(str(error).split())[:120]
            raise InputError(f"{path}: expected a matrix '{KEY}' ({reason})") from None
        if matrix.ndim != 2 or len(matrix) != SENTENCES:
            raise InputError(
                f"{path}: '{KEY}' is {matrix.shape}, expected {SENTENCES} sentences × voxels"
            )
        found[path.parent.name] = matrix
    return found


def _ridge(x: Array, y: Array, new: Array, penalty: float) -> Array:
    """Predictions at `new`; solved over sentences, which are fewer than features or voxels."""
    mean_x, mean_y = x.mean(axis=0), y.mean(axis=0)
    centred = x - mean_x
    kernel = centred @ centred.T + penalty * np.eye(len(x))
    return np.asarray((new - mean_x) @ centred.T @ np.linalg.solve(kernel, y - mean_y) + mean_y)


def _correlations(a: Array, b: Array) -> Array:
    """Pearson of every column; nan where one does not vary."""
    a, b = a - a.mean(axis=0), b - b.mean(axis=0)
    norms = np.linalg.norm(a, axis=0) * np.linalg.norm(b, axis=0)
    found = np.full(a.shape[1], np.nan)
    np.divide((a * b).sum(axis=0), norms, where=norms > 0, out=found)
    return found
