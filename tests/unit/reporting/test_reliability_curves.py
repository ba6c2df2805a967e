"""The reliability plot: which points it shows."""

import re

from brodmann.reporting import charts
from brodmann.reporting.blocks import Section
from brodmann.reporting.html import page
from brodmann.reporting.sections.reliability import FEW, curves


def test_points_of_few_answers_are_left_out() -> None:
    bins = [[0.5, 1.0, FEW - 1], [0.6, 0.5, FEW], [0.9, 0.8, 200]]
    plot = curves({"topic": {"after": {"bins": bins}}}, "after")
    assert plot.series["topic"] == [(60.0, 50.0), (90.0, 80.0)]
    assert plot.references == {"as sure as right": [(60.0, 60.0), (100.0, 100.0)]}
    assert f"A point stands for {FEW} answers or more." in plot.caption


def test_a_task_with_few_answers_keeps_its_colour() -> None:
    plot = curves({"topic": {"after": {"bins": [[0.5, 1.0, 1]]}}}, "after")
    assert plot.series == {"topic": []}


def test_the_line_to_compare_with_does_not_look_like_a_task() -> None:
    """It has neither a colour nor dots, in the plot and in the legend."""
    bins = {"after": {"bins": [[0.6, 0.5, FEW], [0.9, 0.8, FEW]]}}
    plot = curves({"topic": bins}, "after")
    drawn = str(charts.lines(plot))
    assert drawn.count('class="line reference"') == 1
    assert re.findall(r'class="line (c\d)"', drawn) == ["c0"]
    assert drawn.count("<circle") == 2
    text = page("title", "", [Section("one", "One", [plot])])
    legend = text[text.index('<div class="legend">') : text.index("<figcaption>")]
    assert legend.count("<span>") == 2 and "as sure as right" in legend
    assert legend.count('class="line reference"') == 1
