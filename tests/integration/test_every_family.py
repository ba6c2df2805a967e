"""Every family of the installed transformers: what is found is exact, and nearly all is found."""

import functools

import pytest
from tests.conformance import Verdict, judge_family
from tests.small_models import model_types

pytestmark = pytest.mark.slow
verdict_of = functools.cache(judge_family)


@pytest.mark.parametrize(("family", "auto"), model_types())
def test_heads_that_are_found_are_exact(family: str, auto: str) -> None:
    verdict = verdict_of(family, auto)
    if not verdict.built:
        pytest.skip(f"cannot be built small: {verdict.reason}")
    if verdict.interface is None:  # not located: said so in one line
        assert verdict.reason
        return
    assert verdict.gates and verdict.importance, verdict
    assert verdict.removal or verdict.reason, verdict


def test_nearly_all_heads_are_found() -> None:
    verdicts: list[Verdict] = [verdict_of(*pair) for pair in model_types()]
    built = [one for one in verdicts if one.built]
    with_heads = [one for one in built if one.attends]
    exact = [one for one in with_heads if one.gates and one.importance]
    removable = [one for one in with_heads if one.removal]
    assert len(built) > 180
    assert len(exact) >= 0.95 * len(with_heads), [o.family for o in with_heads if not o.gates]
    assert len(removable) >= 0.80 * len(with_heads), [o.family for o in with_heads if not o.removal]
