"""Draw tables and figures of the papers: ours filled, the paper's numbers outlined."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from brodmann.analysis.link import linked
from brodmann.text import short

Numbers = dict[str, dict[str, float | None]]  # row → column → value
SHADES = ("#1f4e79", "#c0392b", "#4a7c59", "#b8860b", "#6c5b7b", "#557a95", "#8c564b", "#555555")
STYLES = ("-", "--", "-.")
NO_PAIR = ("Pearson r, p", "Spearman ρ, p")  # first words of the rows below the pairs
LEAST_RANGE = 0.02  # least range of a y axis
AROUND = ((4, 2, "left", "bottom"), (4, -2, "left", "top"), (-4, 2, "right", "bottom"),
          (-4, -2, "right", "top"), (0, 6, "center", "bottom"), (0, -6, "center", "top"),
          (12, 10, "left", "bottom"), (12, -10, "left", "top"), (-12, 10, "right", "bottom"),
          (-12, -10, "right", "top"))  # of a point: where its name may stand  # fmt: skip
SPREAD = "± seeds"  # a column: the standard deviation of the average, or of D
PLUS_MINUS, P_VALUE = " ±", " p"  # endings of columns that show how certain another one is
ASIDE = (
    "difficulty",
    SPREAD,
    "task σ",
    "% data used",
    "peak at step",
)  # columns of another kind than the rest


def draw_view(view: dict[str, Any], ours: Numbers, about: str = "") -> Any:
    """Draw one view's numbers as the view asks for; `about` is put in the title, because pictures
    travel without the words around them."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    rows = [row for row in ours if not row.startswith(NO_PAIR)]
    columns = list(dict.fromkeys(column for row in rows for column in ours[row]))
    columns = [column for column in columns if column not in ASIDE and not _is_companion(column)]
    across = len(columns) if view["figure"] == "lines" else len(rows) * max(1, len(columns) / 3)
    figure = Figure(figsize=(max(5.0, 1.4 + 0.45 * across), 3.6))
    axes = figure.subplots()
    if not rows or not columns:
        axes.text(0.5, 0.5, "nothing to show: none of it is defined", ha="center", fontsize=8)
        axes.set_axis_off()
        return figure
    WAYS[view["figure"]](axes, ours, view["paper"], rows, columns)
    if view["unit"]:
        axes.set_ylabel(view["unit"], fontsize=8, parse_math=False)
    if view["sides"]:
        axes.set_ylabel(view["sides"][0], fontsize=8, parse_math=False)
        axes.set_xlabel(view["sides"][1], fontsize=8, parse_math=False)
    if view["unit"] and all(isinstance(ours[row].get(c), int) for row in rows for c in columns):
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))  # there is no half a head
    axes.tick_params(labelsize=7)
    low, high = axes.get_ylim()
    if view["figure"] == "lines" and high - low < LEAST_RANGE:  # noise must not look like news
        axes.set_ylim((low + high - LEAST_RANGE) / 2, (low + high + LEAST_RANGE) / 2)
    scale = f" ({about})" if about else ""
    axes.set_title(f"{view['name']}{scale}: {view['shows']}", fontsize=9, parse_math=False)
    return figure


def _is_companion(column: str) -> bool:
    return column.endswith((PLUS_MINUS, P_VALUE))


def _bars(
    axes: Any, ours: Numbers, paper: Numbers, rows: Sequence[str], columns: Sequence[str]
) -> None:
    """One group of bars per row, its average with the spread over seeds; the paper's outlined."""
    width = 0.8 / len(columns)
    for place, column in enumerate(columns):
        middle = np.arange(len(rows)) + (place - (len(columns) - 1) / 2) * width
        named = SPREAD if column in ("average", "D") else column + PLUS_MINUS
        known = any(ours.get(row, {}).get(named) is not None for row in rows)
        spread = _values(ours, rows, named) if known else None
        axes.bar(middle, _values(ours, rows, column), width * 0.9, yerr=spread, ecolor="#888888",
                 color=SHADES[place % len(SHADES)], label=short(column))  # fmt: skip
        theirs = _values(paper, rows, column)
        if np.isfinite(theirs).any():
            axes.bar(middle, theirs, width * 0.9, fill=False, edgecolor="#222222", linestyle=":",
                     label="the paper" if column == columns[-1] else None)  # fmt: skip
    axes.axhline(0, color="#222222", linewidth=0.6)
    axes.set_xticks(range(len(rows)), [short(row, 30) for row in rows], rotation=30, ha="right",
                    fontsize=7, parse_math=False)  # fmt: skip
    _legend(axes)


