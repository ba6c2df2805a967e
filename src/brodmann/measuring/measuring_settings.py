"""Settings of what is measured after training: `[map]`, `[dissociation]` and `[calibrate]`.

They are also the keywords of `head_importance`, `dissociation` and `fit_rules`. Imports no
torch, so that configurations load fast.
"""

from typing import Annotated, Literal

from pydantic import Field, field_validator

from brodmann.data.schema import PositiveInt, PositiveShare, Settings
from brodmann.models.model_settings import Granularity
from brodmann.results import USUAL_ALPHA, Normalization

Estimator = Literal["gradient", "leave_one_out", "integrated_gradients", "iterative"]
Draws = Annotated[int, Field(ge=0, le=10_000)]  # each reads every example once more
TRANSFER_STEPS, TRANSFER_BATCH = 50, 32  # of every transfer of the relation `ahp`


class ImportanceSettings(Settings):
    """[map]: head importance."""

    examples: PositiveInt | None = Field(
        default=1000, description="examples per task, drawn from its training data"
    )
    estimator: Estimator = Field(default="gradient", description="how importance is estimated")
    granularity: Granularity = Field(
        default="example", description="where the absolute value of the gradient is taken"
    )
    normalize: Normalization = Field(
        default="none", description="layer: scale the scores of every layer to norm 1"
    )
    batch_size: PositiveInt = Field(default=32, description="examples per batch")


class DissociationSettings(Settings):
    """[dissociation]: scores with heads switched off."""

    alpha: PositiveShare = Field(
        default=USUAL_ALPHA, description="share of the heads to switch off"
    )
    curve: list[PositiveShare] = Field(
        default_factory=list, description="further shares to measure, for a curve"
    )
    draws: Draws = Field(default=20, description="random choices of heads, for the test")
    resamples: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        default=2000, description="bootstrap resamples of the examples, for the intervals"
    )
    redraws: Draws | None = Field(
        default=None,
        description="choices of heads by redrawn examples; default: 5 if draws >= 20",
    )
    exchanges: Draws | None = Field(
        default=None,
        description="random assignments of heads; default: what p(D) needs if draws >= 20",
    )

    @field_validator("redraws")
    @classmethod
    def _several(cls, redraws: int | None) -> int | None:
        if redraws == 1:
            raise ValueError("one redraw has no spread: expected 0, or 2 or more")
        return redraws


class CalibrationSettings(Settings):
    """[calibrate]: the rules by which a trained model answers."""

    examples: PositiveInt = Field(default=1000, description="examples per task and split, at most")
