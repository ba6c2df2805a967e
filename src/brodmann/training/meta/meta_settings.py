"""Settings of meta-training (`training/meta/trainer.py`), for `[meta]` and `meta_train`."""

from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator

from brodmann.data.schema import PositiveFloat, PositiveInt, Settings

Algorithm = Literal["fomaml", "maml", "reptile"]
ALGORITHMS: tuple[str, ...] = get_args(Algorithm)


class Meta(Settings):
    """Settings of meta-training; sizes and rates are our choice, since the paper gives none."""

    algorithm: Algorithm = Field(default="fomaml", description="how the outer gradient is computed")
    steps: PositiveInt = Field(default=100, description="steps of the outer loop")
    pairs: PositiveInt = Field(default=4, description="pairs of task and language per step")
    support: PositiveInt = Field(default=16, description="examples per pair to adapt on")
    query: PositiveInt = Field(
        default=16, description="examples per pair to evaluate the adapted model on"
    )
    inner_steps: PositiveInt = Field(default=3, description="steps of adaptation per pair")
    inner_rate: PositiveFloat = Field(default=0.1, description="learning rate of the adaptation")
    outer_rate: PositiveFloat = Field(
        default=0.03, description="learning rate of the outer loop; must be below inner_rate"
    )
    # With momentum 0.9 and 72 heads, a gate can close within about 60 steps of this length.
    gate_rate: PositiveFloat = Field(
        default=0.05, description="step length of trained gates in the outer loop"
    )
    sparsity: Annotated[float, Field(ge=0)] = Field(
        default=0.0, description="weight in the outer loss of the share of open gates"
    )
    momentum: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.9, description="momentum of the outer steps"
    )
    clip: PositiveFloat | None = Field(
        default=1.0, description="largest allowed norm of the outer gradient"
    )

    @model_validator(mode="after")
    def _outer_below_inner(self) -> Self:
        if self.outer_rate >= self.inner_rate:
            raise ValueError(
                f"outer_rate = {self.outer_rate}: expected below inner_rate = {self.inner_rate}"
            )
        return self

    def examples(self) -> int:
        """Number of examples that meta-training reads, forward and backward."""
        return self.steps * self.pairs * (self.inner_steps * self.support + self.query)
