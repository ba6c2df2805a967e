r"""Measure heads inside a model: gradients at their gates, losses and scores with heads off.

The gradient at a gate needs no gate. With $A_h$ the output of head $h$,

$$\frac{\partial L}{\partial \xi_h}\Big|_{\xi = 1} = \sum_{t,d} A_h(t,d)\,
  \frac{\partial L}{\partial A_h(t,d)},$$

so one backward pass from the summed losses to the inputs of the output projections gives every
example's gradient at every gate, exactly, without a gradient for any weight. If the gates
themselves are not 1 (`at`), the input there is $\xi_h A_h$, and the sum is divided by $\xi_h$.

Nothing is left behind: mode, gradients and `requires_grad` are restored. With several processes,
each measures its share of the batches and all get the sum. The estimators return
`(sums, counts)` over fixed parts of the examples (`models/heads/part_sums.py`).
"""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from brodmann.errors import InputError
from brodmann.files import Array
from brodmann.models.backbone.anatomy import bare_models, every_slot, head_shape, kept_heads
from brodmann.models.evaluation import share_of_processes
from brodmann.models.heads.gates import head_gates, without_compilation
from brodmann.models.heads.part_sums import PartSums, mean_of
from brodmann.models.heads.probes import Probe
from brodmann.results import Head

PATH_STEPS = 16  # points on the path of integrated gradients


def importance(
    model: nn.Module,
    probes: Sequence[Callable[[], Probe]],
    *,
    granularity: str = "example",
    off: Sequence[Head] = (),
    progress: Callable[[int], None] | None = None,
) -> Array:
    """Mean over examples of |∂L/∂ξ|, (layer, head), with the heads `off` switched off."""
    sums = importance_sums(model, probes, granularity=granularity, off=off, progress=progress)
    return mean_of(*sums)


def importance_sums(
    model: nn.Module,
    probes: Sequence[Callable[[], Probe]],
    *,
    granularity: str = "example",
    off: Sequence[Head] = (),
    progress: Callable[[int], None] | None = None,
) -> tuple[Array, Array]:
    """Sums of |∂L/∂ξ| over each part of the examples, and the parts' counts."""
    running = PartSums(_shape(model))
    gates = head_gates(model, off=off) if off else contextlib.nullcontext()
    with measuring(model), gates:
        for probe in _own_share(probes):
            if granularity == "token":
                products, tokens = _token_products(model, probe)
                running.add(products, probe.parts, tokens)
            else:
                gradients = gate_gradients(model, probe)
                running.add(gradients.abs().cpu().numpy(), probe.parts)
            if progress is not None:
                progress(probe.examples)
    return running.gathered()


def integrated_gradients(
    model: nn.Module,
    probes: Sequence[Callable[[], Probe]],
    *,
    steps: int = PATH_STEPS,
    progress: Callable[[int], None] | None = None,
) -> tuple[Array, Array]:
    r"""Sums over examples of $|\int_0^1 \partial L / \partial \xi_h (t \cdot 1)\,dt|$.

    All gates move from 0 to 1 together; the midpoint rule with `steps` points never evaluates at 0.
    Per example, the integrals of all heads sum to L(all on) - L(all off) as `steps` grows.

    Reference: Sundararajan et al. 2017, "Axiomatic Attribution for Deep Networks".
    """
    running = PartSums(_shape(model))
    with measuring(model):
        for probe in _own_share(probes):
            running.add(path_integrals(model, probe, steps).abs().numpy(), probe.parts)
            if progress is not None:
                progress(probe.examples)
    return running.gathered()


def path_integrals(model: nn.Module, probe: Probe, steps: int) -> Tensor:
    """Integral of every example at every gate, (example, layer, head)."""
    shape = _shape(model)
    total = torch.zeros(probe.examples, *shape, dtype=torch.float64)
    for step in range(steps):
        at = (step + 0.5) / steps
        with head_gates(model, torch.full(shape, at)):
            total += gate_gradients(model, probe).cpu() / at
    return total / steps


def leave_one_out(
    model: nn.Module,
    probes: Sequence[Callable[[], Probe]],
    *,
    progress: Callable[[int], None] | None = None,
) -> tuple[Array, Array]:
    """Sums over examples of the increase of the loss with one head off: the slow ground truth."""
    layers, heads = _shape(model)
    kept = kept_heads(bare_models(model)[0])
    running = PartSums((layers, heads))
    with measuring(model), torch.no_grad():
        for probe in _own_share(probes):
            base = probe.losses().cpu().double()
            increase = np.zeros((probe.examples, layers, heads))
            for layer in range(layers):
                for head in kept[layer]:
                    with head_gates(model, off=[(layer, head)]):
                        more = probe.losses().cpu().double() - base
                    increase[:, layer, head] = more.numpy()
            running.add(increase, probe.parts)
            if progress is not None:
                progress(probe.examples)
    return running.gathered()


