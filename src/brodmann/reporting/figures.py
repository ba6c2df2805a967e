"""Head maps, dissociation and attention maps as matplotlib figures."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from brodmann.errors import InputError
from brodmann.results import USUAL_ALPHA, AttentionMaps, Dissociation, HeadScores
from brodmann.text import percent, percentage, short

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = "Greys"
OWN = "#c0392b"


def plot(
    result: HeadScores | Dissociation | AttentionMaps,
    path: str | Path | None = None,
    *,
    alpha: float = USUAL_ALPHA,
) -> "Figure":
    """Draw head scores, a dissociation or attention maps; save the figure if `path` is given (.svg,
    .png, .pdf).

    `alpha` is the share of heads that a head map marks.
    """
    figure: Figure
    if isinstance(result, HeadScores):
        figure = _head_maps(result, alpha)
    elif isinstance(result, Dissociation):
        figure = _dissociation(result)
    elif isinstance(result, AttentionMaps):
        figure = _attention_maps(result)
    else:
        raise InputError(
            "plot: expected head scores, a dissociation or attention maps, found "
            f"{type(result).__name__}"
        )
    if path is not None:
        save(figure, path)
    return figure


def save(figure: Any, path: Any) -> None:
    """Save to a path, by its suffix, or as SVG to an open file.

    Text stays text in an .svg, so that the viewer chooses the fonts.
    """
    import matplotlib

    with warnings.catch_warnings(), matplotlib.rc_context({"svg.fonttype": "none"}):
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        how = {} if isinstance(path, str | Path) else {"format": "svg"}
        figure.savefig(path, bbox_inches="tight", **how)


def _head_maps(scores: HeadScores, alpha: float) -> Any:
    """Draw all maps in one picture with gaps between: many small axes take seconds to draw."""
    from matplotlib.figure import Figure

    layers, heads = scores.shape
    count = len(scores.tasks)
    columns = min(count, 4)
    rows = -(-count // columns)
    high, wide = layers + max(2, layers // 4), heads + 1  # a map and the room for its title
    picture = np.full((rows * high, columns * wide), np.nan)
    size = (1.2 + columns * max(1.6, 0.22 * heads), rows * max(1.5, 0.3 * layers + 0.7))
    figure = Figure(figsize=size)
    axes = figure.subplots()
    corners = [
        ((rows - 1 - place // columns) * high, place % columns * wide) for place in range(count)
    ]
    for (y, x), task in zip(corners, scores.tasks, strict=True):
        values = scores.of(task)
        most = float(values.max())  # leave-one-out may find no head that helps
        picture[y : y + layers, x : x + heads] = np.maximum(values, 0) / (most if most > 0 else 1.0)
        top = np.array(scores.top(alpha, task)).reshape(-1, 2)
        axes.scatter(
            top[:, 1] + x, top[:, 0] + y, marker="s", s=40, facecolors="none", edgecolors=OWN
        )
        axes.text(
            x + heads / 2 - 0.5, y + layers - 0.2, short(task), fontsize=9, ha="center",
            parse_math=False,
        )  # fmt: skip
    axes.imshow(picture, cmap=COLOURS, aspect="auto", origin="lower", vmin=0, vmax=1)
    beside, above = range(0, heads, max(1, heads // 6)), range(0, layers, max(1, layers // 6))
    below = count - (rows - 1) * columns  # maps in the last row
    xs = [(column * wide + head, head) for column in range(below) for head in beside]
    ys = [(row * high + layer, layer) for row in range(rows) for layer in above]
    axes.set_xticks([place for place, _ in xs], [str(number) for _, number in xs], fontsize=7)
    axes.set_yticks([place for place, _ in ys], [str(number) for _, number in ys], fontsize=7)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("head", fontsize=8)
    axes.set_ylabel("layer", fontsize=8)
    axes.set_title(
        f"Head importance (each task scaled to its most important head); "
        f"squares: top {percentage(alpha)}",
        fontsize=9,
    )
    return figure


def _dissociation(result: Dissociation) -> Any:
    from matplotlib.figure import Figure

    count = len(result.tasks)
    names = [short(task) for task in result.tasks]
    figure = Figure(figsize=(3.4 + 1.4 * count, 1.6 + 0.5 * count))
    left, right = figure.subplots(1, 2, width_ratios=[count + 2, count])
    longest = max(len(name) for name in names)  # the right side's names are between the two
    figure.subplots_adjust(wspace=(0.3 + 0.075 * longest) / (0.3 * figure.get_figwidth()))
    matrix = np.array(result.performance)
    base = np.array(result.base)[:, None]
    random = np.array([[np.mean(draws) if draws else np.nan] for draws in result.random])
    shown = np.concatenate([matrix, random, base], axis=1)
    relative = np.divide(shown, base, out=np.full_like(shown, np.nan), where=base > 0)
    left.imshow(relative, cmap="Reds_r", vmin=0.2, vmax=1.0, aspect="auto")
    for (i, j), value in np.ndenumerate(shown):
        if np.isfinite(value):
            weight = "bold" if i == j else "normal"
            text, dark = percent(value), relative[i, j] < 0.5
            left.text(
                j, i, text, ha="center", va="center", fontsize=8, weight=weight,
                color="white" if dark else "black",
            )  # fmt: skip
    off = [*(f"– {t}" for t in names), "random", "base"]
    left.set_xticks(range(count + 2), off, parse_math=False)
    left.tick_params(axis="x", labelrotation=30, labelsize=8)
    left.set_yticks(range(count), names, fontsize=8, parse_math=False)
    left.set_title(f"score (%), heads of … off (top {percentage(result.alpha)})", fontsize=9)
    values = [0.0 if d is None else 100 * d for d in result.per_task]
    right.barh(range(count), values, color=[OWN if v > 0 else "#7f8c8d" for v in values])
    for i, ends in enumerate(result.intervals["per_task"]):
        if ends is not None:
            right.plot([100 * end for end in ends], [i, i], color="black", linewidth=1.2)
        if result.per_task[i] is None:
            right.text(0, i, " undefined", va="center", fontsize=8)
    right.axvline(0, color="black", linewidth=0.6)
    right.set_yticks(range(count), names, fontsize=8, parse_math=False)
    right.invert_yaxis()
    right.tick_params(axis="x", labelsize=8)
    right.set_title("dissociation D (%), 95 % interval", fontsize=9)
    return figure


def _attention_maps(result: AttentionMaps) -> Any:
    """One heat map per task, layer × head, layer 0 at the bottom (HMNet, Figures 5 and 6)."""
    from matplotlib.figure import Figure

    count, layers, heads = result.values.shape
    size = (1.2 + count * max(1.8, 0.25 * heads), max(2.2, 0.3 * layers + 1.0))
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(1, count, squeeze=False)[0]
    low = min(0.0, float(result.values.min()))
    for axes, task, values in zip(grid, result.tasks, result.values, strict=True):
        image = axes.imshow(values, cmap="viridis", vmin=low, vmax=1, aspect="auto", origin="lower")
        axes.set_title(short(task), fontsize=9, parse_math=False)
        axes.set_xticks(range(0, heads, max(1, heads // 6)))
        axes.set_yticks(range(0, layers, max(1, layers // 6)))
        axes.tick_params(labelsize=7)
        axes.set_xlabel("head", fontsize=8)
    grid[0].set_ylabel("layer", fontsize=8)
    figure.colorbar(image, ax=list(grid)).ax.tick_params(labelsize=7)
    runs = " and ".join(short(run) for run in result.runs)
    figure.suptitle(f"cosine of attention maps, {runs}", fontsize=9, parse_math=False)
    return figure


def learning_curves(summary: dict[str, Any]) -> Any:
    """Few-shot scores by amount of data: one line per start, with a band for the spread."""
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
