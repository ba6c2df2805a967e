"""Number formats: `auto` is bf16 only where the processor has it."""

from typing import Any

import pytest
import torch

from brodmann.errors import InputError
from brodmann.models.backbone import precision
from brodmann.models.backbone.precision import autocast, computed_in, fast_bf16

CPU = torch.device("cpu")


def kind(name: str) -> torch.dtype:
    with autocast(CPU, name):
        return torch.nn.functional.linear(torch.ones(2, 2), torch.ones(2, 2)).dtype


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"avx512_bf16": True}, torch.bfloat16),
        ({"amx_bf16": True}, torch.bfloat16),
        ({"avx512_f": True, "avx512_bf16": False}, torch.float32),
        ({}, torch.float32),
    ],
)
def test_auto_is_what_is_fast(
    monkeypatch: pytest.MonkeyPatch, found: dict[str, Any], expected: torch.dtype
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: found)
    fast_bf16.cache_clear()
    assert kind("auto") == expected
    assert kind("float32") == torch.float32 and kind("bf16") == torch.bfloat16
    fast_bf16.cache_clear()


def test_a_slow_format_is_said(
    monkeypatch: pytest.MonkeyPatch, tasks_of_every_kind: list[Any]
) -> None:
    import brodmann as bm

    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks_of_every_kind[:1])
    for capabilities, said in (({}, 1), ({"avx512_bf16": True}, 0)):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda found=capabilities: found)
        fast_bf16.cache_clear()
        notes: list[str] = []
        bm.fit(
            model, tasks_of_every_kind[:1], max_steps=1, precision="bf16",
            report=lambda event, facts, to=notes: to.append(facts.get("text", "")),
        )  # fmt: skip
        assert notes.count(precision.SLOW_BF16) == said
    fast_bf16.cache_clear()


def test_what_auto_came_to_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "fast_bf16", lambda device: device.type == "cuda")
    assert computed_in("auto", CPU) == "float32"
    assert computed_in("auto", torch.device("cuda")) == "bf16"
    assert computed_in("bf16", CPU) == "bf16" and computed_in("float32", CPU) == "float32"
    with pytest.raises(InputError, match="did you mean 'bf16'"):
        computed_in("bf61")