def gate_gradients(model: nn.Module, probe: Probe) -> Tensor:
    """∂L/∂ξ of every example at every gate, (example, layer, head), in one backward."""
    result = torch.zeros(probe.examples, *_shape(model), dtype=torch.float64)
    for layer, kept, states, gradients in _at_the_gates(model, probe):
        # Some models keep more than one dimension of positions: (row, …, head) → (row, head).
        by_head = _products(states, gradients, len(kept)).flatten(1, -2).sum(dim=1)
        if probe.example_of_row is not None:
            empty = by_head.new_zeros(probe.examples, len(kept))
            by_head = empty.index_add(0, probe.example_of_row, by_head)
        result[:, layer, kept] += by_head.cpu().double()
    return result


def _token_products(model: nn.Module, probe: Probe) -> tuple[Array, Array]:
    """Sum over each example's real tokens of |<A_h(t), ∂L/∂A_h(t)>|, and the number of tokens."""
    total = np.zeros((probe.examples, *_shape(model)))
    tokens: Array = np.zeros(probe.examples)
    for layer, kept, states, gradients in _at_the_gates(model, probe):
        products = _products(states, gradients, len(kept)).abs()  # (row, token, head)
        real = products.new_ones(products.shape[:2]) if probe.real is None else probe.real
        by_row = (products * real[..., None]).sum(dim=1).cpu().double().numpy()
        rows = np.arange(len(by_row))
        if probe.example_of_row is not None:
            rows = probe.example_of_row.cpu().numpy()
        for row, values in zip(rows, by_row, strict=True):
            total[row, layer, kept] += values
        tokens = np.bincount(rows, real.sum(dim=1).double().cpu().numpy(), probe.examples)
    return total, tokens


def _products(states: Tensor, gradients: Tensor, heads: int) -> Tensor:
    """<A_h(t), ∂L/∂A_h(t)>, (row, token, head)."""
    dtype = torch.promote_types(states.dtype, torch.float32)
    both = states.detach().to(dtype) * gradients.to(dtype)
    return both.reshape(*both.shape[:-1], heads, -1).sum(dim=-1)


def _at_the_gates(
    model: nn.Module, probe: Probe
) -> Iterator[tuple[int, list[int], Tensor, Tensor]]:
    """(layer, its heads, their outputs, the loss's gradient there) of one batch."""
    with _watched(model) as seen, torch.enable_grad():
        losses = probe.losses()
        if not seen:
            raise InputError("the model's forward pass did not go through its attention layers")
        states = [entry[2] for entry in seen]
        gradients = torch.autograd.grad(losses.sum(), states)
    for (layer, kept, state), gradient in zip(seen, gradients, strict=True):
        yield layer, kept, state, gradient


@contextlib.contextmanager
def _watched(model: nn.Module) -> Iterator[list[tuple[int, list[int], Tensor]]]:
    """Collect the inputs of the output projections, in the order of the calls."""
    seen: list[tuple[int, list[int], Tensor]] = []
    handles = []
    for bare, slot in every_slot(bare_models(model)):
        calls = itertools.cycle(slot.layers)  # a module may read several texts in one pass
        kept = kept_heads(bare)

        def watch(_: nn.Module, args: Any, calls: Any = calls, kept: Any = kept) -> None:
            layer = next(calls)
            if kept[layer]:
                if not args[0].requires_grad:  # the lowest layer: nothing below it needs gradients
                    args[0].requires_grad_()
                seen.append((layer, kept[layer], args[0]))

        handles.append(slot.gate.register_forward_pre_hook(watch))
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


@contextlib.contextmanager
def measuring(model: nn.Module) -> Iterator[None]:
    """Switch off dropout and gradients of weights inside the block; restore them afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    asking = [parameter for parameter in model.parameters() if parameter.requires_grad]
    model.eval()
    for parameter in asking:
        parameter.requires_grad_(False)
    try:
        with without_compilation():
            yield
    finally:
        for parameter in asking:
            parameter.requires_grad_(True)
        for module, mode in modes:
            module.training = mode


def _shape(model: nn.Module) -> tuple[int, int]:
    return head_shape(bare_models(model)[0])


def _own_share(probes: Sequence[Callable[[], Probe]]) -> Iterator[Probe]:
    rank, world = share_of_processes()
    for number, make in enumerate(probes):
        if number % world == rank:
            yield make()
