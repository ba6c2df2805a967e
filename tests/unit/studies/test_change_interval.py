"""The interval of an old task's change, when a model learns a new one."""

import numpy as np
import pytest
from scipy.stats import norm

import brodmann as bm
from brodmann.studies.adapt import change_interval

ROWS = [{"text": f"text {i}", "label": "ab"[i % 2]} for i in range(40)]


def test_forty_answers_that_stay_right_do_not_show_that_nothing_changed() -> None:
    spec = bm.load_task("t", kind="classification", train=ROWS, validation=ROWS[:8]).spec
    right = np.ones((40, 1))
    square = norm.ppf(0.975) ** 2
    reach = square / (40 + square)  # Wilson's bound of a share that was never seen
    assert change_interval(right, right, spec) == pytest.approx([-reach, reach])
    worse = right.copy()
    worse[:20] = 0.0
    low, high = change_interval(right, worse, spec)
    assert -0.7 < low < -0.5 < high < -0.3
