"""Outer gradients against hand-derived ones and finite differences."""

from typing import Any

import numpy as np
import pytest
import torch
from tests.checkers import assert_same_bits, weights
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

import brodmann as bm
from brodmann.data.batches import make_batch
from brodmann.training.meta.gradients import adapted, outer_gradients
from brodmann.training.meta.meta_settings import ALGORITHMS


def quadratic(parameters: Any, target: torch.Tensor) -> torch.Tensor:
    """L(θ) = (θ - c)² / 2, whose gradient is θ - c."""
    return (parameters["x"] - target).square().sum() / 2


def test_a_quadratic_by_hand() -> None:
    """From θ, k steps towards a: φ = a + (1-η)^k (θ-a). The outer loss is (φ - b)²/2."""
    theta, a, b, rate, steps = 3.0, 1.0, 5.0, 0.1, 4
    start = {"x": torch.tensor([theta], dtype=torch.float64, requires_grad=True)}
    support, query = (torch.tensor([value], dtype=torch.float64) for value in (a, b))
    shrink = (1 - rate) ** steps
    phi = a + shrink * (theta - a)
    found = {
        name: float(
            outer_gradients(
                quadratic, start, support, query, algorithm=name, steps=steps, rate=rate
            )[0]["x"]
        )
        for name in ALGORITHMS
    }
    assert found["maml"] == pytest.approx(shrink * (phi - b))
    assert found["fomaml"] == pytest.approx(phi - b)
    assert found["reptile"] == pytest.approx((theta - phi) / (rate * steps))
    ends = adapted(quadratic, start, support, steps=steps, rate=rate)
    assert ends["x"].item() == pytest.approx(phi)
    assert start["x"].item() == theta and start["x"].grad is None


def test_without_inner_steps_fomaml_is_maml() -> None:
    start = {"x": torch.tensor([2.0, 1.0], requires_grad=True)}
    support, query = torch.zeros(2), torch.ones(2)
    first, second = (
        outer_gradients(quadratic, start, support, query, algorithm=name, steps=0, rate=0.1)[0]
        for name in ("maml", "fomaml")
    )
    assert torch.equal(first["x"], second["x"])


@pytest.mark.parametrize(
    ("attention", "gates"),
    [
        ("eager", ""),
        ("sdpa", "trained"),
        pytest.param("sdpa", "", marks=pytest.mark.slow),
        pytest.param("eager", "trained", marks=pytest.mark.slow),
    ],
)
def test_a_tiny_transformer_by_finite_differences(
    tasks_of_every_kind: list[Any], attention: str, gates: str
) -> None:
    """Every parameter by itself, along a random direction, in double precision throughout."""
    task = tasks_of_every_kind[0]
    model = bm.MultiTaskModel.from_pretrained(
        "builtin:tiny", [task], attention=attention, gates=gates
    )
    model = model.double().eval()
    encoded = model.encode(task.spec, task.splits["train"])
    support, query = (
        make_batch([(task.name, encoded, np.arange(begin, begin + 3))], pad_id=0)
        for begin in (0, 3)
    )

    def loss(parameters: Any, batch: Any) -> torch.Tensor:
        with sdpa_kernel(SDPBackend.MATH):  # as in `pair_loss`: fused kernels have no second slope
            logits = functional_call(model, dict(parameters), (batch,)).logits[0]
        assert logits.dtype == torch.float64  # the model's own loss would round to float32
        return torch.nn.functional.cross_entropy(logits, batch.parts[0].labels["label"])

    start = dict(model.named_parameters())
    still = [name for name in start if name.startswith("gates.")]
    assert bool(still) == bool(gates)
    before = weights(start)
    exact, first_order = (
        outer_gradients(
            loss, start, support, query, algorithm=algorithm, steps=2, rate=0.5, still=still
        )[0]
        for algorithm in ("maml", "fomaml")
    )
    assert_same_bits(start, before)

    def after(name: str, way: torch.Tensor, size: float) -> float:
        moved = {**start, name: (start[name] + size * way).detach().requires_grad_()}
        ends = adapted(loss, moved, support, steps=2, rate=0.5, still=still)
        return float(loss(ends, query).detach())

    generator = torch.Generator().manual_seed(0)
    told_apart = []
    for name in start:
        way = torch.randn(start[name].shape, generator=generator, dtype=torch.float64)
        way /= way.norm()
        measured = (after(name, way, 1e-4) - after(name, way, -1e-4)) / 2e-4
        assert float((exact[name] * way).sum()) == pytest.approx(measured, rel=1e-4, abs=1e-9), name
        if abs(float((first_order[name] * way).sum()) - measured) > 1e-3 * abs(measured) + 1e-8:
            told_apart.append(name)
    assert len(told_apart) > len(start) / 2  # the test knows MAML from its first order
    encoder = [name for name in start if name.startswith("encoder") and exact[name].abs().max() > 0]
    assert len(encoder) > 30


def test_frozen_parameters_stay_and_have_no_gradient() -> None:
    start = {"x": torch.ones(2, requires_grad=True), "fixed": torch.ones(2)}

    def loss(parameters: Any, target: torch.Tensor) -> torch.Tensor:
        return ((parameters["x"] * parameters["fixed"]) - target).square().sum()

    for name in ALGORITHMS:
        found, _ = outer_gradients(
            loss, start, torch.zeros(2), torch.zeros(2), algorithm=name, steps=2, rate=0.1
        )
        assert list(found) == ["x"]


def test_unknown_algorithms_are_one_line() -> None:
    with pytest.raises(bm.InputError, match="did you mean 'maml'"):
        outer_gradients(quadratic, {}, None, None, algorithm="mmal", steps=1, rate=0.1)
