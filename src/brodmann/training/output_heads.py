r"""Fit output heads to convergence on an encoder that stays unchanged.

The last linear map of a task's output head reads a state $x$ (the pooled text, or every token's)
and gives logits $Wx + b$. With the states standardised to $z$ (mean 0, standard deviation 1 over
the training data), L-BFGS minimises

$$\frac{1}{N} \sum_{n=1}^{N} \mathcal{L}(V z_n + c, y_n) + \frac{\lambda}{2N} \lVert V \rVert^2,$$

which is convex; $W$ and $b$ follow from $V$, $c$ and the standardisation. Unless set, $\lambda$ is
a quarter of the size of a state: a prior under which a logit has a standard deviation of 2. For a
classification this is multinomial logistic regression (scikit-learn's, with $C = 1/\lambda$), for a
regression ridge regression; choices, spans and tags use their own loss in the same way. Tasks that
share an output head are fitted together, each by the mean of its losses.

A few epochs of gradient steps leave such a head far from its optimum, so that a frozen encoder
looks worse than it is. Layers before the last one of a family's head (RoBERTa's dense layer) stay
unchanged. Only the last map changes: no encoder weight, no mode, no random state.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from brodmann.data.batches import Part, evaluation_order, make_batch
from brodmann.data.kinds import KINDS
from brodmann.data.tasks import Task, TaskSpec
from brodmann.errors import InputError
from brodmann.files import Array
from brodmann.models.backbone.precision import autocast
from brodmann.models.encoders import names_with
from brodmann.models.evaluation import evaluating
from brodmann.models.heads.probes import drawn
from brodmann.models.model_settings import EVALUATION_BATCH
from brodmann.models.multitask import MultiTaskModel
from brodmann.models.task_heads import TaskHead, by_item

ITERATIONS = 2000
TOLERANCE = 1e-5  # of the gradient's largest entry: losses are computed in float32
PER_TOKEN = ("span", "tokens")  # forms of head that read every token's state


@dataclass(frozen=True)
class FittedHead:
    """Result of fitting one output head."""

    tasks: tuple[str, ...]
    loss: float  # mean over its tasks, without the penalty
    iterations: int
    converged: bool


@dataclass
class _Piece:
    """Items of one task with the states that the last map reads."""

    spec: TaskSpec
    states: Tensor  # (row, size), or (row, token, size)
    real: Tensor | None  # (row, token): which tokens are not padding
    part: Part  # labels, and rows per item


def fit_output_heads(
    model: MultiTaskModel,
    tasks: Sequence[Task],
    *,
    examples: int | None = None,
    l2: float | None = None,
    seed: int = 0,
    batch_size: int = EVALUATION_BATCH,
    precision: str = "float32",
) -> dict[str, FittedHead]:
    """Set the output heads of these tasks to the optimum for their training data, in place.

    The encoder is not changed, frozen or not. `examples` limits how many training examples per
    task are drawn (None: all of them); `l2` is λ (None: a quarter of the size of a state). Returns
    one entry per output head, by its name.
    """
    if not tasks:
        raise InputError("tasks: expected at least one task, found none")
    if (
        isinstance(l2, bool)
        or not isinstance(l2, int | float | None)
        or (l2 is not None and not l2 > 0)
    ):
        raise InputError(f"l2 = {l2!r}: expected a number above 0")
    together: dict[str, list[Task]] = {}
    for task in tasks:
        together.setdefault(model.spec(task.name).output_head, []).append(task)
    for spec in model.specs.values():
        if spec.output_head in together:
            model.rules.pop(spec.name, None)  # they belong to the old output head
    found = {}
    for name, sharing in together.items():
        pieces: list[list[_Piece]] = []
        for task in sharing:
            last = last_linear(model, task)
            pieces.append(_read(model, task, last, examples, seed, batch_size, precision))
        penalty = last.in_features / 4 if l2 is None else float(l2)
        found[name] = _fit(last, [task.name for task in sharing], pieces, penalty)
    return found


@contextlib.contextmanager
def fitted_heads(model: MultiTaskModel, tasks: Sequence[Task], **options: Any) -> Iterator[None]:
    """Fit the output heads inside the block and restore them afterwards.

    A head that was never trained passes random gradients to the encoder, so importance measured
    through it says little about the task.
    """
    before = {name: value.clone() for name, value in model.heads.state_dict().items()}
    fit_output_heads(model, tasks, **options)
    try:
        yield
    finally:
        model.heads.load_state_dict(before)


def check_only_heads_train(model: MultiTaskModel) -> None:
    """Raise InputError if the model would train anything besides its output heads."""
    other = next(
        (n for n, p in model.named_parameters() if p.requires_grad and not n.startswith("heads.")),
        None,
    )
    if other is not None:
        raise InputError(
            f'model.output_heads = "fitted": architecture "{model.settings.architecture}" also '
            f"trains '{other}': use architecture {names_with('plain')}"
        )


def last_linear(model: MultiTaskModel, task: Task) -> nn.Linear:
    """The linear map that computes the task's logits: the last one that its head calls."""
    head = model.head_of(task.name)
    called: list[nn.Linear] = []
    hooks = [
        module.register_forward_hook(lambda module, *_: called.append(module))
        for module in head.modules()
        if isinstance(module, nn.Linear)
    ]
    encoded = model.encode(task.spec, task.splits["train"][:1], cache=False)
    pad_id = int(model.tokenizer.pad_token_id)
    batch = make_batch([(task.name, encoded, np.arange(1))], pad_id=pad_id).to(model.device)
    try:
        with torch.no_grad(), evaluating(model):
            model(batch)
    finally:
        for hook in hooks:
            hook.remove()
    if not called:
        raise InputError(f"task '{task.name}': its output head has no linear map to fit")
    return called[-1]


