"""Settings of a model: `[model]` of a configuration, the keywords of `from_pretrained`, and the
names that everything around a model shares.

Imports no torch, so that configurations load fast.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, model_validator

from brodmann.data.schema import PositiveFloat, PositiveInt, Settings, Share, checked
from brodmann.errors import InputError

SHORTEST = 8  # tokens: the special ones and a few words
EVALUATION_BATCH = 64  # default number of items per batch where nothing is trained
AUTO_TARGETS = "auto"
DEVICES = r"auto|cpu|mps|(cuda|xpu)(:\d+)?"  # pattern of their names
OWN = "own"  # a resolved pooling: that of the family's own head

Attention = Literal["eager", "sdpa", "flash_attention_2", "flex_attention"]
Gates = Literal["trained", "mask"]
Granularity = Literal["example", "token"]
NewHead = Literal["new", "like"]
Pooling = Literal["auto", "pooler", "first", "mean"]
Precision = Literal["float32", "bf16", "auto"]
Projections = Literal["all", "qkv"]
Start = Literal["random", "xavier"]

GATES: tuple[str, ...] = get_args(Gates)
NEW_HEADS: tuple[str, ...] = get_args(NewHead)
PRECISIONS: tuple[str, ...] = get_args(Precision)
STARTS: tuple[str, ...] = get_args(Start)  # starts of a new task, besides another task

USUAL_START: Start = "random"
USUAL_HEAD: NewHead = "new"


class LoraSettings(Settings):
    """[model] lora: train low-rank updates of a frozen backbone."""

    r: PositiveInt = Field(default=8, description="rank of the update of each projection")
    alpha: PositiveFloat = Field(default=16.0, description="the update is scaled by alpha / r")
    dropout: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.0, description="dropout of what the adapter reads"
    )
    targets: Literal["auto"] | Annotated[list[str], Field(min_length=1)] = Field(
        default="auto", description="names of linear maps; auto: those of queries and values"
    )
    per: Literal["all", "task"] = Field(
        default="all", description="one adapter for all tasks, or one per task"
    )

    @property
    def architecture(self) -> str:
        return "lora" if self.per == "all" else "task_lora"


class ModelSettings(Settings):
    """[model]"""

    backbone: str = Field(
        default="builtin:minilm", description="hub id, folder, builtin:minilm or builtin:tiny"
    )
    architecture: str = Field(default="shared", description="how tasks share the encoder")
    parameters: dict[str, Any] = Field(
        default_factory=dict, description="parameters of the architecture"
    )
    lora: LoraSettings | None = Field(
        default=None, description="short for the architectures lora and task_lora"
    )
    freeze: Literal["encoder"] | Share = Field(
        default=0.0,
        description="share of the layers, from the bottom, to freeze; encoder: all of them",
    )
    output_heads: Literal["fitted"] | None = Field(
        default=None,
        description='"fitted": fit to convergence instead of training; needs freeze = "encoder"',
    )
    max_length: Annotated[int, Field(ge=SHORTEST, le=10**9)] = Field(
        default=128, description="tokens per text; longer texts are cut or read in windows"
    )
    stride: Annotated[int, Field(ge=0, le=10**9)] = Field(
        default=32, description="tokens that neighbouring windows of a long text share"
    )
    dropout: Annotated[float, Field(ge=0, lt=1)] | None = Field(
        default=None, description="dropout everywhere in the backbone; default: its own"
    )
    attention: Attention | None = Field(
        default=None, description="implementation of attention; default: transformers' choice"
    )
    gates: Gates | None = Field(
        default=None, description="trained gates, or a mask, on attention heads"
    )
    pooling: Pooling = Field(default="auto", description="the vector that represents a text")

    @model_validator(mode="after")
    def _resolve_lora(self) -> Self:
        """Write `lora` as an architecture with parameters, which is all that others read."""
        lora = self.lora
        if lora is None:
            return self
        if self.parameters:
            raise ValueError("lora and parameters: both are parameters of one architecture")
        usual = type(self).model_fields["architecture"].default
        if self.architecture not in (usual, lora.architecture):
            raise ValueError(
                f"architecture = '{self.architecture}' cannot be combined with lora: leave one out"
            )
        given = lora.model_dump(exclude={"per"}, exclude_unset=True)
        resolved = {"lora": None, "architecture": lora.architecture, "parameters": given}
        vars(self).update(resolved)  # the settings are frozen for everyone else
        self.model_fields_set.difference_update({"lora"})
        self.model_fields_set.update({"architecture", "parameters"})
        return self


@dataclass
class Blueprint:
    """Everything needed to build the same model again, besides its weights and tasks."""

    backbone: str
    architecture: str
    parameters: dict[str, Any]
    max_length: int
    stride: int
    attention: str | None
    freeze: float | str
    seed: int
    gates: str = ""  # empty: none, as in models saved by earlier versions
    pooling: str = OWN  # resolved; older models read as their family's head does

    @classmethod
    def of(cls, settings: ModelSettings, *, pooling: str, seed: int) -> Self:
        return cls(
            backbone=settings.backbone,
            architecture=settings.architecture,
            parameters=settings.parameters,
            max_length=settings.max_length,
            stride=settings.stride,
            attention=settings.attention,
            freeze=settings.freeze,
            seed=seed,
            gates=settings.gates or "",
            pooling=pooling,
        )


def check_length(settings: Blueprint, limit: int) -> None:
    """Raise InputError for lengths that the backbone cannot read."""
    lengths = {"max_length": settings.max_length, "stride": settings.stride}
    checked(ModelSettings, lengths, settings.backbone)
    if settings.max_length > limit:
        raise InputError(
            f"max_length = {settings.max_length}: {settings.backbone} reads at most {limit} tokens"
        )
