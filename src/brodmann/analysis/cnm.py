r"""`cnm`: do two models predict the same parts of the brain? Voxel-wise encoding of fMRI.

Ridge regression from sentence representations to the activity of each voxel, cross-validated over
sentences; a voxel's score is the correlation of predicted and measured activity. The similarity of
two tasks is the correlation of their voxels' scores. The most predictable voxels are chosen inside
the training folds.

Data: Pereira et al. 2018, 384 sentences, from https://osf.io/crwz7; one folder or file per
participant, in either published layout: `examples_384sentences.mat` (a matrix `examples`, sentence
× voxel) or `data_384sentences.mat` (`examples_passagesentences`, and texts in `keySentences`).
Departure from Luo et al. 2022, whose code fits an MLP: ridge regression, as is usual in the field.

Reference: Li et al. 2023, "Interpreting and Exploiting Functional Specialization in Multi-Head
Attention under Multi-task Learning", appendix D; Luo et al. 2022, "CogTaskonomy".
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from brodmann.errors import InputError
from brodmann.files import Array

FILES = ("data_384sentences.mat", "examples_384sentences.mat")  # the first has the texts
KEYS, TEXTS = ("examples_passagesentences", "examples"), "keySentences"
SENTENCES, TEXT_FILE = 384, "sentences.txt"
SOURCE = "https://osf.io/crwz7"
PENALTIES = (1.0, 10.0, 100.0, 1000.0, 10_000.0)


def voxel_scores(
    representations: Array, voxels: Array, *, folds: int = 5, most: int = 5000, seed: int = 0
) -> Array:
    """(voxel,): mean correlation over the folds in which a voxel was chosen; nan if it never was.

    A voxel that does not vary has no correlation, so its score is nan as well.
    """
    x, y = np.asarray(representations, float), np.asarray(voxels, float)
    if x.ndim != 2 or y.ndim != 2 or len(x) != len(y):
        raise InputError(
            f"cnm: representations {x.shape} and voxels {y.shape} have different numbers of "
            "sentences"
        )
    if not 2 <= folds <= len(x) // 4:
        raise InputError(f"cnm: {folds} folds of {len(x)} sentences: expected 2 to {len(x) // 4}")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise InputError("cnm: some representations or voxels are not finite numbers")
    if not np.ptp(y, axis=0).any():
        raise InputError("cnm: no voxel varies from sentence to sentence")
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
        best = int(np.argmax([np.nan_to_num(trial).mean() for trial in trials]))
        chosen = np.argsort(-np.nan_to_num(trials[best], nan=-1.0), kind="stable")[:most]
        predicted = _ridge(x[train], y[train][:, chosen], x[test], PENALTIES[best])
        scores = _correlations(predicted, y[test][:, chosen])
        defined = np.isfinite(scores)
        total[chosen[defined]] += scores[defined]
        times[chosen[defined]] += 1
    found = np.full(len(total), np.nan)
    np.divide(total, times, where=times > 0, out=found)
    return found


def cnm(scores_a: Array, scores_b: Array) -> float:
    """Correlation of two tasks' voxel scores, over the voxels that both tasks scored."""
    a, b = np.asarray(scores_a, float), np.asarray(scores_b, float)
    both = np.isfinite(a) & np.isfinite(b)
    if a.shape != b.shape or both.sum() < 3:
        raise InputError("cnm: expected scores of the same voxels, at least three defined in both")
    if np.ptp(a[both]) == 0 or np.ptp(b[both]) == 0:
        raise InputError("cnm: all voxels have the same score, so the correlation is undefined")
    return float(np.corrcoef(a[both], b[both])[0, 1])


def cnm_matrix(
    representations: Sequence[Array], voxels: Mapping[str, Array], seed: int = 0
) -> Array:
    """Mean CNM over participants, (task, task)."""
    total = np.zeros((len(representations), len(representations)))
    for matrix in voxels.values():
        scores = [voxel_scores(one, matrix, seed=seed) for one in representations]
        total += [[cnm(a, b) for b in scores] for a in scores]
    return np.asarray(total / len(voxels))


