"""Head maps and dissociation as matplotlib figures."""

from pathlib import Path
from typing import Any

import numpy as np

from brodmann.errors import InputError
from brodmann.results import Dissociation, HeadScores

COLOURS = "Greys"
OWN = "#c0392b"


def plot(result: Any, path: str | Path | None = None, *, alpha: float = 0.3) -> Any:
    """A figure of head scores or of a dissociation, saved if `path` is given (.svg, .png, .pdf).

    `alpha` is the share of heads that a head map marks.
    """
    if isinstance(result, HeadScores):
        figure = _head_maps(result, alpha)
    elif isinstance(result, Dissociation):
        figure = _dissociation(result)
    else:
        raise InputError(
            f"plot: expected head scores or a dissociation, found {type(result).__name__}"
        )
    if path is not None:
        figure.savefig(path, bbox_inches="tight")
    return figure


def _head_maps(scores: HeadScores, alpha: float) -> Any:
    from matplotlib.figure import Figure

    layers, heads = scores.shape
    count = len(scores.tasks)
    columns = min(count, 4)
    rows = -(-count // columns)
    size = (1.2 + columns * max(1.6, 0.22 * heads), rows * max(1.5, 0.3 * layers + 0.7))
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for axes in grid.flat[count:]:
        axes.set_visible(False)
    for axes, task in zip(grid.flat, scores.tasks, strict=False):
        values = scores.of(task)
        axes.imshow(values / (values.max() or 1.0), cmap=COLOURS, aspect="auto", origin="lower")
        top = np.array(scores.top(alpha, task)).reshape(-1, 2)
        axes.scatter(top[:, 1], top[:, 0], marker="s", s=40, facecolors="none", edgecolors=OWN)
        axes.set_title(task, fontsize=9)
        axes.set_xticks(range(0, heads, max(1, heads // 6)))
        axes.set_yticks(range(0, layers, max(1, layers // 6)))
        axes.tick_params(labelsize=7)
    figure.supxlabel("head", fontsize=8)
    figure.supylabel("layer", fontsize=8)
    figure.suptitle(
        f"Head importance (each task scaled to its most important head); "
        f"squares: top {100 * alpha:g} %",
        fontsize=9,
    )
    return figure


def _dissociation(result: Dissociation) -> Any:
    from matplotlib.figure import Figure

    count = len(result.tasks)
    figure = Figure(figsize=(3.4 + 1.4 * count, 1.6 + 0.5 * count), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[count + 2, count])
    matrix = np.array(result.performance)
    base = np.array(result.base)[:, None]
    random = np.array([[np.mean(draws) if draws else np.nan] for draws in result.random])
    shown = np.concatenate([matrix, random, base], axis=1)
    relative = np.divide(shown, base, out=np.full_like(shown, np.nan), where=base > 0)
    left.imshow(relative, cmap="Reds_r", vmin=0.2, vmax=1.0, aspect="auto")
    for (i, j), value in np.ndenumerate(shown):
        if np.isfinite(value):
            weight = "bold" if i == j else "normal"
            text, dark = f"{100 * value:.1f}", relative[i, j] < 0.5
            left.text(
                j, i, text, ha="center", va="center", fontsize=8, weight=weight,
                color="white" if dark else "black",
            )  # fmt: skip
    left.set_xticks(range(count + 2), [*(f"– {t}" for t in result.tasks), "random", "base"])
    left.tick_params(axis="x", labelrotation=30, labelsize=8)
    left.set_yticks(range(count), result.tasks, fontsize=8)
    left.set_title(f"score (%), heads of … off (top {100 * result.alpha:g} %)", fontsize=9)
    values = [0.0 if d is None else 100 * d for d in result.per_task]
    right.barh(range(count), values, color=[OWN if v > 0 else "#7f8c8d" for v in values])
    for i, ends in enumerate(result.intervals["per_task"]):
        if ends is not None:
            right.plot([100 * end for end in ends], [i, i], color="black", linewidth=1.2)
        if result.per_task[i] is None:
            right.text(0, i, " undefined", va="center", fontsize=8)
    right.axvline(0, color="black", linewidth=0.6)
    right.set_yticks(range(count), result.tasks, fontsize=8)
    right.invert_yaxis()
    right.tick_params(axis="x", labelsize=8)
    right.set_title("dissociation D (%), 95 % interval", fontsize=9)
    return figure


def learning_curves(summary: dict[str, Any]) -> Any:
    """Few-shot scores over the amount of data: a line a start, its spread over seeds as a band."""
    from matplotlib.figure import Figure

    tasks = summary["tasks"]
    figure = Figure(figsize=(0.6 + 3.2 * len(tasks), 2.8), layout="constrained")
    grid = figure.subplots(1, len(tasks), squeeze=False)
    for axes, (task, table) in zip(grid.flat, tasks.items(), strict=True):
        amounts = list(table)
        places = np.arange(len(amounts))
        for start in next(iter(table.values())):
            points = [table[amount][start]["mean"] for amount in amounts]
            mean = 100 * np.array([point[0] for point in points])
            spread = 100 * np.array([point[1] or 0.0 for point in points])
            line = axes.plot(places, mean, marker="o", markersize=3, label=start)[0]
            axes.fill_between(
                places, mean - spread, mean + spread, color=line.get_color(), alpha=0.15, lw=0
            )
        axes.set_xticks(places, amounts, fontsize=8)
        axes.set_title(f"{task}: {summary['metrics'][task]} (%)", fontsize=9)
        axes.set_xlabel("training examples", fontsize=8)
        axes.tick_params(labelsize=8)
    grid.flat[0].legend(fontsize=8, frameon=False)
    return figure
