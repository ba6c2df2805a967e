"""Every format of a number or a list, once: examples of each, and what holds for all numbers."""

import ast
import inspect
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brodmann import text
from brodmann.text import (
    difference,
    duration,
    interval,
    number,
    over_seeds,
    percent,
    places,
    plain,
    points,
    signed,
    size,
    time_left,
)

NUMBERS = st.floats(-1e6, 1e6)


def test_it_needs_nothing_but_python() -> None:
    tree = ast.parse(inspect.getsource(text))
    used = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    used |= {a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names}
    assert {str(name).partition(".")[0] for name in used} <= sys.stdlib_module_names


@given(NUMBERS, st.integers(0, 4))
def test_a_number_reads_back_as_itself(value: float, digits: int) -> None:
    shown = plain(value, digits)
    assert float(shown.replace("−", "-").replace(",", "")) == pytest.approx(
        value, abs=0.5 * 10**-digits + 1e-9
    )


@given(NUMBERS)
def test_there_is_no_sign_before_zero(value: float) -> None:
    for shown in (plain(value), signed(value), percent(value), points(value)):
        if not shown.strip("+−0.,"):
            assert shown == "0.0"


def test_there_is_no_minus_before_zero() -> None:
    assert [percent(value) for value in (-0.0001, -0.0, 0.0, -0.001)] == [
        "0.0",
        "0.0",
        "0.0",
        "−0.1",
    ]
    assert interval((-0.0004, 0.01)) == "[0.0, 1.0]"


def test_what_is_missing_leaves_no_trace() -> None:
    assert percent(None) == "–" and interval(None) == ""
    assert difference({"difference": 0.02, "interval": None, "p": None}) == "+2.0"
    assert difference({"difference": -0.02, "interval": None, "p": 0.0001}) == "−2.0 p < 0.001"


@given(st.floats(0, 1e7))
def test_a_time_is_told_in_its_two_largest_units(seconds: float) -> None:
    words = duration(seconds).replace(",", "").split()
    values = dict(zip(words[1::2], map(float, words[::2]), strict=True))
    told = values.get("h", 0) * 3600 + values.get("min", 0) * 60 + values.get("s", 0)
    assert told == pytest.approx(seconds, abs=60 if "h" in values else 0.5 + 1e-9)
    assert values.get("s", 0) < 60 and values.get("min", 0) < 60 and len(values) <= 2


def test_an_expected_time_is_not_told_to_the_second() -> None:
    assert time_left(59.6) == "about 60 s left"
    assert time_left(3 * 3600 + 125) == "about 3 h 2 min left"


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (999_999, "less than 1 MB"),
        (999.6e6, "1.00 GB"),
        (9.996e9, "10.0 GB"),
        (1_234e9, "1,234 GB"),
    ],
)
def test_a_size_keeps_three_digits(count: float, shown: str) -> None:
    assert size(count) == shown


def test_numbers_beside_each_other_have_as_many_places() -> None:
    assert (places(3, 4), places(0.2, 0.91), places(0.2, 1.4)) == (0, 2, 1)
    assert number(-0.613) == "−0.61"


def test_seeds_without_a_d_are_counted_with_their_reasons() -> None:
    found = {
        "mean": [0.05, 0.01],
        "seeds": 2,
        "runs": 3,
        "left_out": 1,
        "undefined": {"1": "b: its base score is 0"},
    }
    assert over_seeds(found) == (
        "D = 5.0 ± 1.0 % over 2 of 3 seeds (undefined: seed 1: b: its base score is 0)"
    )
    none = {**found, "mean": None, "seeds": 0, "left_out": 3}
    assert over_seeds(none) == (
        "3 seeds: D is undefined (undefined: seed 1: b: its base score is 0)"
    )
    assert over_seeds({**found, "left_out": 0, "undefined": {}}) == "2 seeds: D = 5.0 ± 1.0 %"