def _lines(
    axes: Any, ours: Numbers, paper: Numbers, rows: Sequence[str], columns: Sequence[str]
) -> None:
    """One line per row over the columns in their order; the paper's dotted."""
    for place, row in enumerate(rows):
        shade = SHADES[place % len(SHADES)]
        own = STYLES[place // len(SHADES) % len(STYLES)]  # more lines than shades
        for numbers, style in ((ours, own), (paper, ":")):
            values = [numbers.get(row, {}).get(column) for column in columns]
            if any(value is not None for value in values):
                axes.plot(range(len(columns)), _numbers(values), style, marker="o", markersize=3,
                          color=shade, label=short(row, 36) if style == own else None)  # fmt: skip
    axes.set_xticks(range(len(columns)), [short(c) for c in columns], fontsize=7, parse_math=False)
    _legend(axes)


def _matrix(
    axes: Any, ours: Numbers, paper: Numbers, rows: Sequence[str], columns: Sequence[str]
) -> None:
    """Shades with the number in every cell; below 0 in another colour, so that harm is not 0."""
    values = np.array([_numbers([ours[row].get(column) for column in columns]) for row in rows])
    known = values[np.isfinite(values)]
    most = float(np.abs(known).max()) if known.size else 1.0
    both_ways = bool((known < 0).any())
    if both_ways:
        axes.imshow(values, cmap="RdBu", vmin=-most, vmax=most, aspect="auto")
    else:
        axes.imshow(values, cmap="Blues", aspect="auto")
    least = 0.0 if both_ways or not known.size else float(known.min())
    middle = least + 0.6 * (most - least)  # darker than this, a shade needs white letters
    for (y, x), value in np.ndenumerate(values):
        if np.isfinite(value):
            text = f"{value:.2f}" if most <= 1 else f"{value:.1f}"
            colour = "white" if abs(value) > middle else "black"
            axes.text(x, y, text, ha="center", va="center", fontsize=7, color=colour)
    axes.set_xticks(range(len(columns)), [short(c, 14) for c in columns], fontsize=7, rotation=30,
                    ha="right", parse_math=False)  # fmt: skip
    axes.set_yticks(range(len(rows)), [short(r, 30) for r in rows], fontsize=7, parse_math=False)


def _points(
    axes: Any, ours: Numbers, paper: Numbers, rows: Sequence[str], columns: Sequence[str]
) -> None:
    """One point per row, first column against second, with the line through them and its band."""
    x, y = (np.array(_values(ours, rows, column)) for column in columns[:2])
    axes.scatter(x, y, s=18, color=SHADES[0])
    axes.margins(0.08)  # room for names
    axes.autoscale_view()
    axes.autoscale(False)  # scale to the points: a wide band would flatten them
    known = np.isfinite(x) & np.isfinite(y)
    if known.sum() > 2 and np.ptp(x[known]) > 0 and np.ptp(y[known]) > 0:
        line = linked(x[known].tolist(), y[known].tolist())
        at, low, high = np.array(line["band"]).T
        axes.plot(at, line["slope"] * at + line["intercept"], color=SHADES[1], linewidth=1)
        axes.fill_between(at, low, high, color=SHADES[1], alpha=0.15, linewidth=0)
    axes.set_xlabel(columns[0], fontsize=8, parse_math=False)
    axes.set_ylabel(columns[1], fontsize=8, parse_math=False)
    _name_points(axes, [(short(row), x[i], y[i]) for i, row in enumerate(rows) if known[i]])


def _name_points(axes: Any, points: Sequence[tuple[str, float, float]]) -> None:
    """Put each name beside its point, at the first position that no point or other name occupies;
    if all are occupied, to its right."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.transforms import Bbox

    canvas: Any = FigureCanvasAgg(axes.figure)
    renderer = canvas.get_renderer()
    dots = [axes.transData.transform((x, y)) for _, x, y in points]
    taken = [Bbox.from_extents(*(dot - 3), *(dot + 3)) for dot in dots]
    frame = axes.get_window_extent(renderer)
    for text, x, y in points:
        for place, (across, up, ha, va) in enumerate((*AROUND, AROUND[0])):
            name = axes.annotate(text, (x, y), fontsize=6, xytext=(across, up), ha=ha, va=va,
                                 textcoords="offset points", parse_math=False)  # fmt: skip
            box = name.get_window_extent(renderer)
            inside = frame.containsx(box.x1) and frame.containsx(box.x0)
            free = inside and frame.containsy(box.y0) and frame.containsy(box.y1)
            if place == len(AROUND) or (free and not box.count_overlaps(taken)):
                taken.append(box)
                break
            name.remove()


WAYS: dict[str, Callable[[Any, Numbers, Numbers, Sequence[str], Sequence[str]], None]] = {
    "bars": _bars,
    "lines": _lines,
    "matrix": _matrix,
    "points": _points,
}


def _values(numbers: Numbers, rows: Sequence[str], column: str) -> list[float]:
    return _numbers([numbers.get(row, {}).get(column) for row in rows])


def _numbers(values: Sequence[float | None]) -> list[float]:
    return [np.nan if value is None else value for value in values]


def _legend(axes: Any) -> None:
    shown = axes.legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    for text in shown.get_texts():
        text.set_parse_math(False)
