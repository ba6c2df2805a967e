"""Settings of training: `[training]` of a configuration, and the options of `fit`, which has them
checked before it starts. Imports no torch, so configurations load fast."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, InstanceOf

from brodmann.data.sampling.samplers import check_sampler
from brodmann.data.schema import PositiveFloat, PositiveInt, Seed, Settings, Share, checked
from brodmann.errors import InputError
from brodmann.models.model_settings import Precision
from brodmann.training.defaults import AUTO, choose_epochs, choose_rate
from brodmann.training.method_settings import IAT

Aggregation = Literal["upgrad", "pcgrad", "cagrad", "mgda"]
AGGREGATIONS: tuple[str, ...] = get_args(Aggregation)
Schedule = Literal["linear", "cosine", "constant"]

# The weights after a step do not depend on these.
UNSEEN_BY_STEPS = {"log_entropy", "gradient_checkpointing", "checkpoint_every", "checkpoints"}
# Left out of fingerprints at their defaults: earlier runs had no choice.
ADDED_LATER = ("aggregation", "sharding", "optimizer", "momentum", "rates", "sparsity")


class TrainingSettings(Settings):
    """[training]"""

    epochs: Literal["auto"] | PositiveInt = Field(
        default="auto", description="passes over the data; auto: 3 to 20, for about 300 steps"
    )
    max_steps: PositiveInt | None = Field(default=None, description="steps, at most")
    batch_size: PositiveInt = Field(default=32, description="items per batch and process")
    accumulation: PositiveInt = Field(default=1, description="batches per step")
    learning_rate: Literal["auto"] | PositiveFloat = Field(
        default="auto", description="highest rate; auto: by the width of the encoder"
    )
    rates: dict[str, PositiveFloat] = Field(
        default_factory=dict, description="rates of parts of the model, e.g. { heads = 1e-3 }"
    )
    weight_decay: Annotated[float, Field(ge=0)] = Field(
        default=0.0, description="decay of weights; biases and norms are exempt"
    )
    optimizer: Literal["adamw", "sgd"] | None = Field(default=None, description="adamw if left out")
    momentum: Annotated[float, Field(ge=0, lt=1)] | None = Field(
        default=None, description="momentum of sgd, 0.9 if left out"
    )
    warmup: Share = Field(default=0.1, description="share of the steps in which the rate rises")
    schedule: Schedule = Field(default="linear", description="the rate after the warm-up")
    clip: PositiveFloat | None = Field(default=1.0, description="largest norm of the gradient")
    precision: Precision = Field(
        default="auto", description="number format; auto: bf16 where the device has it"
    )
    sampling: str = Field(default="proportional", description="the order in which tasks are drawn")
    sampling_parameters: dict[str, Any] = Field(
        default_factory=dict, description="parameters of the sampler"
    )
    sparsity: Annotated[float, Field(ge=0)] = Field(
        default=0.0, description="weight of the share of open gates in the loss"
    )
    aggregation: Aggregation | None = Field(
        default=None, description="how conflicting gradients of tasks are combined"
    )
    log_entropy: bool | None = Field(
        default=None, description="log how unsure the model is of each task, whatever the sampler"
    )
    bucketing: bool = Field(default=True, description="batches of texts of nearly equal length")
    gradient_checkpointing: bool = Field(
        default=False, description="compute activations twice: less memory, more time"
    )
    sharding: Literal["full"] | None = Field(
        default=None,
        description="full: weights, gradients and moments are split over the processes",
    )
    evaluate_every: PositiveInt | None = Field(
        default=None, description="steps between evaluations; default: one epoch"
    )
    evaluation_batch_size: PositiveInt = Field(
        default=64, description="items per batch where nothing trains"
    )
    early_stopping: PositiveInt | None = Field(
        default=None, description="evaluations without a new best that end training"
    )
    keep: Literal["best", "last"] = Field(
        default="best", description="the weights that training ends with"
    )
    checkpoint_every: PositiveInt | None = Field(
        default=None, description="steps between checkpoints, besides those at evaluations"
    )
    checkpoints: PositiveInt = Field(default=2, description="number of checkpoints to keep")


class Options(TrainingSettings):
    """The options of `fit`: `[training]`, and what a configuration says elsewhere."""

    seed: Seed = Field(default=0, description="seed of batches, dropout and draws")
    specialize: InstanceOf[IAT] | None = Field(
        default=None, description="train the last steps along the map"
    )

    def plain(self) -> dict[str, Any]:
        """Everything that the steps before the switch depend on: all but how heads specialize."""
        values = self.model_dump(exclude={"specialize", *UNSEEN_BY_STEPS})
        usual = Options()
        for name in ADDED_LATER:
            if values[name] == getattr(usual, name):
                del values[name]
        return values


def checked_options(options: Mapping[str, Any]) -> Options:
    """The options of a call of `fit`, or one line that says which of them is wrong."""
    chosen = checked(Options, options, "fit")
    check_sampler(chosen.sampling, chosen.sampling_parameters)
    if chosen.optimizer == "sgd" and chosen.learning_rate == AUTO:
        raise InputError("optimizer = 'sgd': expected a learning_rate; \"auto\" is for AdamW")
    check_training(chosen)
    return chosen


def check_training(settings: TrainingSettings) -> None:
    """Raise `InputError` for settings that contradict each other.

    Not part of the class: a grid may set the one in its configuration and the other in its cells.
    """
    if settings.momentum is not None and settings.optimizer != "sgd":
        raise InputError(f"momentum = {settings.momentum}: only for optimizer = 'sgd'")
    if settings.log_entropy and settings.sharding is not None:
        # Split weights are whole only where every process asks for them.
        raise InputError("log_entropy: cannot be combined with sharding")


def resolve_options(options: Options, batches_per_epoch: int, width: int) -> Options:
    """The same options with numbers in the place of "auto"."""
    return options.model_copy(
        update={
            "epochs": choose_epochs(options.epochs, batches_per_epoch),
            "learning_rate": choose_rate(options.learning_rate, width),
        }
    )
