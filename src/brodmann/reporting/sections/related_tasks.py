"""How relevant tasks are to each other, and which form clusters (HMNet, Tables 2 and 3, Figure 2);
how similar their encoders are, compared with how far they separated (Li et al. 2023, Figures 3,
5-7)."""

from typing import Any

import numpy as np

from brodmann.analysis.link import dual_task, linked_pairs, reindexed
from brodmann.analysis.relevance import most_unequal
from brodmann.measuring.relations import RELATIONS, names_of, title_of
from brodmann.models.encoders import architecture_of
from brodmann.reporting.blocks import Block, Items, Matrix, Scatter, Section, Tree, Words
from brodmann.reporting.record import Study
from brodmann.reporting.sections.covariance import similarity
from brodmann.text import counted, p_value, percent, plain


def section(study: Study) -> Section | None:
    blocks: list[Any] = []
    for name in (f"relevance-{by}" for by in (*names_of("trainings"), *names_of("data"))):
        found = next((run.measures[name] for run in study.runs if name in run.measures), None)
        if found is not None:
            blocks += relevance_views(found)
    for run in study.runs:
        if "similarity" in run.measures:
            blocks += similarity_views(run.measures["similarity"], study)
            break
    return Section("relevance", "Which tasks belong together", blocks) if blocks else None


def relevance_views(found: dict[str, Any]) -> list[Block]:
    """The matrix in the order of the tree, so that similar tasks are neighbours."""
    order = [*found["dendrogram"]["order"]]
    order += [name for name in found["tasks"] if name not in order]
    matrix = reindexed(np.array(found["matrix"], dtype=float), found["tasks"], order)
    most = float(np.nanmax(np.abs(matrix), initial=0.0)) or 1.0
    relation = RELATIONS[found["by"]]
    directions = "" if relation.symmetric else "; the two directions differ"
    text = (
        f"Relevance by {found['by']}: {relation.shows}. Rows are sources, columns are "
        f"targets{directions}.{_terms(found)}"
    )
    caption, shades, colours = f"Relevance (%) by {found['by']}.", matrix / most, ""
    if (matrix < 0).any():  # by the square root: little harm is visible beside a large gain
        colours = "In the other colour: harm."
        shades = np.sign(shades) * np.sqrt(np.abs(shades))
    groups = [(f"Cluster {n}: {', '.join(g)}", "") for n, g in enumerate(found["clusters"], 1)]
    groups += [(f"In no cluster: {name}", why) for name, why in found.get("left_out", {}).items()]
    blocks: list[Block] = [
        Words(text),
        Matrix(order, order, _plain(matrix), caption, _plain(shades), colours=colours),
        *_unequal(matrix, order),
        Items(groups, "Clusters (k-means over the rows)"),
    ]
    clear = found["suggested"]
    if clear["clusters"] > 1:
        words = f"The clearest number of clusters is {clear['clusters']}"
        blocks.append(Words(f"{words} (silhouette {clear['silhouette']:.2f}).", "note"))
    if joins := found["dendrogram"]["joins"]:
        caption = "Which tasks join first: average linkage of the rows."
        blocks.append(Tree(found["dendrogram"]["order"], joins, caption))
    return blocks


def _terms(found: dict[str, Any]) -> str:
    """The terms of the measurement, if the result records them."""
    trained = found.get("trained")
    if "pieces" in found:
        return f" Words are the pieces that the tokenizer of {found['pieces']} makes."
    if not trained:
        return ""
    amount = f"at most {trained['limit']:,}" if trained["limit"] else "all"
    return (
        f" Trained on {amount} examples per task, {counted(trained['epochs'], 'epoch')}, "
        f"{trained['backbone']}, seed {trained['seed']}."
    )


def _unequal(matrix: Any, names: list[str]) -> list[Any]:
    place = {name: number for number, name in enumerate(names)}
    items = []
    for source, target in most_unequal(matrix, names):
        there, back = (matrix[place[a], place[b]] for a, b in ((source, target), (target, source)))
        items.append((f"{source} → {target} {percent(there)} %, back {percent(back)} %", ""))
    return [Items(items, "The most unequal pairs")] if items else []


def similarity_views(found: dict[str, Any], study: Study) -> list[Any]:
    blocks: list[Any] = []
    tasks = found["tasks"]
    beside = dissociations(tasks, study)
    for name, relation in RELATIONS.items():
        if name not in found or relation.alone:
            continue
        blocks.append(similarity_matrix(name, found))
        matrix = found[name]["matrix"]
        for words, pairwise in beside.items():
            blocks += link_views(name, tasks, np.array(matrix, dtype=float), words, pairwise)
    if blocks and not beside and any(run.dissociation for run in study.runs):
        text = "No run with a dissociation has three of these tasks: nothing to compare them with."
        blocks.append(Words(text, "note"))
    return blocks


def similarity_matrix(name: str, found: dict[str, Any]) -> Matrix:
    """Similarity of the encoders of every two tasks, by one measure."""
    matrix = found[name]["matrix"]
    relation = RELATIONS[name]
    between = ", between the encoders of single tasks" if relation.separate else ""
    caption = f"{title_of(name)} (%): {relation.shows}{between}."
    return Matrix(found["tasks"], found["tasks"], matrix, caption, matrix)


def relations(name: str, found: dict[str, Any]) -> list[Block]:
    """What one measure on trained runs says about every two tasks."""
    return similarity(found) if RELATIONS[name].alone else [similarity_matrix(name, found)]


def dissociations(tasks: list[str], study: Study) -> dict[str, Any]:
    """Dissociations to compare with similarity: pairwise D of the run that trains most of the tasks
    together, and D of the pairs of a grid, each in the order of `tasks`."""
    joint = [
        (run.name, run.dissociation)
        for run in study.runs
        # separate encoders have heads in common by position only
        if run.dissociation is not None
        and not architecture_of(run.dissociation.settings.get("architecture")).separate
    ]
    found: dict[str, Any] = {}
    if joint:
        name, apart = max(joint, key=lambda one: len(set(one[1].tasks) & set(tasks)))
        if len(set(apart.tasks) & set(tasks)) > 2:
            pairwise = np.array(apart.pairwise, dtype=float)
            found[f"pairwise D in {name}"] = reindexed(pairwise, apart.tasks, tasks)
    if study.grid is not None:
        dual = dual_task(study.grid["cells"], tasks)
        if np.isfinite(dual).any():
            found["dual-task D"] = dual
    return found


def link_views(name: str, tasks: list[str], similarity: Any, words: str, apart: Any) -> list[Any]:
    """A scatter plot of all pairs that have a D."""
    pairs, link = linked_pairs(tasks, similarity, apart)
    if link is None:
        return []
    caption = (
        f"Do similar tasks ({name.upper()}) separate less ({words})? Pearson r = "
        f"{plain(link['pearson'], 2)} ({p_value(link['pearson_p'])}), Spearman "
        f"{plain(link['spearman'], 2)} ({p_value(link['spearman_p'])}), {link['pairs']} pairs that "
        "share tasks. Band: 95 % of the line."
    )
    points = [(x, 100 * y, f"{one} – {other}") for one, other, x, y in pairs]
    band = [(x, 100 * low, 100 * high) for x, low, high in link["band"]]
    return [Scatter(points, name.upper(), f"{words.partition(' in ')[0]} (%)", caption, band)]


def _plain(matrix: Any) -> list[list[float | None]]:
    return [[None if np.isnan(value) else float(value) for value in row] for row in matrix]
