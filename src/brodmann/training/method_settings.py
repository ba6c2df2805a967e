"""Settings of the methods in `training/methods`, a package that needs torch; configurations load
without it.

`bm.IAT(...)` is also `[specialize]`; the settings of `distill` are also part of `[distill]`.
"""

from fractions import Fraction
from typing import Literal, Self

from pydantic import Field, model_validator

from brodmann.data.schema import PositiveFloat, PositiveInt, Settings, Share
from brodmann.models.model_settings import Projections

Variant = Literal["important", "random", "ticket_share", "prune"]


class IAT(Settings):
    """[specialize] and `fit(..., specialize=IAT(...))`: train the last steps along the head map.

    Variants: `important`; `random`, as many heads drawn for every task; `ticket_share`, the
    important heads of the pretrained model from the first step on (δ = 1; Ticket-Share); `prune`,
    the least important α of all tasks together are switched off and the others trained on, and cut
    out for good at the end.
    """

    alpha: Share = Field(
        default=0.3, description="share of the heads that a task may move; 0: none"
    )
    delta: Share = Field(default=0.1, description="share of the steps, the last ones")
    variant: Variant = Field(default="important", description="which heads a task may move")
    examples: PositiveInt | None = Field(
        default=1000, description="examples per task to choose heads by, from its training data"
    )
    projections: Projections = Field(
        default="all", description="qkv: the output projection of a head is not masked"
    )
    strict: bool = Field(
        default=True, description="false: only gradients are masked, momentum and decay still act"
    )
    fitted: bool = Field(
        default=True, description="fit output heads before heads are chosen ahead of the first step"
    )

    @model_validator(mode="after")
    def _some_heads_stay(self) -> Self:
        if self.variant == "prune" and self.alpha == 1:
            raise ValueError("alpha = 1: variant 'prune' would switch every head off")
        return self

    @property
    def share(self) -> float:
        """Share of the steps that are specialized."""
        return 1.0 if self.variant == "ticket_share" else self.delta

    @property
    def is_plain(self) -> bool:
        """Whether these settings change nothing about ordinary training."""
        if self.variant == "prune":
            return self.alpha == 0 or self.share == 0
        return self.alpha == 1 or self.share == 0

    def switch(self, steps: int) -> int:
        """Number of ordinary steps before the switch, counted exactly."""
        return int((1 - Fraction(str(self.share))) * steps)


class DistillationSettings(Settings):
    """How long each phase trains, and how soft the teacher's answers are."""

    layer_epochs: PositiveInt = Field(
        default=2, description="epochs that imitate the teacher's layers"
    )
    prediction_epochs: PositiveInt = Field(
        default=3, description="epochs that imitate the teacher's answers"
    )
    temperature: PositiveFloat = Field(
        default=1.0, description="divides the logits of both before they are compared"
    )
