"""The reliability plot: which points it shows."""

from brodmann.reporting.sections.reliability import FEW, curves


def test_points_of_few_answers_are_left_out() -> None:
    bins = [[0.5, 1.0, FEW - 1], [0.6, 0.5, FEW], [0.9, 0.8, 200]]
    plot = curves({"topic": {"after": {"bins": bins}}}, "after")
    assert plot.series["topic"] == [(60.0, 50.0), (90.0, 80.0)]
    assert plot.series["honest"] == [(60.0, 60.0), (100.0, 100.0)]
    assert f"A point stands for {FEW} answers or more." in plot.caption


def test_a_task_with_few_answers_keeps_its_colour() -> None:
    plot = curves({"topic": {"after": {"bins": [[0.5, 1.0, 1]]}}}, "after")
    assert plot.series == {"topic": [], "honest": [(0.0, 0.0), (100.0, 100.0)]}
