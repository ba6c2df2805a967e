r"""Measuring heads inside a model: gradients at their gates, losses and scores with heads off.

The gradient at a gate needs no gate. With $A_h$ the output of head $h$,

$$\frac{\partial L}{\partial \xi_h}\Big|_{\xi = 1} = \sum_{t,d} A_h(t,d)\,
  \frac{\partial L}{\partial A_h(t,d)},$$

so one backward from the summed losses to the inputs of the output projections gives every
example's gradient at every gate, exactly, without a gradient for any weight. Where the gates
themselves are not 1 (`at`), what is seen there is $\xi_h A_h$, and the sum is divided by $\xi_h$.

Nothing is left behind: mode, gradients and requirement of gradients are as before. Under several
processes each measures its share of the batches and all get the sum. The estimators return
`(sums, counts)` over fixed parts of the examples (`models/heads/part_sums.py`).
"""

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from brodmann.data.batches import make_batch
from brodmann.data.encoding import Encoded
from brodmann.data.tasks import Task
from brodmann.errors import InputError
from brodmann.files import Array
from brodmann.models.backbone.anatomy import bare_models, every_slot, head_shape, kept_heads
from brodmann.models.backbone.precision import autocast
from brodmann.models.evaluation import share_of_processes
from brodmann.models.heads.gates import head_gates, without_compilation
from brodmann.models.heads.part_sums import PartSums, mean_of, part_of_each
from brodmann.results import Head

PATH_STEPS = 16  # points on the way of integrated gradients


@dataclass
class Probe:
    """One batch to measure on."""

    losses: Callable[[], Tensor]  # a forward pass: one loss an example
    examples: int
    example_of_row: Tensor | None  # None: row i is example i
    real: Tensor | None  # (row, token): 1 where a token is no padding
    parts: Array  # (example,): the part that each is added to


def task_probes(
    model: Any,
    task: str,
    encoded: Encoded,
    *,
    batch_size: int,
    precision: str = "float32",
) -> list[Callable[[], Probe]]:
    """Batches of examples of nearly equal length, each made when it is asked for.

    An example's loss is the mean over its items (a long text has several windows), and all of them
    stand in one batch, so that they share the example's gate.
    """
    order = np.argsort(encoded.item_example, kind="stable")
    begins = np.searchsorted(encoded.item_example[order], np.arange(encoded.examples + 1))
    lengths = encoded.lengths()
    every = range(encoded.examples)
    longest = np.array([lengths[order[begins[e] : begins[e + 1]]].max() for e in every])
    by_length = np.argsort(-longest, kind="stable")
    pad_id = int(model.tokenizer.pad_token_id)
    parts = part_of_each(encoded.examples)

    def make(group: Array) -> Probe:
        items = np.concatenate([order[begins[e] : begins[e + 1]] for e in group])
        place = {int(example): number for number, example in enumerate(group)}
        owner = torch.tensor([place[int(e)] for e in encoded.item_example[items]])
        batch = make_batch([(task, encoded, items)], pad_id=pad_id).to(model.device)
        rows = torch.repeat_interleave(owner, torch.as_tensor(batch.parts[0].rows_per_item))
        owner = owner.to(model.device)

        def losses() -> Tensor:
            with autocast(model.device, precision):
                each = model(batch).losses[0]
            total: Tensor = each.new_zeros(len(group)).index_add(0, owner, each)
            return total / torch.bincount(owner, minlength=len(group))

        single = len(rows) == len(group)
        of_row = None if single else rows.to(model.device)
        return Probe(losses, len(group), of_row, batch.inputs["attention_mask"], parts[group])

    groups = [by_length[start : start + batch_size] for start in range(0, len(every), batch_size)]
    return [lambda group=group: make(group) for group in groups]  # type: ignore[misc]


def example_probes(
    model: Any,
    task: Task,
    split: str,
    examples: int | Sequence[int] | None,
    seed: int,
    *,
    batch_size: int,
    precision: str,
) -> list[Callable[[], Probe]]:
    """Batches over a seeded draw of a task's examples (all if None, a list names them)."""
    places = drawn(len(task.splits[split]), examples, seed)
    subset = [task.splits[split][int(place)] for place in places]
    encoded = model.encode(task.spec, subset)
    return task_probes(model, task.name, encoded, batch_size=batch_size, precision=precision)


