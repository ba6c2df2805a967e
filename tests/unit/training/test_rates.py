"""Learning rates of parts: who gets which, and that a part moves at its own."""

from typing import Any

import pytest
import torch

import brodmann as bm
from brodmann.errors import InputError
from brodmann.models.parts import parts_of, rates_of

EXPECTED = {
    "shared": {"backbone", "heads"},
    "single": {"backbone", "heads"},
    "ca_mtl": {"backbone", "heads", "task_embeddings", "conditional"},
    "pals": {"backbone", "heads", "pals"},
    "adapters": {"backbone", "heads", "adapters"},
    "hmnet": {"backbone", "heads", "cluster_layers", "task_layers"},
    "skillnet": {"backbone", "heads", "skills"},
    "lora": {"heads", "lora"},
    "task_lora": {"heads", "lora"},
}


def tiny(tasks: list[Any], architecture: str = "shared", **options: Any) -> Any:
    small = {"size": 8} if architecture in ("pals", "adapters") else {}
    return bm.MultiTaskModel.from_pretrained(
        "builtin:tiny", tasks, architecture=architecture, parameters=small, dropout=0.0, **options
    )


@pytest.mark.parametrize("architecture", EXPECTED)
def test_every_trained_parameter_is_in_one_part(
    architecture: str, tasks_of_every_kind: list[Any]
) -> None:
    model = tiny(tasks_of_every_kind[:2] + tasks_of_every_kind[-1:], architecture, gates="trained")
    parts = parts_of(model)
    assert set(parts) == EXPECTED[architecture] | {"gates"}
    listed = [id(parameter) for part in parts.values() for parameter in part]
    assert sorted(listed) == sorted(id(p) for p in model.parameters() if p.requires_grad)


def test_rates_are_given_or_multiples_of_the_common_one(tasks_of_every_kind: list[Any]) -> None:
    model = tiny(tasks_of_every_kind[:2], gates="trained")
    found = rates_of(model, 1e-4, {"heads": 3e-3})
    assert found == {"backbone": 1e-4, "heads": 3e-3, "gates": pytest.approx(0.05)}


def test_a_part_moves_at_its_own_rate(tasks_of_every_kind: list[Any]) -> None:
    """The first step of AdamW is the rate itself, for every weight that has a gradient."""
    task = tasks_of_every_kind[0]
    model = tiny([task])
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    bm.fit(
        model,
        [task],
        max_steps=1,
        warmup=0.0,
        schedule="constant",
        learning_rate=1e-5,
        rates={"heads": 1e-2},
        keep="last",
    )
    moved = {
        name: float((value.detach() - before[name]).abs().max())
        for name, value in model.named_parameters()
    }
    assert max(v for n, v in moved.items() if n.startswith("heads")) == pytest.approx(1e-2, 1e-2)
    assert max(v for n, v in moved.items() if n.startswith("encoder")) == pytest.approx(1e-5, 1e-2)


def test_equal_rates_change_no_bit(tasks_of_every_kind: list[Any]) -> None:
    task, found = tasks_of_every_kind[0], []
    for rates in ({}, {"heads": 1e-3, "backbone": 1e-3}):
        model = tiny([task])
        bm.fit(model, [task], epochs=2, learning_rate=1e-3, batch_size=4, rates=rates)
        found.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert torch.equal(*found)


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        (
            {"haeds": 1e-3},
            "rates: this model trains no part 'haeds'; did you mean 'heads'?: it has backbone, "
            "heads",
        ),
        ({"heads": 0}, "fit: rates.heads = 0: input should be greater than 0"),
        ({"heads": "fast"}, "fit: rates.heads = 'fast': input should be a valid number"),
    ],
)
def test_wrong_rates_are_one_line(rates: Any, message: str, tasks_of_every_kind: list[Any]) -> None:
    task = tasks_of_every_kind[0]
    with pytest.raises(InputError) as caught:
        bm.fit(tiny([task]), [task], epochs=1, rates=rates)
    assert str(caught.value) == message
