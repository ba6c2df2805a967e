"""What a report is made of: a few plain blocks, drawn by a page (`html`) and by a terminal.

A section says what it has to say once, in blocks; how they look is not its business. All texts are
plain: whoever draws them escapes them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from brodmann.results import HeadScores

Number = float | None
Interval = Sequence[float] | None


@dataclass
class Words:
    """A paragraph. `tone`: `lead` is the headline, `note` small print."""

    text: str
    tone: str = "plain"


@dataclass
class Items:
    """A list; each with its reason in smaller letters, where there is one."""

    items: Sequence[tuple[str, str]]
    title: str = ""


@dataclass
class Table:
    """Cells are texts; the first column names the row."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


@dataclass
class Matrix:
    """Numbers with a shade. Rows are numbered, so that columns may be called by number."""

    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[Number]]
    caption: str
    shades: Sequence[Sequence[Number]]  # 0 (light) to 1 (dark), to -1 in another colour; None: none
    digits: int = 1
    percent: bool = True
    bold_diagonal: bool = False
    numbered: bool = True


@dataclass
class Bars:
    """A bar a row, with its interval; `unit` stands at the axis."""

    labels: Sequence[str]
    values: Sequence[Number]
    intervals: Sequence[Interval]
    unit: str
    caption: str
    remarks: Sequence[str] = ()  # beside each bar


@dataclass
class Lines:
    """Series over one axis; a point is (x, y) or (x, y, spread). An empty series keeps its colour.

    With `x_labels` the x of a point is a place in them; with `log_x` equal ratios are equally far.
    """

    series: Mapping[str, Sequence[Sequence[float]]]
    x_title: str
    y_title: str
    caption: str
    marks: Sequence[tuple[float, str]] = ()  # vertical lines with a word
    x_labels: Sequence[str] = ()
    log_x: bool = False


@dataclass
class Scatter:
    """A point (x, y, name) a row, with the straight line through them; its band where given."""

    points: Sequence[tuple[float, float, str]]
    x_title: str
    y_title: str
    caption: str
    band: Sequence[Sequence[float]] = ()  # (x, low, high)


@dataclass
class Tree:
    """Who joins whom at which distance, the nearest first (average linkage)."""

    order: Sequence[str]  # leaves, so that no lines cross
    joins: Sequence[Mapping[str, Any]]  # left and right (names), distance
    caption: str


@dataclass
class Atlas:
    """The heads of one or several runs, to walk about in."""

    maps: Mapping[str, HeadScores]  # run → scores
    measured: Mapping[str, Sequence[dict[str, Any]]]  # run → alpha, mean, interval
    alpha: float


@dataclass
class Code:
    """Text to copy."""

    text: str
    title: str


@dataclass
class Fold:
    """More, for those who want it."""

    title: str
    blocks: Sequence[Any]


@dataclass
class Section:
    """One chapter of the report."""

    name: str  # its place in the page's address
    title: str
    blocks: Sequence[Any] = field(default_factory=list)


def percent(value: Number, digits: int = 1) -> str:
    return "–" if value is None else plain(100 * value, digits)


def plain(value: float, digits: int = 1) -> str:
    """A number with a true minus, and no minus before zero."""
    text = f"{value:.{digits}f}"
    if float(text) == 0:
        return text.lstrip("-")
    return text.replace("-", "−")


def points(difference: float) -> str:
    text = plain(100 * difference)
    return f"+{text}" if difference > 0 and float(text) else text


def interval(ends: Interval) -> str:
    return "" if ends is None else f"[{percent(ends[0])}, {percent(ends[1])}]"


def p_value(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def listed(names: Sequence[str], most: int = 6) -> str:
    """A few names in a row; of many, how many more there are."""
    shown = list(names[:most])
    return ", ".join(shown) + (f" and {len(names) - most} more" if len(names) > most else "")


def mean_spread(value: Any) -> str:
    if value is None:
        return "–"
    mean, spread = value
    return percent(mean) + ("" if spread is None else f" ± {percent(spread)}")


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
