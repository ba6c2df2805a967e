"""The settings of a training run, checked, and the optimizer they ask for."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch import nn

from brodmann.data.sampling.samplers import check_sampler
from brodmann.errors import InputError, did_you_mean
from brodmann.models.backbone.precision import PRECISIONS
from brodmann.training.defaults import AUTO, choose_epochs, choose_rate
from brodmann.training.methods.aggregation import check_aggregation
from brodmann.training.methods.iat import IAT
from brodmann.training.schedule import SCHEDULES

OPTIMIZERS = ("adamw", "sgd")
MOMENTUM = 0.9  # of SGD, unless set
MOST = 10**9  # of anything that is counted


@dataclass
class Options:
    """The settings of `fit`; its docstring says what they mean."""

    epochs: int | str = AUTO
    max_steps: int | None = None
    batch_size: int = 32
    accumulation: int = 1
    learning_rate: float | str = AUTO
    rates: Mapping[str, float] = field(default_factory=dict)  # of parts: see models/parts.py
    weight_decay: float = 0.0
    warmup: float = 0.1
    schedule: str = "linear"
    clip: float | None = 1.0
    precision: str = "auto"
    sampling: str = "proportional"
    sampling_parameters: Mapping[str, Any] = field(default_factory=dict)
    bucketing: bool = True
    evaluate_every: int | None = None
    evaluation_batch_size: int = 64
    early_stopping: int | None = None
    keep: str = "best"
    seed: int = 0
    specialize: IAT | None = None
    sparsity: float = 0.0
    aggregation: str | None = None
    sharding: str | None = None
    optimizer: str | None = None
    momentum: float | None = None
    log_entropy: bool | None = None

    def plain(self) -> dict[str, Any]:
        """All but how heads specialize: what the steps before the switch depend on."""
        apart = ("specialize", "log_entropy")
        values = {name: value for name, value in asdict(self).items() if name not in apart}
        usual = Options()
        for name in ("aggregation", "sharding", "optimizer", "momentum", "rates", "sparsity"):
            if values[name] == getattr(usual, name):  # runs from before there was a choice
                del values[name]
        return values


def checked_options(options: Mapping[str, Any]) -> Options:
    known = list(Options.__dataclass_fields__)
    for name in options:
        if name not in known:
            raise InputError(f"fit has no option '{name}'{did_you_mean(name, known)}")
    chosen = Options(**options)
    check_sampler(chosen.sampling, dict(chosen.sampling_parameters))
    check_aggregation(chosen.aggregation)
    if not isinstance(chosen.specialize, IAT | None):
        raise InputError(f"specialize = {chosen.specialize!r:.60}: expected bm.IAT(...)")
    for name, allowed in (
        ("precision", PRECISIONS),
        ("schedule", SCHEDULES),
        ("keep", ("best", "last")),
        ("sharding", (None, "full")),
        ("optimizer", (None, *OPTIMIZERS)),
    ):
        value = getattr(chosen, name)
        if value not in allowed:
            raise InputError(
                f"unknown {name} '{value}'{did_you_mean(str(value), [a for a in allowed if a])}"
            )
    for name in ("epochs", "batch_size", "accumulation", "learning_rate"):
        if name in ("epochs", "learning_rate") and getattr(chosen, name) == AUTO:
            continue
        if isinstance(getattr(chosen, name), str | None):
            raise InputError(f"{name} = {getattr(chosen, name)!r}: expected a number")
        if not getattr(chosen, name) > 0:
            raise InputError(f"{name} = {getattr(chosen, name)}: expected a number above 0")
        if getattr(chosen, name) > MOST:
            raise InputError(f"{name} = {getattr(chosen, name)}: expected at most {MOST:,}")
    if isinstance(chosen.sparsity, bool | str) or not chosen.sparsity >= 0:
        raise InputError(f"sparsity = {chosen.sparsity!r}: expected 0 or a number above it")
    if not 0 <= chosen.seed < 2**31:
        raise InputError(f"seed = {chosen.seed}: expected a whole number from 0 to 2147483647")
    if not 0 <= chosen.warmup <= 1:
        raise InputError(f"warmup = {chosen.warmup}: expected a share of the steps, from 0 to 1")
    if chosen.optimizer == "sgd" and chosen.learning_rate == AUTO:
        raise InputError("optimizer = 'sgd': expected a learning_rate; \"auto\" is for AdamW")
    check_momentum(chosen.optimizer, chosen.momentum)
    check_entropy(chosen.log_entropy, chosen.sharding)
    return chosen


def check_momentum(optimizer: str | None, momentum: float | None) -> None:
    if momentum is None:
        return
    if optimizer != "sgd":
        raise InputError(f"momentum = {momentum}: only for optimizer = 'sgd'")
    if not 0 <= momentum < 1:
        raise InputError(f"momentum = {momentum}: expected a number from 0 to below 1")


def check_entropy(log_entropy: bool | None, sharding: str | None) -> None:
    """Split weights are whole only where every process asks for them."""
    if log_entropy and sharding is not None:
        raise InputError("log_entropy: cannot be combined with sharding")


def resolve_options(options: Options, batches_per_epoch: int, width: int) -> Options:
    """The same options with numbers in the place of "auto"."""
    return replace(
        options,
        epochs=choose_epochs(options.epochs, batches_per_epoch),
        learning_rate=choose_rate(options.learning_rate, width),
    )


def make_optimizer(
    groups: Sequence[tuple[float, Sequence[nn.Parameter]]],
    weight_decay: float,
    optimizer: str | None = None,
    momentum: float | None = None,
) -> Any:
    """AdamW, or SGD with momentum, over (learning rate, parameters) groups.

    Biases and norms (all parameters of one dimension) are not decayed. Every group keeps its full
    rate under "peak": the schedule multiplies it.
    """
    made = []
    for rate, parameters in groups:
        for decay, chosen in (
            (weight_decay, [p for p in parameters if p.dim() > 1]),
            (0.0, [p for p in parameters if p.dim() <= 1]),
        ):
            if chosen:
                made.append({"params": chosen, "weight_decay": decay, "lr": rate, "peak": rate})
    if not made:
        raise InputError("nothing to train: every parameter of the model is frozen")
    if optimizer == "sgd":
        return torch.optim.SGD(made, momentum=MOMENTUM if momentum is None else momentum)
    return torch.optim.AdamW(made, betas=(0.9, 0.999), fused=True)
