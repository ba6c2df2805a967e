"""Similarity of tasks against their dissociation, as rows of a figure (Li et al. 2023, Figures 3,
5, 6 and 7): pairwise D of the joint run, and D of the pairs trained two at a time."""

import math
from typing import Any

import numpy as np

from brodmann.analysis.link import dual_task, linked_pairs, reindexed
from brodmann.errors import InputError
from brodmann.files import Array
from brodmann.papers.recipes import Numbers

DUAL = "dual-task D"


def link_dse(found: dict[str, Any]) -> Numbers:
    return _linked(found, "dse")


def link_cra(found: dict[str, Any]) -> Numbers:
    return _linked(found, "cra")


def link_ahp(found: dict[str, Any]) -> Numbers:
    return _linked(found, "ahp")


def voxels_needed(run: str) -> str:
    return (
        "needs the voxels of Pereira et al. 2018, which we may not distribute: measure with "
        f"`brodmann relate {run} --by cnm --voxels FOLDER`, then run this again"
    )


def link_cnm(found: dict[str, Any]) -> Numbers:
    """The link with CNM, which another command stored in the same file."""
    if "cnm" not in found["dse"]:
        raise InputError(f"spec-figure3: {voxels_needed('RUN')}")
    return _linked({**found, "cnm": found["dse"]}, "cnm")


def _linked(found: dict[str, Any], measure: str) -> Numbers:
    """One row per pair of tasks with a D: similarity, D in the joint run and, if the pairs were
    also trained, D of the pair alone; then the correlations over the pairs."""
    result, joint = found[measure], [cell["dissociation"] for cell in found["joint"]]
    names = result["tasks"]
    similarity = np.array(result[measure]["matrix"], dtype=float)
    apart_in = [
        reindexed(np.array(one["pairwise"], dtype=float), one["tasks"], names) for one in joint
    ]
    against = {"D": _mean_over_seeds(apart_in)}
    if "dual" in found:
        against[DUAL] = dual_task(found["dual"], names)
    rows: Numbers = {}
    ends: Numbers = {}
    for column, apart in against.items():
        pairs, link = linked_pairs(names, similarity, apart)
        for one, other, x, y in pairs:
            row = rows.setdefault(f"{one}+{other}", {"similarity": x, "D": None})
            row[column] = 100 * y
        suffix = "" if column == "D" else f" ({column})"
        for title, key in (("Pearson r, p", "pearson"), ("Spearman ρ, p", "spearman")):
            ends[title + suffix] = {
                "similarity": _finite(link, key),
                column: _finite(link, f"{key}_p"),
            }
    return rows | ends


def _mean_over_seeds(matrices: list[Array]) -> Array:
    """Mean of every pair over the runs in which its D is defined; nan if in none."""
    each = np.stack(matrices)
    defined = np.isfinite(each)
    total, counts = np.where(defined, each, 0).sum(axis=0), defined.sum(axis=0)
    return np.where(counts > 0, total / np.maximum(counts, 1), np.nan)


def _finite(link: dict[str, Any] | None, key: str) -> float | None:
    return link[key] if link is not None and math.isfinite(link[key]) else None
