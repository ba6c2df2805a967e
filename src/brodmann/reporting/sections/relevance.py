"""Which tasks matter to which, and which belong together (HMNet, Tables 2 and 3, Figure 2); how
alike their encoders became, against how far they separated (Li et al. 2023, Figures 3, 5-7)."""

from typing import Any

import numpy as np

from brodmann.analysis.link import linked, pairs_of
from brodmann.errors import InputError
from brodmann.reporting.blocks import Items, Matrix, Scatter, Section, Words
from brodmann.reporting.record import Study

WAYS = {
    "words": "the share of the target's words that the source has too",
    "groups": "1 where two tasks name the same group",
    "pairs": "how much the target's score changes when the source is trained beside it",
}
MEASURES = {
    "dse": "mean cosine of sentence representations",
    "cra": "agreement on which sentences are alike",
    "ahp": "how well each transfers to the other (mean of both directions)",
}


def section(study: Study) -> Section | None:
    blocks: list[Any] = []
    for name in ("relevance-pairs", "relevance-words", "relevance-groups"):
        found = next((run.measures[name] for run in study.runs if name in run.measures), None)
        if found is not None:
            blocks += relevance_views(found)
    for run in study.runs:
        if "similarity" in run.measures:
            blocks += similarity_views(run.measures["similarity"], study)
            break
    return Section("relevance", "Which tasks belong together", blocks) if blocks else None


def relevance_views(found: dict[str, Any]) -> list[Any]:
    matrix = found["matrix"]
    most = max(abs(value) for row in matrix for value in row) or 1.0
    text = (
        f"Relevance by {found['by']}: {WAYS[found['by']]}. A row is a source, a column a target; "
        "the two directions differ."
    )
    groups = [(f"Cluster {n}: {', '.join(g)}", "") for n, g in enumerate(found["clusters"], 1)]
    clear = found["suggested"]
    blocks = [
        Words(text),
        Matrix(
            found["tasks"],
            found["tasks"],
            matrix,
            f"Relevance (%) by {found['by']}.",
            [[max(value, 0.0) / most for value in row] for row in matrix],
        ),
        Items(groups, "Clusters (k-means over the rows)"),
    ]
    if clear["clusters"] > 1:
        words = f"The clearest number of clusters is {clear['clusters']}"
        blocks.append(Words(f"{words} (silhouette {clear['silhouette']:.2f}).", "note"))
    joins = [
        (f"{', '.join(step['left'])} + {', '.join(step['right'])}", f"at {step['distance']:.3g}")
        for step in found["dendrogram"]["joins"][:12]
    ]
    if joins:
        blocks.append(Items(joins, "Who joins whom first (average linkage)"))
    return blocks


def similarity_views(found: dict[str, Any], study: Study) -> list[Any]:
    blocks: list[Any] = []
    apart = next((run.dissociation for run in study.runs if run.dissociation is not None), None)
    for name, meaning in MEASURES.items():
        if name not in found:
            continue
        matrix = found[name]["matrix"]
        caption = f"{name.upper()} (%): {meaning}, between the encoders of single tasks."
        shades = [[None if v is None else max(v, 0.0) for v in row] for row in matrix]
        blocks.append(Matrix(found["tasks"], found["tasks"], matrix, caption, shades))
        if apart is not None and apart.tasks == found["tasks"]:
            blocks += link_views(name, np.array(matrix, dtype=float), apart)
    return blocks


def link_views(name: str, similarity: Any, apart: Any) -> list[Any]:
    """Points of all pairs that have a D."""
    pairwise = np.array([[np.nan if d is None else d for d in row] for row in apart.pairwise])
    x, y = pairs_of(similarity), pairs_of(pairwise)
    places = np.triu_indices(len(apart.tasks), k=1)
    names = [f"{apart.tasks[i]} – {apart.tasks[j]}" for i, j in zip(*places, strict=True)]
    kept = [n for n in range(len(x)) if np.isfinite(y[n])]
    try:
        link = linked(x[kept].tolist(), y[kept].tolist())
    except InputError:
        return []
    caption = (
        f"Do tasks that are more alike ({name.upper()}) separate less? Pearson r = "
        f"{link['pearson']:.2f} (p = {link['pearson_p']:.3f}), Spearman {link['spearman']:.2f} "
        f"(p = {link['spearman_p']:.3f}), {link['pairs']} pairs that share tasks."
    )
    points = [(float(x[n]), 100 * float(y[n]), names[n]) for n in kept]
    return [Scatter(points, name.upper(), "pairwise D (%)", caption)]
