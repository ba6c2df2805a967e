"""What holds for the heads of one family: gates, importance and removal against judges.

The judge of gates is an attention function that multiplies each head's result itself, registered
with transformers' attention interface: it shares no code with the gates. Families whose attention
does not go through the interface are judged by zeros in W^O, which is the definition of a closed
gate.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from transformers.modeling_utils import AttentionInterface

import brodmann as bm
from brodmann.models.backbone.anatomy import Anatomy, anatomy_of, head_slots, is_transposed
from tests.small_models import silence, small_variants

CLOSE = 1e-4  # of the largest output, in float32


@dataclass
class Verdict:
    """What works for one family, with the reason where something does not."""

    family: str
    built: bool = True
    interface: bool | None = None  # whether attention goes through transformers' interface
    gates: bool = False
    importance: bool = False
    removal: bool = False
    grouped: bool = False
    reason: str = ""

    @property
    def attends(self) -> bool:
        """Whether it has softmax attention heads, located or not."""
        return self.interface is not None or "attention of" in self.reason


def judge_family(family: str, auto: str) -> Verdict:
    """Build the family small and try everything; never raises."""
    verdict = Verdict(family)
    variants = small_variants(family, auto)
    while True:
        try:
            model = next(variants)
        except StopIteration:
            return verdict
        except Exception as error:
            verdict.built, verdict.reason = False, _line(error)
            return verdict
        reason = verdict.reason
        try:
            with silence():
                found = bm.anatomy(model)
        except bm.InputError as error:
            verdict.reason = reason or _line(error)
            continue  # another variant may attend
        verdict.reason = ""
        with silence():
            _judge(model.base_model, found, verdict)
        return verdict


def _judge(model: Any, found: Anatomy, verdict: Verdict) -> None:
    verdict.grouped = found.group > 1
    try:
        gates = some_gates(found)
        expected, verdict.interface = judged(model, found, gates)
        with bm.head_gates(model, gates):
            ours = answer(model, found)
        verdict.gates = same(ours, expected)
        verdict.importance = verdict.gates and importance_agrees(model, found)
    except Exception as error:
        verdict.reason = _line(error)
        return
    if not verdict.gates:
        verdict.reason = "gates differ from the judge"
        return
    try:
        verdict.removal = removal_agrees(model, found)
        verdict.reason = "" if verdict.removal else "removal differs from gates"
    except Exception as error:
        verdict.reason = _line(error)


def _line(error: Exception) -> str:
    return f"{error}".split("\n")[0][:200]


def some_gates(found: Anatomy) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    gates = torch.rand(found.shape, generator=generator)
    gates[0, 0] = 0.0
    return gates


def answer(model: Any, found: Anatomy) -> torch.Tensor:
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(0)
        outputs = model(**found.inputs)
    first = next(value for value in outputs.values() if value is not None)
    return first if isinstance(first, torch.Tensor) else first[0]


def same(one: torch.Tensor, other: torch.Tensor, close: float = CLOSE) -> bool:
    scale = float(other.abs().max())
    return one.shape == other.shape and float((one - other).abs().max()) <= close * scale


def judged(model: Any, found: Anatomy, gates: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """The gated answer by the judge, and whether attention goes through the interface."""
    calls: list[str] = []
    with _multiplying(model, found, gates, calls):
        through = answer(model, found)
    if calls:
        return through, True
    return zeroed(model, found, gates), False


@contextlib.contextmanager
def _multiplying(
    model: Any, found: Anatomy, gates: torch.Tensor, calls: list[str]
) -> Iterator[None]:
    """Multiply what every attention function returns, (text, token, head, width)."""
    paths = {module: path for path, module in model.named_modules()}
    layers = {one.path: list(one.layers) for one in found.attentions}
    original = AttentionInterface.get_interface

    def get_interface(interface: Any, implementation: Any, default: Any) -> Any:
        function = original(interface, implementation, default)

        def attend(module: Any, *args: Any, **kwargs: Any) -> Any:
            result, weights = function(module, *args, **kwargs)
            path = paths[module]
            layer = layers[path][calls.count(path) % len(layers[path])]
            calls.append(path)
            return result * gates[layer, : result.shape[2], None].to(result.dtype), weights

        return attend

    AttentionInterface.get_interface = get_interface
    try:
        yield
    finally:
        AttentionInterface.get_interface = original


def zeroed(model: Any, found: Anatomy, gates: torch.Tensor) -> torch.Tensor:
    """The answer with the columns of W^O scaled by the gates; the weights are put back."""
    before = {}
    for slot in head_slots(model):
        weight = slot.output.weight
        before[weight] = weight.detach().clone()
        dimension = 0 if is_transposed(slot.output) else 1
        width = weight.shape[dimension] // slot.part.heads
        factors = gates[slot.layers[0], : slot.part.heads].repeat_interleave(width)
        with torch.no_grad():
            weight.mul_(factors[:, None] if dimension == 0 else factors)
    try:
        return answer(model, found)
    finally:
        with torch.no_grad():
            for weight, value in before.items():
                weight.copy_(value)


def importance_agrees(model: Any, found: Anatomy) -> bool:
    """Importance equals the gradient at gates that autograd follows, up to float32's rounding."""
    weights = torch.randn(answer(model, found).shape, generator=torch.Generator().manual_seed(5))
    layers, heads = found.shape
    gates = torch.ones(layers, heads, requires_grad=True)
    with torch.enable_grad(), bm.head_gates(model, gates):
        outputs = model(**found.inputs)
        first = next(value for value in outputs.values() if value is not None)
        (gradient,) = torch.autograd.grad((first * weights).sum(), gates)
    batch = {**found.inputs}
    scores = bm.head_importance(
        model,
        {"t": [batch]},
        loss=lambda outputs, _: (
            (next(v for v in outputs.values() if v is not None) * weights).sum().reshape(1)
        ),
    )
    return same(torch.from_numpy(scores.values[0]).float(), gradient.abs(), close=30 * CLOSE)


def removal_agrees(model: Any, found: Anatomy) -> bool:
    """Without a group of heads in every stack, the answer is the gated one."""
    heads = []
    for layers in found.stacks.values():
        part = next(one for one in found.attentions if layers[-1] in one.layers)
        last = part.heads - part.group
        heads += [(layers[-1], last + place) for place in range(part.group)]
    with bm.head_gates(model, off=heads):
        expected = answer(model, found)
    bm.prune_heads(model, heads)
    return same(answer(model, anatomy_of(model)), expected)
