"""Planted useless heads: trained gates must close them and keep those that the task needs."""

from typing import Any

import pytest
import torch

import brodmann as bm
from brodmann.errors import InputError
from brodmann.models.backbone.anatomy import head_slots
from brodmann.models.heads.trained_gates import HIGHEST, LOWEST, TEMPERATURE, ModelGates

USEFUL = 2  # heads of every layer that are left as they are


def colour_task(rows: int = 128) -> Any:
    """The answer stands in the middle of the text, and the output head reads the first token: what
    it says has to be carried there by attention."""
    colours, things = ("red", "green", "blue", "black"), ("cat", "dog", "hat", "house", "tree")
    texts = [f"the old {colours[i % 4]} {things[i // 4 % 5]} sat" for i in range(rows)]
    found = [{"text": text, "label": text.split()[2]} for text in texts]
    return bm.load_tasks(
        [{"name": "colour", "kind": "classification", "train": found, "validation": found[:20]}]
    )[0]


def with_useless_heads(task: Any) -> Any:
    """A model in which all but the first heads of every layer add nothing, for good."""
    model = bm.MultiTaskModel.from_pretrained(
        "builtin:tiny", [task], dropout=0.0, max_length=16, gates="trained", pooling="first"
    )
    for slot in head_slots(model.bare_models()[0]):
        weight = slot.output.weight
        width = weight.shape[1] // 4
        keep = torch.zeros(weight.shape[1])
        keep[: USEFUL * width] = 1.0
        with torch.no_grad():
            weight.mul_(keep)
        weight.register_hook(lambda gradient, keep=keep: gradient * keep)
    return model


@pytest.mark.parametrize("sparsity", [pytest.param(0.0, marks=pytest.mark.slow), 0.2])
def test_gates_of_useless_heads_close(sparsity: float) -> None:
    task = colour_task()
    model = with_useless_heads(task)
    options: dict[str, Any] = {"epochs": 24, "batch_size": 16, "keep": "last"}
    rates = {"gates": 0.1}  # the output head has to learn before the gates are decided
    bm.fit(model, [task], learning_rate=2e-3, rates=rates, sparsity=sparsity, **options)
    gates = model.gates().detach()
    useful, useless = gates[:, :USEFUL], gates[:, USEFUL:]
    if not sparsity:  # nothing asks them to close
        assert useless.min() > 0.9
        return
    assert bool((useless == 0).all())
    assert useful.max() > 0.9
    assert bm.evaluate(model, [task])["colour"].scores["accuracy"] > 0.9
    assert not model.gates.noisy


def test_open_share_is_the_chance_that_a_drawn_gate_is_not_zero() -> None:
    gates = ModelGates((2, 3), trained=True).train()
    assert gates.free is not None
    with torch.no_grad():
        gates.free.copy_(torch.linspace(-3, 3, 6))
    gates.noisy = True
    torch.manual_seed(0)
    with torch.no_grad():
        drawn = torch.stack([gates() for _ in range(4000)])
    assert bool(((drawn >= 0) & (drawn <= 1)).all())
    open_share = (drawn > 0).float().mean()
    assert float(gates.open_share().detach()) == pytest.approx(float(open_share), abs=0.01)
    gates.switch_off([(0, 0), (1, 2)])
    middle = torch.sigmoid(
        gates.free[1:5] - TEMPERATURE * torch.log(torch.tensor(-LOWEST / HIGHEST))
    )
    assert torch.allclose(gates.open_share(), middle.mean())


def test_sparsity_needs_trained_gates(tasks_of_every_kind: list[Any]) -> None:
    task = tasks_of_every_kind[0]
    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", [task], gates="mask")
    with pytest.raises(InputError) as caught:
        bm.fit(model, [task], epochs=1, sparsity=0.1)
    expected = 'sparsity: the model has no trained gates: set gates = "trained"'
    assert str(caught.value) == expected
