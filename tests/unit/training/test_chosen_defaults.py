"""What `auto` comes to: enough steps and a rate for the encoder's width, or what was asked for."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import brodmann as bm
from brodmann.training.defaults import choose_epochs, choose_rate


@given(st.integers(1, 10_000))
def test_small_data_get_about_300_steps_and_any_data_3_to_20_epochs(batches: int) -> None:
    epochs = choose_epochs("auto", batches)
    assert 3 <= epochs <= 20
    if 16 <= batches <= 99:
        assert 300 <= epochs * batches < 300 + batches
    assert choose_epochs(7, batches) == 7


@pytest.mark.parametrize(
    ("width", "rate"), [(64, 2e-4), (384, 2e-4), (768, 5e-5), (1024, 2.8125e-5), (4096, 2e-5)]
)
def test_wide_encoders_learn_slowly(width: int, rate: float) -> None:
    assert choose_rate("auto", width) == pytest.approx(rate)
    assert choose_rate(3e-3, width) == 3e-3


def test_a_training_without_settings_takes_both() -> None:
    limit = {"train": 640, "validation": 8, "test": 8}
    tasks = bm.load_tasks([{"use": "builtin/topic", "limit": limit}])
    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks)
    told: dict[str, Any] = {}

    class EnoughError(Exception):
        pass

    def report(event: str, facts: dict[str, Any]) -> None:
        if event == "start":
            told.update(facts)
            raise EnoughError

    with pytest.raises(EnoughError):
        bm.fit(model, tasks, report=report)
    assert (told["epochs"], told["steps"]) == (15, 300)  # 20 batches of 32 per epoch
    assert set(told["rates"].values()) == {2e-4}