@torch.no_grad()
def _read(
    model: MultiTaskModel,
    task: Task,
    last: nn.Linear,
    examples: int | None,
    seed: int,
    batch_size: int,
    precision: str,
) -> list[_Piece]:
    """Inputs of the last map for the task's training examples, batch by batch."""
    places = drawn(len(task.splits["train"]), examples, seed)
    subset = [task.splits["train"][int(place)] for place in places]
    encoded = model.encode(task.spec, subset)
    head, spec = model.head_of(task.name), model.spec(task.name)
    pieces = []
    with evaluating(model):
        for items in evaluation_order(encoded, batch_size):
            pad_id = int(model.tokenizer.pad_token_id)
            batch = make_batch([(task.name, encoded, items)], pad_id=pad_id).to(model.device)
            with autocast(model.device, precision):
                states = model.states(batch.inputs, batch.parts)[0]
                seen = _input_of(last, head, states, batch.inputs)
            rows = len(batch.inputs["input_ids"])
            per_token = head.form in PER_TOKEN
            seen = seen.float() if per_token else seen.float().reshape(rows, -1)
            real = batch.inputs["attention_mask"].bool() if per_token else None
            # Fitted in float64, which not every device has.
            real = None if real is None else real.cpu()
            pieces.append(_Piece(spec, seen.cpu(), real, batch.to("cpu").parts[0]))
    return pieces if head.form != "sequence" else [_joined(pieces)]


def _input_of(last: nn.Linear, head: TaskHead, states: Any, inputs: dict[str, Tensor]) -> Tensor:
    """The input of the last map.

    A head that selects one token's logits (a decoder's) selects that token's state instead, because
    the map returns its input during the call.
    """
    seen: list[Tensor] = []

    def hand_on(_: nn.Module, given: tuple[Tensor, ...], output: Tensor) -> Tensor:
        seen.append(given[0])
        return output if head.form in PER_TOKEN else given[0]

    hook = last.register_forward_hook(hand_on)
    try:
        found: Tensor = head(states, inputs)
    finally:
        hook.remove()
    return seen[0] if head.form in PER_TOKEN else found


