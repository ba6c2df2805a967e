"""Outer gradients against hand-derived ones and finite differences."""

from typing import Any

import pytest
import torch

import brodmann as bm
from brodmann.training.meta import ALGORITHMS, adapted, outer_gradients


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


def test_a_tiny_transformer_by_finite_differences(tasks_of_every_kind: list[Any]) -> None:
    import numpy as np
    from torch.func import functional_call

    from brodmann.data.batches import make_batch

    task = tasks_of_every_kind[0]
    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", [task], attention="eager")
    model = model.double().eval()
    encoded = model.encode(task.spec, task.splits["train"])
    support, query = (
        make_batch([(task.name, encoded, np.arange(begin, begin + 3))], pad_id=0)
        for begin in (0, 3)
    )

    def loss(parameters: Any, batch: Any) -> torch.Tensor:
        mean: torch.Tensor = functional_call(model, dict(parameters), (batch,)).losses[0].mean()
        return mean

    start = dict(model.named_parameters())
    before = {name: value.clone() for name, value in start.items()}
    gradients, _ = outer_gradients(
        loss, start, support, query, algorithm="maml", steps=2, rate=0.05
    )
    assert all(torch.equal(start[name], before[name]) for name in start)
    # Along the gradient itself the change is largest: losses are float32, so small ones drown.
    norm = sum(float(value.square().sum()) for value in gradients.values()) ** 0.5
    way = {name: value / norm for name, value in gradients.items()}

    def after(size: float) -> float:
        moved = {
            name: (value + size * way[name]).detach().requires_grad_()
            for name, value in start.items()
        }
        ends = adapted(loss, moved, support, steps=2, rate=0.05)
        return float(loss(ends, query).detach())

    measured = (after(1e-2) - after(-1e-2)) / 2e-2
    assert measured == pytest.approx(norm, rel=1e-3)
    first_order, _ = outer_gradients(
        loss, start, support, query, algorithm="fomaml", steps=2, rate=0.05
    )
    along = sum(float((first_order[name] * way[name]).sum()) for name in way)
    assert along != pytest.approx(measured, rel=1e-3)  # the test can tell them apart


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
