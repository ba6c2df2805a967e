"""Points lost: their size, their bound, and how often the bound is right."""

import numpy as np
import pytest

import brodmann as bm
from brodmann.measuring.points_lost import points_lost


@pytest.fixture(scope="module")
def spec() -> bm.TaskSpec:
    (task,) = bm.load_tasks([{"use": "builtin/topic", "limit": 8}])
    return task.spec


def test_points_are_hundredths_of_the_metric(spec: bm.TaskSpec) -> None:
    before, after = np.ones((200, 1)), np.ones((200, 1))
    after[:10] = 0
    found = points_lost(spec, before, after)
    assert (found.before, found.after, found.examples) == (1.0, 0.95, 200)
    assert found.points == pytest.approx(5.0)
    assert found.interval[0] < 5 < found.interval[1]
    assert found.points < found.bound < found.interval[1]  # one-sided: nearer than two-sided


def test_answers_that_did_not_change_are_no_proof(spec: bm.TaskSpec) -> None:
    """Nothing lost on 100 examples: up to 2.6 points may still be lost; on 10,000, 0.03."""
    same = np.ones((100, 1))
    assert points_lost(spec, same, same).bound == pytest.approx(2.63, abs=0.01)
    same = np.ones((10_000, 1))
    assert points_lost(spec, same, same).bound == pytest.approx(0.027, abs=0.001)


def test_the_bound_is_right_in_about_95_of_100(spec: bm.TaskSpec) -> None:
    """Two models that disagree on 6 % of the examples; the second loses 2 points in truth."""
    generator, right = np.random.default_rng(0), 0
    for _ in range(300):
        kinds = generator.choice(3, size=400, p=[0.94, 0.04, 0.02])
        before = np.where(kinds == 2, 0.0, 1.0)[:, None]
        after = np.where(kinds == 1, 0.0, 1.0)[:, None]
        right += points_lost(spec, before, after, resamples=300).bound >= 2.0
    assert 0.91 <= right / 300 <= 0.99
