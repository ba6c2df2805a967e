"""Lines over an axis as SVG, drawn here so that a page needs no library and no network.

Colours are classes, chosen by the page for light and dark; series beyond the eighth differ by dash.
"""

import math
from collections.abc import Callable, Sequence

from markupsafe import Markup, escape

from brodmann.reporting.blocks import Lines, Scatter, Tree

WIDTH, HEIGHT = 560, 270
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 14, 44
COLOURS = 8
LETTER = 7  # largest width of a digit in the small font
Scale = Callable[[float], float]
DASHES = ("", "6 3", "2 3")


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten) from `low` to `high`."""
    if not high > low:
        high = low + (abs(low) or 1.0)
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(s * power for s in (1, 2, 5, 10) if s * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(place * step, 12) for place in range(first, last + 1)]


def log_ticks(values: Sequence[float], most: int = 8) -> list[float]:
    """The values themselves if they are few, otherwise the powers of ten among them."""
    distinct = sorted(set(values))
    if len(distinct) <= most:
        return distinct
    low, high = math.floor(math.log10(distinct[0])), math.ceil(math.log10(distinct[-1]))
    return [10.0**power for power in range(low, high + 1)]


def style(place: int) -> tuple[str, str]:
    """(class, dash) of the series with this index: 24 of them can be distinguished."""
    return f"c{place % COLOURS}", DASHES[place // COLOURS % len(DASHES)]


def scales(block: Lines) -> tuple[Scale, Scale, list[float], list[float]]:
    """Functions from values to positions for x and y, and the ticks of both axes."""
    drawn = [*block.series.values(), *block.references.values()]
    points = [point for series in drawn for point in series]
    xs = [point[0] for point in points] + [at for at, _ in block.marks]
    ys = [point[1] + side * spread(point) for point in points for side in (-1, 1)]
    y_ticks = ticks(min(ys), max(ys))
    x_ticks = ticks(min(xs), max(xs), 6)
    if block.x_labels:
        x_ticks = [float(place) for place in range(len(block.x_labels))]
    if block.log_x:
        x_ticks = log_ticks(xs)
    place_of = math.log10 if block.log_x else float
    x_low, x_high = place_of(min(*xs, x_ticks[0])), place_of(max(*xs, x_ticks[-1]))
    y_low, y_high = min(*ys, y_ticks[0]), max(*ys, y_ticks[-1])

    def x(value: float) -> float:
        share = (place_of(value) - x_low) / ((x_high - x_low) or 1)
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def y(value: float) -> float:
        room = HEIGHT - TOP - BOTTOM
        return round(HEIGHT - BOTTOM - (value - y_low) / ((y_high - y_low) or 1) * room, 1)

    return x, y, x_ticks, y_ticks


def lines(block: Lines) -> Markup:
    if not any(block.series.values()):
        return Markup("")
    x, y, x_ticks, y_ticks = scales(block)
    words = block.x_labels or [f"{value:,.10g}" for value in x_ticks]
    parts = [_axes(dict(zip(x_ticks, words, strict=True)), y_ticks, x, y), _titles(block)]
    for at, word in block.marks:
        parts.append(
            Markup('<line class="mark" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>').format(
                x(at), TOP, HEIGHT - BOTTOM
            )
        )
        anchor = "end" if x(at) > WIDTH / 2 else "start"
        shift = -4 if anchor == "end" else 4
        parts.append(
            Markup('<text class="small" text-anchor="{}" x="{}" y="{}">{}</text>').format(
                anchor, x(at) + shift, TOP + 9, word
            )
        )
    for ends in block.references.values():
        path = " ".join(f"{x(point[0])},{y(point[1])}" for point in ends)
        parts.append(Markup('<polyline class="line reference" points="{}"/>').format(path))
    for place, series in enumerate(block.series.values()):
        if series:
            parts.append(_series(series, place, x, y))
    return _framed(block.caption, parts)


def spread(point: Sequence[float]) -> float:
    return point[2] if len(point) > 2 else 0.0


def _axes(x_ticks: dict[float, str], y_ticks: list[float], x: Scale, y: Scale) -> Markup:
    parts = []
    for value in y_ticks:
        parts.append(
            Markup('<line class="rule" x1="{}" x2="{}" y1="{y}" y2="{y}"/>').format(
                LEFT, WIDTH - RIGHT, y=y(value)
            )
        )
        parts.append(
            Markup('<text class="small" text-anchor="end" x="{}" y="{}">{}</text>').format(
                LEFT - 6, y(value) + 4, f"{value:,.10g}"
            )
        )
    for value, word in x_ticks.items():
        # A long word below the last point would be half outside the picture.
        outside = x(value) + LETTER * len(word) / 2 > WIDTH
        anchor, place = ("end", WIDTH - 1.0) if outside else ("middle", x(value))
        parts.append(
            Markup('<text class="small" text-anchor="{}" x="{}" y="{}">{}</text>').format(
                anchor, place, HEIGHT - BOTTOM + 16, word
            )
        )
    return Markup("").join(parts)


def _titles(block: Lines) -> Markup:
    across = LEFT + (WIDTH - LEFT - RIGHT) / 2
    along = TOP + (HEIGHT - TOP - BOTTOM) / 2
    return Markup(
        '<text class="title" text-anchor="middle" x="{}" y="{}">{}</text>'
        '<text class="title" text-anchor="middle" '
        'transform="translate(13 {}) rotate(-90)">{}</text>'
    ).format(across, HEIGHT - 8, block.x_title, along, block.y_title)


def _series(series: Sequence[Sequence[float]], place: int, x: Scale, y: Scale) -> Markup:
    colour, dash = style(place)
    parts = []
    if any(spread(point) for point in series):
        there = [f"{x(p[0])},{y(p[1] + spread(p))}" for p in series]
        back = [f"{x(p[0])},{y(p[1] - spread(p))}" for p in reversed(series)]
        parts.append(
            Markup('<polygon class="band {}" points="{}"/>').format(
                colour, " ".join([*there, *back])
            )
        )
    path = " ".join(f"{x(point[0])},{y(point[1])}" for point in series)
    parts.append(
        Markup('<polyline class="line {}" stroke-dasharray="{}" points="{}"/>').format(
            colour, dash or "none", path
        )
    )
    if len(series) <= 20:
        for point in series:
            parts.append(
                Markup('<circle class="dot {}" r="2.6" cx="{}" cy="{}"/>').format(
                    colour, x(point[0]), y(point[1])
                )
            )
    return Markup("").join(parts)


def swatch(names: Sequence[str], name: str) -> Markup:
    """A piece of the line, for the legend."""
    colour, dash = style(names.index(name))
    return Markup(
        '<svg class="swatch" viewBox="0 0 24 8" aria-hidden="true">'
        '<polyline class="line {}" stroke-dasharray="{}" points="0,4 24,4"/></svg>'
    ).format(escape(colour), dash or "none")


def reference_swatch() -> Markup:
    """A piece of a line to compare with, for the legend."""
    return Markup(
        '<svg class="swatch" viewBox="0 0 24 8" aria-hidden="true">'
        '<polyline class="line reference" points="0,4 24,4"/></svg>'
    )


def scatter(block: Scatter) -> Markup:
    """Points with their names, the least-squares line if it is defined, and its band."""
    xs, ys = [x for x, _, _ in block.points], [y for _, y, _ in block.points]
    ends: list[tuple[float, float]] = []
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread_x = sum((x - mean_x) ** 2 for x in xs)
    if len(xs) > 2 and spread_x > 0:
        both = sum((x - mean_x) * (y - mean_y) for x, y, _ in block.points)
        ends = [(x, mean_y + both / spread_x * (x - mean_x)) for x in (min(xs), max(xs))]
    edges = [(at, end) for at, *both in block.band for end in both]
    frame = Lines({"": ends, " ": [(x, y) for x, y in zip(xs, ys, strict=True)], "  ": edges},
                  block.x_title, block.y_title, block.caption)  # fmt: skip
    x, y, x_ticks, y_ticks = scales(frame)
    words = {value: f"{value:,.10g}" for value in x_ticks}
    parts = [_axes(words, y_ticks, x, y), _titles(frame)]
    if block.band:
        there = [f"{x(at)},{y(high)}" for at, _, high in block.band]
        back = [f"{x(at)},{y(low)}" for at, low, _ in reversed(block.band)]
        points = " ".join([*there, *back])
        parts.append(Markup('<polygon class="band c7" points="{}"/>').format(points))
    if ends:
        parts.append(_series(ends, 7, x, y))
    for at_x, at_y, name in block.points:
        shown = name if len(name) <= 24 else name[:23] + "…"
        side = "end" if x(at_x) > WIDTH * 0.7 else "start"
        shift = -7 if side == "end" else 7
        parts.append(
            Markup(
                '<circle class="dot c0" r="4" cx="{}" cy="{}"/>'
                '<text class="small" text-anchor="{}" x="{}" y="{}">{}</text>'
            ).format(x(at_x), y(at_y), side, x(at_x) + shift, y(at_y) + 4, shown)
        )
    return _framed(block.caption, parts)


def tree(block: Tree) -> Markup:
    """Leaves from top to bottom, with their joins to the right, by distance."""
    row, names, room = 22, 190, 330
    place = {name: row * (number + 0.7) for number, name in enumerate(block.order)}
    most = max(float(join["distance"]) for join in block.joins) or 1.0
    parts = [
        Markup('<text class="small" text-anchor="end" x="{}" y="{}">{}</text>').format(
            names - 6, round(place[name] + 4, 1), name if len(name) <= 28 else name[:27] + "…"
        )
        for name in block.order
    ]
    ends = {frozenset([name]): (float(names), place[name]) for name in block.order}
    for join in block.joins:
        (x_left, y_left), (x_right, y_right) = (
            ends[frozenset(join[side])] for side in ("left", "right")
        )
        at = round(names + room * float(join["distance"]) / most, 1)
        points = (
            f"{x_left},{y_left:.1f} {at},{y_left:.1f} {at},{y_right:.1f} {x_right},{y_right:.1f}"
        )
        parts.append(Markup('<polyline class="line c0" points="{}"/>').format(points))
        ends[frozenset([*join["left"], *join["right"]])] = (at, (y_left + y_right) / 2)
    height = row * len(block.order) + 26
    words = Markup('<text class="title" text-anchor="{}" x="{}" y="{}">{}</text>')
    parts += [
        words.format("start", names, height - 6, "0"),
        words.format("end", names + room, height - 6, f"distance {most:.3g}"),
    ]
    return _framed(block.caption, parts, height)


def _framed(caption: str, parts: list[Markup], height: int = HEIGHT) -> Markup:
    frame = Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>')
    return frame.format(WIDTH, height, unmarked(caption), Markup("").join(parts))


def unmarked(text: str) -> str:
    """Text without the backticks around code, for screen readers."""
    return text.replace("`", "")
