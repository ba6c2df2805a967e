"""Group tasks: k-means over their rows of a relevance matrix.

A task's features are its raw row of scores as a source, the diagonal included: columns, or
standardised rows, do not give the published groups.

Reference: Fei et al. 2022, "Coarse-to-Fine: Hierarchical Multi-task Learning for Natural Language
Understanding" (HMNet), §3.3 and Appendix A.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from brodmann.errors import InputError
from brodmann.files import Array

STARTS = 100  # runs of k-means; the best one is kept


def cluster_tasks(
    matrix: Array, names: Sequence[str], clusters: int = 3, seed: int = 0
) -> list[list[str]]:
    """Lists of names; each cluster, and the clusters themselves, follow the order of the names.

    There are fewer clusters than asked for if fewer rows differ.
    """
    rows = _checked(matrix, names)
    check_clusters(clusters, len(names))
    from sklearn.cluster import KMeans

    # Tasks with equal rows cannot be separated: no more clusters than different rows.
    different = min(clusters, len(np.unique(rows, axis=0)))
    found = KMeans(n_clusters=different, n_init=STARTS, random_state=seed).fit_predict(rows)
    groups: dict[int, list[str]] = {}
    for name, place in zip(names, found, strict=True):
        groups.setdefault(int(place), []).append(name)
    return list(groups.values())


def check_clusters(clusters: int | None, tasks: int) -> None:
    """Raise InputError for an impossible number; None leaves the number to the data."""
    if clusters is not None and (isinstance(clusters, bool) or not 1 <= clusters <= tasks):
        raise InputError(f"clusters = {clusters}: expected a number from 1 to {tasks}")


def suggested_clusters(matrix: Array, names: Sequence[str], seed: int = 0) -> tuple[int, float]:
    """(k, silhouette) of the clearest number of clusters, from 2 to n - 1."""
    rows = _checked(matrix, names)
    if len(names) < 3:
        return 1, 0.0
    from sklearn.metrics import silhouette_score

    best = (1, 0.0)
    for count in range(2, min(len(names), len(np.unique(rows, axis=0)) + 1)):
        groups = cluster_tasks(rows, names, count, seed)
        place = {name: number for number, group in enumerate(groups) for name in group}
        score = float(silhouette_score(rows, [place[name] for name in names]))
        if score > best[1]:
            best = (count, score)
    return best


def dendrogram(matrix: Array, names: Sequence[str]) -> dict[str, Any]:
    """Average linkage of the rows for a drawing: the merges, and the order of the leaves."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import pdist

    rows = _checked(matrix, names)
    if len(names) < 2:
        return {"joins": [], "order": list(names)}
    joins = linkage(pdist(rows), method="average")
    members: list[list[str]] = [[name] for name in names]
    steps = []
    for one, other, distance, _ in joins:
        members.append([*members[int(one)], *members[int(other)]])
        steps.append(
            {"left": members[int(one)], "right": members[int(other)], "distance": float(distance)}
        )
    return {"joins": steps, "order": [names[int(leaf)] for leaf in leaves_list(joins)]}


def _checked(matrix: Array, names: Sequence[str]) -> Array:
    rows = np.asarray(matrix, dtype=float)
    if rows.ndim != 2 or len(rows) != len(names) or not np.isfinite(rows).all():
        raise InputError(f"clusters: a matrix of shape {rows.shape} for {len(names)} tasks")
    return rows
