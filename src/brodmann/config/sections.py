"""Tables that only a configuration has: what to run on which tasks, and how often.

The settings of methods are declared beside the methods. A table that mixes both inherits the
method's settings; Python lists the last base's keys first.
"""

from typing import Annotated, Any, Literal, get_args

from pydantic import ConfigDict, Field, field_validator

from brodmann.data.schema import PositiveFloat, PositiveInt, PositiveShare, Section, Seed, Share
from brodmann.models.model_settings import USUAL_HEAD, USUAL_START, NewHead
from brodmann.results import USUAL_ALPHA
from brodmann.training.meta.meta_settings import Meta
from brodmann.training.method_settings import DistillationSettings

Arm = Literal[
    "single",
    "multi",
    "iat",
    "random",
    "ticket_share",
    "prune",
    "random_only",
    "off_least",
    "off_random",
    "off_least_tuned",
    "off_least_ticket_share",
]
OtherStart = Literal["pretrained", "multitask"]  # what meta-training is compared with


def _check_distinct(values: list[Any]) -> None:
    if len(set(values)) < len(values):
        raise ValueError("one occurs twice")


class ReportSection(Section):
    """[report]: what the page shows of the validation examples."""

    mistakes: bool = Field(
        default=True,
        description="store and show what the model gets wrong; off in the cells of a grid",
    )
    texts: bool = Field(
        default=True, description="false: keep texts off the page and out of mistakes.json"
    )


class OffSection(Section):
    """[off]: heads switched off before the first step, chosen by the map of a trained run."""

    by: str = Field(description="run folder with a map of heads")
    order: Literal["least", "random"] = Field(  # `brodmann prune` also takes "top"
        "least", description="which heads: the least important, or random ones"
    )
    alpha: Share = Field(
        USUAL_ALPHA, description="share of the heads, by all tasks' importance together"
    )
    start: bool = Field(
        True, description="start from that run's weights; false: the pretrained ones"
    )
    train: bool = Field(True, description="false: only switch the heads off and score")


class TransferSection(Section):
    """[transfer]: few-shot transfer from trained models to the run's tasks."""

    starts: dict[str, str] = Field(min_length=1, description="name → run folder or backbone")
    examples: list[PositiveInt] = Field(
        [4, 16, 32, 100], description="numbers of training examples, in total, balanced"
    )
    shares: list[PositiveShare] = Field(
        default_factory=list, description="shares of the training data, with its label proportions"
    )
    seeds: PositiveInt | list[PositiveInt] = Field(
        30, description="trainings per amount, or one number for each amount"
    )
    epochs: PositiveInt = Field(20, description="passes over the few examples")
    learning_rate: PositiveFloat = Field(2e-5, description="peak learning rate of every training")


class TeacherAndStudent(Section):
    """The two models of a distillation."""

    teacher: str = Field(
        description="run or model folder ({seed} is this run's seed), or a grid with such a run"
    )
    student: dict[str, Any] | str = Field(
        min_length=1,
        description="sizes, e.g. { num_hidden_layers = 3 }, or a checkpoint: hub id, folder, run",
    )


class DistillSection(DistillationSettings, TeacherAndStudent):
    """[distill]: a small student trained from a trained run."""


class AdaptSection(Section):
    """[adapt]: new tasks for a trained model."""

    start: str = Field(description="run or model folder")
    like: str | dict[str, str] = Field(
        USUAL_START,
        description="a task of that model, random or xavier; or a table: new task → start",
    )
    head: NewHead = Field(
        USUAL_HEAD, description="output heads: new ones, or copies of the start's"
    )
    frozen: bool = Field(
        False, description="train only parameters that belong to the new tasks alone"
    )
    free: bool | None = Field(
        None, description="train everything, including what the start had frozen"
    )
    shares: list[PositiveShare] | None = Field(
        None, min_length=1, description="shares of the new tasks' training data, one training each"
    )
    train: bool = Field(True, description="false: zero-shot scores only")

    @field_validator("shares")
    @classmethod
    def _distinct(cls, values: list[float] | None) -> list[float] | None:
        _check_distinct(values or [])
        return values


class UnseenTasks(Section):
    """The tasks that meta-training does not see."""

    unseen: list[str] = Field(min_length=1, description="tasks held out for the test")
    tuning: str | None = Field(None, description="a task outside both sets that chooses the rate")


class MetaSection(Meta, UnseenTasks):
    """[meta]: meta-learning over pairs of task and language."""

    off: Share = Field(0.0, description="share of the least important heads to switch off")
    off_before: Literal["testing", "training"] = Field(
        "testing", description="when these heads are switched off"
    )
    against: list[OtherStart] = Field(
        list(get_args(OtherStart)),
        description="starting models to compare the meta-trained one with",
    )
    seeds: PositiveInt = Field(3, description="number of meta-trainings")
    draws: PositiveInt = Field(20, description="support sets per unseen pair and seed")
    shots: list[PositiveInt] = Field(
        [16], min_length=1, description="sizes of the support sets of unseen pairs"
    )
    curve: list[Annotated[int, Field(ge=0, le=10**9)]] = Field(
        [0, 1, 3, 10], min_length=1, description="numbers of steps after which pairs are scored"
    )
    rates: list[PositiveFloat] = Field(
        [0.1], min_length=1, description="learning rates on unseen pairs; tuning chooses one"
    )


class StudySection(Section):
    """[study]: a kind of study without a section of its own; the other keys belong to the kind."""

    model_config = ConfigDict(extra="allow")
    kind: str = Field(description="name of the kind in STUDIES")


class CompareSection(Section):
    """[compare]: ways of training side by side."""

    arms: list[Arm] = Field(
        ["single", "multi", "iat"], min_length=2, description="ways of training to compare"
    )
    seeds: list[Seed] = Field(default_factory=list, description="default: the run's own seed")

    @field_validator("arms", "seeds")
    @classmethod
    def _distinct(cls, values: list[Any]) -> list[Any]:
        _check_distinct(values)
        return values


class GridSection(Section):
    """[grid]: many runs from one configuration; every combination of what is listed."""

    pairs: bool = Field(False, description="train every pair of tasks instead of all together")
    groups: list[list[str]] | None = Field(None, description="names of tasks trained together")
    cases: list[dict[str, Any]] = Field(
        default_factory=list,
        description='settings that change together, e.g. {"model.freeze" = 0.5}',
    )
    vary: dict[str, list[Any]] = Field(
        default_factory=dict, description="setting → its values, e.g. seed = [0, 1, 2]"
    )
    heads: bool = Field(True, description="map heads and measure dissociation; false: scores only")
