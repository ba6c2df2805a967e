"""Render sections as one page: no network, no library, everything escaped.

Names and texts come from data, so the page trusts none of them: templates escape, the script only
writes text, and the page's own policy forbids every other script.
"""

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from importlib import resources
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from brodmann.reporting import charts
from brodmann.reporting.blocks import Atlas, Bars, Matrix, Section
from brodmann.results import HeadScores
from brodmann.text import plain

NOBODY = -1  # owner of a head that helps no task


def page(title: str, subtitle: str, sections: Sequence[Section]) -> str:
    """The whole report as one HTML document."""
    files = resources.files("brodmann.reporting") / "page"
    style = (files / "page.css").read_text(encoding="utf-8")
    script = (files / "page.js").read_text(encoding="utf-8")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals.update(
        kind=lambda block: type(block).__name__,
        lines=charts.lines,
        scatter=charts.scatter,
        tree=charts.tree,
        swatch=charts.swatch,
        reference_swatch=charts.reference_swatch,
        prose=prose,
        unmarked=charts.unmarked,
        bar_places=bar_places,
        plain=plain,
        shade=shade,
        atlas_data=lambda block: embedded(atlas_data(block)),
    )
    template = environment.from_string((files / "page.html").read_text(encoding="utf-8"))
    checksum = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return template.render(
        title=title,
        subtitle=subtitle,
        sections=sections,
        style=Markup(style),  # noqa: S704 - our own file
        script=Markup(script),  # noqa: S704 - our own file
        policy=f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{checksum}'",
    )


def frame(title: str, subtitle: str, sections: Sequence[Section], height: int = 640) -> str:
    """The same page for a notebook's cell."""
    return framed(page(title, subtitle, sections), height)


def framed(document: str, height: int = 640) -> str:
    """A page inside a notebook's cell: shut off from the notebook, scripts included."""
    return (
        f'<iframe srcdoc="{escape(document)}" sandbox="allow-scripts" '
        f'style="width:100%;height:{height}px;border:0"></iframe>'
    )


def embedded(document: Any) -> Markup:
    """JSON that is safe inside a script element, whatever names it contains."""
    text = json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(text)  # noqa: S704 - made harmless above


def atlas_data(block: Atlas) -> dict[str, Any]:
    """Data of every run's map for the script; ranks count from 0, -1 is a removed head."""
    runs = []
    for name, scores in block.maps.items():
        owner, strength = ownership(scores)
        runs.append(
            {
                "name": name,
                "tasks": list(scores.tasks),
                "layers": scores.shape[0],
                "heads": scores.shape[1],
                "present": scores.heads,
                "scores": [[rounded(value) for value in task.ravel()] for task in scores.values],
                "ranks": [ranks(scores, task) for task in scores.tasks],
                "owner": owner.ravel().tolist(),
                "strength": [round(float(value), 3) for value in strength.ravel()],
                "measured": list(block.measured[name]),
            }
        )
    return {"runs": runs, "percent": 100 * block.alpha}


def ownership(scores: HeadScores) -> tuple[np.ndarray, np.ndarray]:
    """The owner of each head, and how exclusive it is (0: shared by all, 1: its task's alone).

    A task's importance is divided over the heads; the owner is the task with the largest share.
    """
    positive = np.maximum(scores.values, 0.0)
    totals = positive.sum(axis=(1, 2), keepdims=True)
    shares = positive / np.where(totals > 0, totals, 1.0)
    every = shares.sum(axis=0)
    of_owner = shares.max(axis=0) / np.where(every > 0, every, 1.0)
    count = len(scores.tasks)
    strength = of_owner if count == 1 else np.maximum((count * of_owner - 1) / (count - 1), 0.0)
    return np.where(every > 0, shares.argmax(axis=0), NOBODY), strength


def ranks(scores: HeadScores, task: str) -> list[int]:
    layers, heads = scores.shape
    found = [-1] * (layers * heads)
    for rank, (layer, head) in enumerate(scores.ranking(task)):
        found[layer * heads + head] = rank
    return found


def rounded(value: float) -> float:
    """Round to four digits, which is more than a reader can use."""
    return float(f"{value:.4g}")


def prose(text: str) -> Markup:
    """Escaped text in which words between backticks are code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped


def shade(block: Matrix, row: int, column: int) -> str:
    """The style of one number's cell."""
    found = block.shades[row][column]
    if found is None:
        return ""
    style = f"--shade:{round(55 * min(abs(found), 1.0))}%"
    # values below 0 must not look like 0
    return f"{style};--heat:var(--mark)" if found < 0 else style


def bar_places(block: Bars) -> dict[str, Any]:
    """Positions of bars, intervals and ticks, in percent of the width."""
    ends = [0.0]
    for value, interval in zip(block.values, block.intervals, strict=True):
        ends += [] if value is None else [value]
        ends += [] if interval is None else list(interval)
    low, high = min(ends), max(ends)
    if high == low:
        high = low + 1
    low, high = low - 0.03 * (high - low) * (low < 0), high + 0.03 * (high - low)
    marks = charts.ticks(low, high, 4)
    low, high = min(low, marks[0]), max(high, marks[-1])

    def place(value: float) -> float:
        return round(100 * (value - low) / (high - low), 2)

    bars: list[dict[str, Any] | None] = []
    for value, interval in zip(block.values, block.intervals, strict=True):
        if value is None:
            bars.append(None)
            continue
        left, right = sorted((place(0.0), place(value)))
        between = None if interval is None else (place(interval[0]), place(interval[1]))
        bars.append({"left": left, "width": round(right - left, 2), "between": between})
    return {"bars": bars, "zero": place(0.0), "ticks": [(place(v), f"{v:,.10g}") for v in marks]}
