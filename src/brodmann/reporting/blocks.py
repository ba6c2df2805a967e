"""Blocks that results are made of, drawn by a page (`html`) and by a terminal.

A section describes its content once, in blocks; it does not decide how they look. All texts are
plain: the code that draws them escapes them, and the page sets `words in backticks` as code in
paragraphs, lists and captions.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from brodmann.results import HeadScores
from brodmann.text import NOTHING, plain

ROOM_FOR_NAMES = 64  # letters of all column names together; beyond this, columns are numbered

Number = float | None
Interval = Sequence[float] | None


@dataclass
class Words:
    """A paragraph. `tone`: `lead` is the headline, `note` small print, `caution` a reason for care,
    `warning` a failure."""

    text: str
    tone: str = "plain"


@dataclass
class Items:
    """A list; each item may have a reason in smaller letters."""

    items: Sequence[tuple[str, str]]
    title: str = ""


@dataclass
class Table:
    """Cells are texts; the first column names the row."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    strong: Collection[int] = ()  # rows to emphasise
    alike: bool = False  # similar columns, which may be shown a few at a time

    def is_words(self, column: int) -> bool:
        """Whether it holds words, which are left-aligned; numbers are right-aligned."""
        cells = [row[column] for row in self.rows if row[column] not in ("", NOTHING)]
        words = sum(not text.lstrip("[+-− ")[:1].isdigit() for text in cells)
        return 2 * words > len(cells)


@dataclass
class Matrix:
    """Numbers with a shade. Rows are numbered, so that columns may be named by number."""

    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[Number]]
    caption: str
    shades: Sequence[Sequence[Number]]  # 0 (light) to 1 (dark), to -1 in another colour; None: none
    digits: int = 1
    percent: bool = True
    bold_diagonal: bool = False
    numbered: bool = True
    colours: str = ""  # what the shades mean

    def column_names(self) -> list[tuple[str, str]]:
        """(shown, whole) name of each column: its name, or its number if names are long."""
        if sum(len(name) for name in self.columns) <= ROOM_FOR_NAMES or not self.numbered:
            return [(name, name) for name in self.columns]
        names = []
        for place, name in enumerate(self.columns):
            minus = "–" if name.startswith("–") else ""
            names.append((f"{minus}{place + 1}" if place < len(self.rows) else name, name))
        return names

    def cell(self, row: int, column: int) -> str:
        """One number as it is shown."""
        value, digits = self.values[row][column], self.digits
        if value is None:
            return NOTHING
        if not self.percent and not float(value).is_integer():
            digits = max(1, digits)  # a mean of counts is not a count
        return plain(100 * value if self.percent else value, digits)


@dataclass
class Bars:
    """One bar per row, with its interval; `unit` labels the axis."""

    labels: Sequence[str]
    values: Sequence[Number]
    intervals: Sequence[Interval]
    unit: str
    caption: str
    remarks: Sequence[str] = ()  # beside each bar


@dataclass
class Lines:
    """Series over one axis; a point is (x, y) or (x, y, spread). An empty series keeps its colour.

    With `x_labels` the x of a point is an index in them; with `log_x` the axis is logarithmic.
    `references` are straight lines to compare with, drawn so that none looks like a series.
    """

    series: Mapping[str, Sequence[Sequence[float]]]
    x_title: str
    y_title: str
    caption: str
    marks: Sequence[tuple[float, str]] = ()  # vertical lines with a label
    x_labels: Sequence[str] = ()
    log_x: bool = False
    references: Mapping[str, Sequence[Sequence[float]]] = field(default_factory=dict)


@dataclass
class Scatter:
    """One point (x, y, name) per row, with a straight line through them and, if given, its band."""

    points: Sequence[tuple[float, float, str]]
    x_title: str
    y_title: str
    caption: str
    band: Sequence[Sequence[float]] = ()  # (x, low, high)


@dataclass
class Tree:
    """Which tasks join at which distance, nearest first (average linkage)."""

    order: Sequence[str]  # leaves, so that no lines cross
    joins: Sequence[Mapping[str, Any]]  # left and right (names), distance
    caption: str


@dataclass
class Atlas:
    """The heads of one or several runs, to explore interactively."""

    maps: Mapping[str, HeadScores]  # run → scores
    measured: Mapping[str, Sequence[dict[str, Any]]]  # run → alpha, mean, interval
    alpha: float


@dataclass
class Case:
    """One example: its right answer and the one that was given."""

    where: str
    truth: str
    answer: str
    measure: str  # how sure the answer is; may be empty
    text: str  # may be empty
    is_right: bool


@dataclass
class Cases:
    """Examples below each other."""

    cases: Sequence[Case]


@dataclass
class Code:
    """Text to copy."""

    text: str
    title: str


@dataclass
class Fold:
    """Further content, folded away."""

    title: str
    blocks: "Sequence[Block]"


Block: TypeAlias = (
    Words | Items | Table | Matrix | Bars | Lines | Scatter | Tree | Atlas | Cases | Code | Fold
)


@dataclass
class Section:
    """One chapter of the report."""

    name: str  # its place in the page's address
    title: str
    blocks: Sequence[Block] = field(default_factory=list)
