"""The settings of a training run, checked, and the optimizer they ask for."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import nn

from brodmann.data.samplers import check_sampler
from brodmann.errors import InputError, did_you_mean
from brodmann.models.precision import PRECISIONS
from brodmann.training.aggregation import check_aggregation
from brodmann.training.iat import IAT
from brodmann.training.schedule import SCHEDULES

MOST = 10**9  # of anything that is counted


@dataclass
class Options:
    """The settings of `fit`; its docstring says what they mean."""

    epochs: int = 5
    max_steps: int | None = None
    batch_size: int = 32
    accumulation: int = 1
    learning_rate: float = 2e-5
    weight_decay: float = 0.0
    warmup: float = 0.1
    schedule: str = "linear"
    clip: float | None = 1.0
    precision: str = "float32"
    sampling: str = "proportional"
    sampling_parameters: Mapping[str, Any] = field(default_factory=dict)
    bucketing: bool = True
    evaluate_every: int | None = None
    evaluation_batch_size: int = 64
    early_stopping: int | None = None
    keep: str = "best"
    seed: int = 0
    specialize: IAT | None = None
    aggregation: str | None = None
    sharding: str | None = None

    def plain(self) -> dict[str, Any]:
        """All but how heads specialize: what the steps before the switch depend on."""
        values = {name: value for name, value in asdict(self).items() if name != "specialize"}
        for later in ("aggregation", "sharding"):
            if values[later] is None:  # runs from before there was a choice are the same runs
                del values[later]
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
    ):
        value = getattr(chosen, name)
        if value not in allowed:
            raise InputError(
                f"unknown {name} '{value}'{did_you_mean(str(value), [a for a in allowed if a])}"
            )
    for name in ("epochs", "batch_size", "accumulation", "learning_rate"):
        if isinstance(getattr(chosen, name), str | None):
            raise InputError(f"{name} = {getattr(chosen, name)!r}: expected a number")
        if not getattr(chosen, name) > 0:
            raise InputError(f"{name} = {getattr(chosen, name)}: expected a number above 0")
        if getattr(chosen, name) > MOST:
            raise InputError(f"{name} = {getattr(chosen, name)}: expected at most {MOST:,}")
    if not 0 <= chosen.seed < 2**31:
        raise InputError(f"seed = {chosen.seed}: expected a whole number from 0 to 2147483647")
    if not 0 <= chosen.warmup <= 1:
        raise InputError(f"warmup = {chosen.warmup}: expected a share of the steps, from 0 to 1")
    return chosen


def make_optimizer(model: nn.Module, learning_rate: float, weight_decay: float) -> Any:
    """AdamW; biases and norms (all parameters of one dimension) are not decayed."""
    trained = [p for p in model.parameters() if p.requires_grad]
    if not trained:
        raise InputError("nothing to train: every parameter of the model is frozen")
    groups = [
        {"params": [p for p in trained if p.dim() > 1], "weight_decay": weight_decay},
        {"params": [p for p in trained if p.dim() <= 1], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    return torch.optim.AdamW(groups, lr=learning_rate, betas=(0.9, 0.999), fused=True)
