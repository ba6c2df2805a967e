"""The learning rate: warm-up, decay, and the ends."""

from typing import get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from brodmann.training.schedule import rate, warmup_steps
from brodmann.training.settings import Schedule


@given(st.sampled_from(get_args(Schedule)), st.integers(1, 500), st.floats(0, 1))
def test_the_factor_stays_between_zero_and_one_and_never_starts_at_zero(
    schedule: str, total: int, warmup: float
) -> None:
    factors = [rate(step, total, warmup=warmup, schedule=schedule) for step in range(total)]
    assert all(0 <= factor <= 1 for factor in factors)
    assert factors[0] > 0


def test_linear_agrees_with_transformers_shifted_by_one() -> None:
    """transformers counts the warm-up from 0, which wastes the first step at a rate of zero."""
    from transformers import get_linear_schedule_with_warmup

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = get_linear_schedule_with_warmup(optimizer, 10, 100)
    assert theirs.lr_lambdas[0](40) == pytest.approx(rate(40, 100, warmup=0.1, schedule="linear"))
    assert theirs.lr_lambdas[0](5) == pytest.approx(rate(4, 100, warmup=0.1, schedule="linear"))


def test_shares_are_counted_exactly() -> None:
    assert warmup_steps(100, 0.58) == 58  # 57 in floats
