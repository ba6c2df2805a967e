"""The options of `bm.fit` for editors and type checkers; `training/settings.py` declares them."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from brodmann.models.model_settings import Precision
from brodmann.training.events import Report
from brodmann.training.method_settings import IAT
from brodmann.training.settings import Aggregation, Kept, Optimizer, Schedule


class PhaseOptions(TypedDict, total=False):
    """The options of one phase of a training that sets epochs and seed itself, as `distill`."""

    max_steps: int | None
    batch_size: int
    accumulation: int
    learning_rate: Literal["auto"] | float
    rates: Mapping[str, float]
    weight_decay: float
    optimizer: Optimizer | None
    momentum: float | None
    warmup: float
    schedule: Schedule
    clip: float | None
    precision: Precision
    sampling: str
    sampling_parameters: Mapping[str, object]
    sparsity: float
    aggregation: Aggregation | None
    log_entropy: bool | None
    bucketing: bool
    gradient_checkpointing: bool
    sharding: Literal["full"] | None
    evaluate_every: int | None
    evaluation_batch_size: int
    early_stopping: int | None
    keep: Kept
    checkpoint_every: int | None
    checkpoints: int
    specialize: IAT | None


class DistillationOptions(PhaseOptions, total=False):
    """What `distill` passes on to each phase."""

    trackers: Sequence[str]
    report: Report | None


class FitOptions(PhaseOptions, total=False):
    """Every option of training; a test compares it with the settings."""

    epochs: Literal["auto"] | int
    seed: int