def _joined(pieces: list[_Piece]) -> _Piece:
    """Join the texts of all batches: their states have no padding."""
    first = pieces[0].part
    labels = {name: torch.cat([p.part.labels[name] for p in pieces]) for name in first.labels}
    counts = np.concatenate([piece.part.rows_per_item for piece in pieces])
    items = np.concatenate([piece.part.items for piece in pieces])
    part = Part(first.task, slice(0, len(counts)), items, labels, counts, len(counts))
    return _Piece(pieces[0].spec, torch.cat([piece.states for piece in pieces]), None, part)


def _fit(last: nn.Linear, names: list[str], pieces: list[list[_Piece]], l2: float) -> FittedHead:
    from scipy.optimize import minimize

    mean, spread = _standard([piece for own in pieces for piece in own], last.bias is not None)
    count = sum(len(piece.part.rows_per_item) for own in pieces for piece in own)
    shape = (last.out_features, last.in_features + (last.bias is not None))

    def objective(vector: Array, penalty: float = l2) -> tuple[float, Array]:
        values = torch.tensor(vector, dtype=torch.float64).reshape(shape)
        values.requires_grad_(True)
        value, slope = 0.0, torch.zeros_like(values)

        def add(term: Tensor) -> None:
            nonlocal value
            value += float(term.detach())
            slope.add_(torch.autograd.grad(term, values)[0])

        add(penalty / (2 * count) * values[:, : last.in_features].square().sum())
        for own in pieces:
            items = sum(len(piece.part.rows_per_item) for piece in own)
            for piece in own:  # one by one: memory does not grow with the data
                states = (piece.states.double() - mean) / spread
                logits = states @ values[:, : last.in_features].T
                if last.bias is not None:
                    logits = logits + values[:, last.in_features]
                add(_losses(logits, piece).sum().double() / (items * len(pieces)))
        return value, slope.numpy().ravel()

    options: Any = {"maxiter": ITERATIONS, "maxfun": 2 * ITERATIONS}
    options |= {"gtol": TOLERANCE, "ftol": 0.0}
    start = np.zeros(int(np.prod(shape)))
    result = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    best = torch.tensor(result.x, dtype=torch.float64).reshape(shape)
    weight = best[:, : last.in_features] / spread
    with torch.no_grad():
        last.weight.copy_(weight)
        if last.bias is not None:
            last.bias.copy_(best[:, last.in_features] - weight @ mean)
    steep = float(np.abs(np.asarray(result.jac)).max())
    loss = objective(result.x, 0.0)[0]
    return FittedHead(tuple(names), loss, int(result.nit), steep <= 10 * TOLERANCE)


def _standard(pieces: list[_Piece], centred: bool) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of the states; without a bias, no mean is subtracted."""
    total = pieces[0].states.new_zeros(pieces[0].states.shape[-1], dtype=torch.float64)
    squares, count = total.clone(), 0
    for piece in pieces:
        states = piece.states if piece.real is None else piece.states[piece.real]
        values = states.reshape(-1, states.shape[-1]).double()
        total, squares = total + values.sum(dim=0), squares + values.square().sum(dim=0)
        count += len(values)
    mean = total / count
    spread = (squares / count - mean.square()).clamp(min=0).sqrt()
    still = spread <= 1e-9 * squares.max().sqrt().clamp(min=1)  # the same in every text
    spread = torch.where(still, torch.ones_like(spread), spread)
    return (mean if centred else torch.zeros_like(mean)), spread


def _losses(logits: Tensor, piece: _Piece) -> Tensor:
    """(item,) losses from the last map's outputs, as the model itself computes them."""
    kind = KINDS[piece.spec.kind]
    if kind.HEAD == "choice":
        logits = by_item(logits.flatten(), piece.part)
    elif kind.HEAD == "span":
        assert piece.real is not None
        logits = logits.masked_fill(~piece.real[..., None], torch.finfo(logits.dtype).min)
    return kind.loss(logits, piece.part.labels, piece.spec)