def read_voxels(folder: str | Path) -> dict[str, Array]:
    """(sentence, voxel) by participant, from the published files."""
    found = {}
    for participant, path in participants(folder).items():
        content = _content(path, KEYS)
        key = next((key for key in KEYS if key in content), None)
        try:
            matrix = None if key is None else np.asarray(content[key], dtype=float)
        except (TypeError, ValueError):
            matrix = None
        if matrix is None:
            raise InputError(f"{path}: expected a matrix of numbers, '{KEYS[0]}' or '{KEYS[1]}'")
        if matrix.ndim != 2 or len(matrix) != SENTENCES or not matrix.shape[1]:
            raise InputError(
                f"{path}: '{key}' is {matrix.shape}, expected {SENTENCES} sentences × voxels"
            )
        if not np.isfinite(matrix).all():
            raise InputError(f"{path}: '{key}' holds numbers that are not finite")
        found[participant] = matrix
    return found


def read_sentences(folder: str | Path) -> list[str]:
    """The texts in the files, else those in `sentences.txt` beside them, one per line."""
    for path in participants(folder).values():
        content = _content(path, (TEXTS,))
        if TEXTS in content:
            texts = [_text(cell) for cell in np.asarray(content[TEXTS]).ravel()]
            if len(texts) != SENTENCES or not all(texts):
                raise InputError(f"{path}: '{TEXTS}': expected {SENTENCES} texts")
            return texts
    path = Path(folder) / TEXT_FILE
    if not path.is_file():
        raise InputError(
            f"{folder}: the files hold no texts ('{TEXTS}' of {FILES[0]}): write the {SENTENCES} "
            f"sentences into {TEXT_FILE} in that folder, one per line"
        )
    lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    if len(lines) != SENTENCES or not all(lines):
        raise InputError(
            f"{path}: {len(lines)} lines, expected {SENTENCES} sentences, one per line"
        )
    return lines


def participants(folder: str | Path) -> dict[str, Path]:
    """File by participant: one subfolder per participant with a published file, or one file per
    participant."""
    place = Path(folder)
    inside = {
        path.parent.name: path
        for name in reversed(FILES)
        for path in sorted(place.glob(f"*/{name}"))
    }
    found = inside or {path.stem: path for path in sorted(place.glob("*.mat"))}
    if not found:
        raise InputError(
            f"{place}: no */{FILES[0]} or */{FILES[1]} in it: the fMRI data of Pereira et al. 2018 "
            f"are at {SOURCE}, one folder per participant"
        )
    return dict(sorted(found.items()))


def _content(path: Path, keys: tuple[str, ...]) -> dict[str, Any]:
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    # NotImplementedError: files of MATLAB 7.3, which scipy does not read.
    unreadable = (KeyError, ValueError, TypeError, OSError, NotImplementedError, MatReadError)
    try:
        return dict(loadmat(path, variable_names=list(keys)))
    except unreadable as error:
        reason = " ".join(str(error).split())[:120]
        raise InputError(f"{path}: not a MATLAB file that can be read ({reason})") from None


def _text(cell: Any) -> str:
    """The text of a MATLAB cell, which holds an array of one text."""
    inner = np.asarray(cell).ravel()
    return str(inner[0]).strip() if len(inner) else ""


def _ridge(x: Array, y: Array, new: Array, penalty: float) -> Array:
    """Predictions at `new`; solved over sentences, which are fewer than features or voxels."""
    mean_x, mean_y = x.mean(axis=0), y.mean(axis=0)
    centred = x - mean_x
    kernel = centred @ centred.T + penalty * np.eye(len(x))
    return np.asarray((new - mean_x) @ centred.T @ np.linalg.solve(kernel, y - mean_y) + mean_y)


def _correlations(a: Array, b: Array) -> Array:
    """Pearson correlation of every column; nan if one does not vary."""
    varies = (np.ptp(a, axis=0) > 0) & (np.ptp(b, axis=0) > 0)
    a, b = a - a.mean(axis=0), b - b.mean(axis=0)
    norms = np.linalg.norm(a, axis=0) * np.linalg.norm(b, axis=0)
    found = np.full(a.shape[1], np.nan)
    np.divide((a * b).sum(axis=0), norms, where=varies & (norms > 0), out=found)
    return found
