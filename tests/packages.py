"""Models whose export is compared with them, and what both are asked."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import brodmann as bm
from brodmann.data.answering.domain import fit_domain
from brodmann.data.answering.rules import Rules
from tests.families import shaken

LONG = "the red cat sat 3 and a big dog ran " * 12  # longer than the models' 32 tokens
ASKED: dict[str, list[Any]] = {
    "single": ["the red cat", "", "Çà, naïve ☃ 漢字", LONG, "[SEP] the [CLS]"],
    "pair": [("the red cat", "a dog"), (LONG, "a dog"), ("a dog", LONG), (LONG, LONG), ("", "")],
    "many": ["the red cat", LONG],
    "value": [("the red cat", "a dog"), (LONG, LONG)],
    "pick": [
        {"a": "the red cat", "choices": ["yes it is", "no"]},
        {"a": LONG, "choices": ["maybe", "yes it is", LONG, "no it is not"]},
    ],
    "where": [("what ran", "a big dog ran"), ("what ran", LONG * 3), (LONG, LONG)],
    "tag": ["the red cat sat", LONG * 2, ["red", "cat,", "sat"], "naïve ☃ 漢字 \u0007 x"],
}


def model_with_rules(tasks: list[Any]) -> bm.MultiTaskModel:
    """A shared encoder with tasks of every kind, and rules for some of them."""
    model = shaken(
        bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks, max_length=32, stride=8)
    ).eval()
    drawn = np.random.default_rng(0)
    states = drawn.normal(size=(40, model.config.hidden_size)).astype(np.float32)
    domain = fit_domain(states[:20], states[20:30] * 9, states[30:])
    surprises = np.sort(drawn.random(50).astype(np.float32))
    model.rules = {
        "single": Rules(1.7, {}, surprises, domain),
        "value": Rules(1.0, {}, surprises),
        "many": Rules(0.8, {"x": 0.3, "y": 0.9}),
        "tag": Rules(1.2, {"entity": 0.4}),
    }
    return model


def package_of(model: Any, folder: Path, **options: Any) -> Any:
    """The model's export, opened."""
    from brodmann.runtime import load

    return load(bm.export(model, to="onnx", out=folder, **options), threads=1)


def assert_alike(one: Any, other: Any, within: float = 1e-4) -> None:
    """The same answers, with numbers that differ by rounding alone."""
    if isinstance(one, Mapping):
        assert one.keys() == other.keys()
        for key in one:
            assert_alike(one[key], other[key], within)
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for first, second in zip(one, other, strict=True):
            assert_alike(first, second, within)
    elif isinstance(one, float):
        assert one == pytest.approx(other, abs=within, rel=within)
    else:
        assert one == other