def drawn(available: int, wanted: int | Sequence[int] | None, seed: int) -> Array:
    """Which examples: those named, or `wanted` of them without replacement, in their own order."""
    if wanted is not None and not isinstance(wanted, int):
        places = np.asarray(wanted, dtype=int)
        if not len(places) or places.min() < 0 or places.max() >= available:
            raise InputError(f"examples: expected places from 0 to {available - 1}")
        return places
    if wanted is not None and wanted < 1:
        raise InputError(f"examples = {wanted}: expected at least 1")
    if wanted is None or wanted >= available:
        return np.arange(available)
    return np.sort(np.random.default_rng(seed).choice(available, wanted, replace=False))


def plain_probes(
    model: nn.Module, batches: Iterable[Any], loss: Callable[[Any, Any], Tensor]
) -> list[Callable[[], Probe]]:
    """Batches of inputs for any transformers model; `loss(outputs, batch)` is one an example."""

    listed = list(batches)
    ends = np.cumsum([len(batch["input_ids"]) for batch in listed], dtype=int)
    parts = part_of_each(int(ends[-1]) if len(ends) else 0)

    def make(batch: Any, end: int) -> Probe:
        rows = len(batch["input_ids"])

        def losses() -> Tensor:
            each = loss(model(**batch), batch)
            if each.shape != (rows,):
                raise InputError(
                    f"loss returned shape {tuple(each.shape)} for {rows} rows: expected one loss "
                    "a row, for example cross_entropy(..., reduction='none')"
                )
            return each

        mask, of_row = batch.get("attention_mask"), None
        if batch["input_ids"].dim() == 3:  # multiple choice: the encoder reads one row a choice
            choices = batch["input_ids"].shape[1]
            of_row = torch.arange(rows, device=batch["input_ids"].device)
            of_row = of_row.repeat_interleave(choices)
            mask = None if mask is None else mask.flatten(0, 1)
        return Probe(losses, rows, of_row, mask, parts[end - rows : end])

    return [
        lambda batch=batch, end=int(end): make(batch, end)  # type: ignore[misc]
        for batch, end in zip(listed, ends, strict=True)
    ]


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

    All gates move from 0 to 1 together; the midpoint rule with `steps` points never stands at 0.
    Per example the integrals of all heads add up to L(all on) - L(all off) as `steps` grows.

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
    """Every example's integral at every gate, (example, layer, head)."""
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
            base = probe.losses().double()
            increase = np.zeros((probe.examples, layers, heads))
            for layer in range(layers):
                for head in kept[layer]:
                    with head_gates(model, off=[(layer, head)]):
                        more = probe.losses().double() - base
                    increase[:, layer, head] = more.cpu().numpy()
            running.add(increase, probe.parts)
            if progress is not None:
                progress(probe.examples)
    return running.gathered()


def gate_gradients(model: nn.Module, probe: Probe) -> Tensor:
    """∂L/∂ξ of every example at every gate, (example, layer, head), in one backward."""
    result = torch.zeros(probe.examples, *_shape(model), dtype=torch.float64)
    for layer, kept, states, gradients in _at_the_gates(model, probe):
        by_head = _products(states, gradients, len(kept)).sum(dim=1)  # (row, head)
        if probe.example_of_row is not None:
            empty = by_head.new_zeros(probe.examples, len(kept))
            by_head = empty.index_add(0, probe.example_of_row, by_head)
        result[:, layer, kept] += by_head.cpu().double()
    return result


def _token_products(model: nn.Module, probe: Probe) -> tuple[Array, Array]:
    """Sum over each example's real tokens of |<A_h(t), ∂L/∂A_h(t)>|, and how many there are."""
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
    """What goes into the output projections, in the order of the calls."""
    seen: list[tuple[int, list[int], Tensor]] = []
    handles = []
    for bare, slot in every_slot(bare_models(model)):
        calls = itertools.cycle(slot.layers)  # a module may read several texts in one pass
        kept = kept_heads(bare)

        def watch(_: nn.Module, args: Any, calls: Any = calls, kept: Any = kept) -> None:
            layer = next(calls)
            if kept[layer]:
                if not args[0].requires_grad:  # the lowest: nothing below it needs gradients
                    args[0].requires_grad_()
                seen.append((layer, kept[layer], args[0]))

        handles.append(slot.output.register_forward_pre_hook(watch))
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


@contextlib.contextmanager
def measuring(model: nn.Module) -> Iterator[None]:
    """Dropout off and no weight asking for gradients; everything as before afterwards."""
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
