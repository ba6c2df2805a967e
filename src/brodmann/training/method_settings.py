"""Settings of the methods in `training/methods`, without importing torch as that package does.

`bm.IAT(...)` is also `[specialize]`; the settings of `distill` are also part of `[distill]`.
"""

from fractions import Fraction
from typing import Literal, Self

from pydantic import Field, model_validator

from brodmann.data.schema import PositiveFloat, PositiveInt, Settings, Share
from brodmann.models.model_settings import Projections
from brodmann.results import USUAL_ALPHA

Variant = Literal["important", "random", "ticket_share", "prune"]


class IAT(Settings):
    """[specialize] and `fit(..., specialize=IAT(...))`: train important heads in the last steps.

    Variants: `important`; `random`, as many heads drawn at random for every task; `ticket_share`,
    the important heads of the pretrained model from the first step on (δ = 1; Ticket-Share);
    `prune`, where the least important α for all tasks together are switched off, the others are
    trained further, and the pruned heads are removed at the end.
    """

    alpha: Share = Field(
        default=USUAL_ALPHA, description="share of the heads that a task may move; 0: none"
    )
    delta: Share = Field(
        default=0.1, description="last share of the steps, in which heads specialize"
    )
    variant: Variant = Field(default="important", description="which heads a task may move")
    examples: PositiveInt | None = Field(
        default=1000, description="examples per task to choose heads by, from its training data"
    )
    projections: Projections = Field(
        default="all", description="qkv: do not mask the output projection of a head"
    )
    strict: bool = Field(
        default=True, description="false: mask gradients only; momentum and decay still act"
    )
    fitted: bool = Field(
        default=True,
        description="fit output heads first if heads are chosen before the first step",
    )

    @model_validator(mode="after")
    def _some_heads_stay(self) -> Self:
        if self.variant == "prune" and self.alpha == 1:
            raise ValueError("alpha = 1: variant 'prune' would switch every head off")
        return self

    @property
    def share(self) -> float:
        """Share of the steps that specialize heads."""
        return 1.0 if self.variant == "ticket_share" else self.delta

    @property
    def is_plain(self) -> bool:
        """Whether these settings amount to ordinary training."""
        if self.variant == "prune":
            return self.alpha == 0 or self.share == 0
        return self.alpha == 1 or self.share == 0

    def switch(self, steps: int) -> int:
        """Exact number of ordinary steps before the switch."""
        return int((1 - Fraction(str(self.share))) * steps)


class DistillationSettings(Settings):
    """Length of each distillation phase, and softness of the teacher's answers."""

    layer_epochs: PositiveInt = Field(
        default=2, description="epochs that imitate the teacher's layers"
    )
    prediction_epochs: PositiveInt = Field(
        default=3, description="epochs that imitate the teacher's answers"
    )
    temperature: PositiveFloat = Field(
        default=1.0, description="divides both models' logits before they are compared"
    )
