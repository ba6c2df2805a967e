"""Settings of training: `[training]` of a configuration and the options of `fit`.

They are checked before training starts. Imports no torch, so that configurations load fast.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, InstanceOf

from brodmann.data.sampling.samplers import check_sampler
from brodmann.data.schema import PositiveFloat, PositiveInt, Seed, Settings, Share, checked
from brodmann.errors import InputError
from brodmann.models.model_settings import EVALUATION_BATCH, Precision
from brodmann.training.defaults import AUTO, choose_epochs, choose_rate
from brodmann.training.method_settings import IAT

Aggregation = Literal["upgrad", "pcgrad", "cagrad", "mgda"]
AGGREGATIONS: tuple[str, ...] = get_args(Aggregation)
Schedule = Literal["linear", "cosine", "constant"]
Optimizer = Literal["adamw", "sgd"]
Kept = Literal["best", "last"]

# These do not affect the weights after a step.
UNSEEN_BY_STEPS = {"log_entropy", "gradient_checkpointing", "checkpoint_every", "checkpoints"}
# Left out of fingerprints at their defaults: earlier versions did not have them.
ADDED_LATER = ("aggregation", "sharding", "optimizer", "momentum", "rates", "sparsity")


class TrainingSettings(Settings):
    """[training]"""

    epochs: Literal["auto"] | PositiveInt = Field(
        default="auto", description="passes over the data; auto: 3 to 20, for about 300 steps"
    )
    max_steps: PositiveInt | None = Field(default=None, description="largest number of steps")
    batch_size: PositiveInt = Field(default=32, description="items per batch and process")
    accumulation: PositiveInt = Field(default=1, description="batches per step")
    learning_rate: Literal["auto"] | PositiveFloat = Field(
        default="auto", description="peak learning rate; auto: by the width of the encoder"
    )
    rates: dict[str, PositiveFloat] = Field(
        default_factory=dict, description="rates of parts of the model, e.g. { heads = 1e-3 }"
    )
    weight_decay: Annotated[float, Field(ge=0)] = Field(
        default=0.0, description="weight decay; biases and norms are exempt"
    )
    optimizer: Optimizer | None = Field(default=None, description="default: adamw")
    momentum: Annotated[float, Field(ge=0, lt=1)] | None = Field(
        default=None, description="momentum of sgd; default: 0.9"
    )
    warmup: Share = Field(default=0.1, description="share of the steps in which the rate rises")
    schedule: Schedule = Field(
        default="linear", description="how the rate changes after the warm-up"
    )
    clip: PositiveFloat | None = Field(
        default=1.0, description="largest allowed norm of the gradient"
    )
    precision: Precision = Field(
        default="auto", description="number format; auto: bf16 if the device supports it"
    )
    sampling: str = Field(
        default="proportional", description="sampler that chooses the task of each batch"
    )
    sampling_parameters: dict[str, Any] = Field(
        default_factory=dict, description="parameters of the sampler"
    )
    sparsity: Annotated[float, Field(ge=0)] = Field(
        default=0.0, description="weight in the loss of the share of open gates"
    )
    aggregation: Aggregation | None = Field(
        default=None, description="how conflicting gradients of tasks are combined"
    )
    log_entropy: bool | None = Field(
        default=None, description="log how unsure the model is of each task, whatever the sampler"
    )
    bucketing: bool = Field(default=True, description="make batches of texts of similar length")
    gradient_checkpointing: bool = Field(
        default=False, description="recompute activations: less memory, more time"
    )
    sharding: Literal["full"] | None = Field(
        default=None,
        description="full: split weights, gradients and moments over the processes",
    )
    evaluate_every: PositiveInt | None = Field(
        default=None, description="steps between evaluations; default: one epoch"
    )
    evaluation_batch_size: PositiveInt = Field(
        default=EVALUATION_BATCH, description="items per batch of evaluation"
    )
    early_stopping: PositiveInt | None = Field(
        default=None, description="stop after this many evaluations without a new best"
    )
    keep: Kept = Field(default="best", description="the weights to keep at the end of training")
    checkpoint_every: PositiveInt | None = Field(
        default=None, description="steps between checkpoints, in addition to those at evaluations"
    )
    checkpoints: PositiveInt = Field(default=2, description="number of checkpoints to keep")


class Options(TrainingSettings):
    """Options of `fit`: `[training]`, and settings that a configuration has elsewhere."""

    seed: Seed = Field(default=0, description="seed of batches, dropout and draws")
    specialize: InstanceOf[IAT] | None = Field(
        default=None, description="train only important heads in the last steps"
    )

    def plain(self) -> dict[str, Any]:
        """All options that affect the steps before the switch: not how heads specialize."""
        values = self.model_dump(exclude={"specialize", *UNSEEN_BY_STEPS})
        usual = Options()
        for name in ADDED_LATER:
            if values[name] == getattr(usual, name):
                del values[name]
        return values


def checked_options(options: Mapping[str, Any]) -> Options:
    """Check the options of a call of `fit`; an error names the one that is wrong."""
    chosen = checked(Options, options, "fit")
    check_sampler(chosen.sampling, chosen.sampling_parameters)
    if chosen.optimizer == "sgd" and chosen.learning_rate == AUTO:
        raise InputError("optimizer = 'sgd': expected a learning_rate; \"auto\" is for AdamW")
    check_training(chosen)
    return chosen


def check_training(settings: TrainingSettings) -> None:
    """Raise `InputError` for settings that contradict each other.

    Not part of the class: a grid may set one in its configuration and the other in its cells.
    """
    if settings.momentum is not None and settings.optimizer != "sgd":
        raise InputError(f"momentum = {settings.momentum}: only for optimizer = 'sgd'")
    if settings.log_entropy and settings.sharding is not None:
        # Split weights are whole only if every process asks for them.
        raise InputError("log_entropy: cannot be combined with sharding")


def resolve_options(options: Options, batches_per_epoch: int, width: int) -> Options:
    """The same options with numbers in place of "auto"."""
    return options.model_copy(
        update={
            "epochs": choose_epochs(options.epochs, batches_per_epoch),
            "learning_rate": choose_rate(options.learning_rate, width),
        }
    )
