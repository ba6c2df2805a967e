"""The configuration: one TOML file, checked whole before anything is loaded.

Only `cli` and `pipeline` see these objects; methods take plain keyword arguments.
"""

import copy
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, field_validator

from brodmann.data.description import Section, TaskDescription, checked, parse_toml
from brodmann.data.sources.readers import ENDINGS
from brodmann.errors import InputError, did_you_mean
from brodmann.files import digest

PositiveInt = Annotated[int, Field(gt=0, le=10**9)]
LONGEST_NAME = 180  # bytes: file systems take 255, and files beside the folder have longer names
Share = Annotated[float, Field(ge=0, le=1)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]


class ModelSection(Section):
    """[model]"""

    backbone: str = Field("builtin:minilm", description="hub id, folder, or builtin:...")
    architecture: str = "shared"
    parameters: dict[str, Any] = Field(default_factory=dict)  # of the architecture
    freeze: Literal["encoder"] | Share = 0.0
    output_heads: Literal["fitted"] | None = Field(
        None, description='fitted to convergence instead of trained; needs freeze = "encoder"'
    )
    max_length: Annotated[int, Field(ge=16, le=10**9)] = 128
    stride: Annotated[int, Field(ge=0, le=10**9)] = 32
    dropout: Annotated[float, Field(ge=0, lt=1)] | None = None
    attention: Literal["eager", "sdpa", "flash_attention_2"] | None = None
    gates: Literal["trained", "mask"] | None = Field(None, description="on heads, saved with them")
    pooling: Literal["auto", "pooler", "first", "mean"] = Field(
        "auto", description="the vector that stands for a text"
    )


class TrainingSection(Section):
    """[training]"""

    epochs: Literal["auto"] | PositiveInt = Field(
        "auto", description="auto: 3 to 20, for about 300 steps"
    )
    max_steps: PositiveInt | None = None
    batch_size: PositiveInt = 32
    accumulation: PositiveInt = 1
    learning_rate: Literal["auto"] | Annotated[float, Field(gt=0)] = Field(
        "auto", description="auto: by the width of the encoder"
    )
    rates: dict[str, Annotated[float, Field(gt=0)]] = Field(
        default_factory=dict, description="of parts, e.g. { heads = 1e-3 }"
    )
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    optimizer: Literal["adamw", "sgd"] | None = Field(None, description="adamw if left out")
    momentum: Annotated[float, Field(ge=0, lt=1)] | None = Field(
        None, description="of sgd, 0.9 if left out"
    )
    warmup: Share = 0.1
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    clip: Annotated[float, Field(gt=0)] | None = 1.0
    precision: Literal["float32", "bf16", "auto"] = "auto"
    sampling: str = "proportional"
    sampling_parameters: dict[str, Any] = Field(default_factory=dict)
    sparsity: Annotated[float, Field(ge=0)] = Field(
        0.0, description="weight of the share of open gates in the loss"
    )
    aggregation: Literal["upgrad", "pcgrad", "cagrad", "mgda"] | None = None
    log_entropy: bool | None = Field(
        None, description="log how unsure the model is of each task, whatever the sampler"
    )
    bucketing: bool = True
    gradient_checkpointing: bool = False
    sharding: Literal["full"] | None = Field(
        None, description="full: weights, gradients and moments are split over the processes"
    )
    evaluate_every: PositiveInt | None = None
    evaluation_batch_size: PositiveInt = 64
    early_stopping: PositiveInt | None = None
    keep: Literal["best", "last"] = "best"
    checkpoint_every: PositiveInt | None = None
    checkpoints: PositiveInt = 2


class MapSection(Section):
    """[map]: head importance."""

    examples: PositiveInt | None = Field(1000, description="a task, drawn from its training data")
    estimator: Literal["gradient", "leave_one_out", "integrated_gradients", "iterative"] = (
        "gradient"
    )
    granularity: Literal["example", "token"] = "example"
    normalize: Literal["none", "layer"] = "none"
    batch_size: PositiveInt = 32


class DissociationSection(Section):
    """[dissociation]: scores with heads off."""

    alpha: Annotated[float, Field(gt=0, le=1)] = 0.3
    curve: list[Annotated[float, Field(gt=0, le=1)]] = Field(default_factory=list)
    draws: Annotated[int, Field(ge=0, le=10_000)] = Field(
        20, description="random choices, for the test"
    )
    resamples: Annotated[int, Field(ge=0, le=1_000_000)] = 2000
    redraws: Annotated[int, Field(ge=0, le=10_000)] | None = Field(
        None, description="choices by redrawn importance examples; default: 5 if draws >= 20"
    )
    exchanges: Annotated[int, Field(ge=0, le=10_000)] | None = Field(
        None, description="heads dealt at random; default: what p(D) needs if draws >= 20"
    )

    @field_validator("redraws")
    @classmethod
    def _several(cls, redraws: int | None) -> int | None:
        if redraws == 1:
            raise ValueError("one redraw has no spread: expected 0, or 2 or more")
        return redraws


class SpecializeSection(Section):
    """[specialize]: train the last steps along the map of heads (IAT)."""

    alpha: Share = Field(0.3, description="share of the heads that a task may move; 0: none")
    delta: Share = Field(0.1, description="of the steps, the last ones")
    variant: Literal["important", "random", "ticket_share", "prune"] = "important"
    examples: PositiveInt | None = 1000
    projections: Literal["all", "qkv"] = "all"
    strict: bool = True
    fitted: bool = Field(
        True, description="fit output heads before heads are chosen ahead of the first step"
    )


class OffSection(Section):
    """[off]: heads switched off before the first step, chosen by the map of a trained run."""

    by: str = Field(description="run folder with a map of heads")
    order: Literal["least", "random"] = "least"
    alpha: Share = Field(0.3, description="of the heads, of all tasks together")
    start: bool = Field(True, description="with that run's weights; false: the pretrained ones")
    train: bool = Field(True, description="false: only switched off and scored")


class TransferSection(Section):
    """[transfer]: from trained models to the run's tasks with few examples."""

    starts: dict[str, str] = Field(min_length=1, description="name → run folder or backbone")
    examples: list[PositiveInt] = Field([4, 16, 32, 100], description="in total, balanced")
    shares: list[Annotated[float, Field(gt=0, le=1)]] = Field(
        default_factory=list, description="of the training data, in proportion"
    )
    seeds: PositiveInt | list[PositiveInt] = Field(30, description="or one number an amount")
    epochs: PositiveInt = 20
    learning_rate: Annotated[float, Field(gt=0)] = 2e-5


class DistillSection(Section):
    """[distill]: a small student of a trained run."""

    teacher: str = Field(
        description="run or model folder ({seed} is this run's seed), or a grid with such a run"
    )
    student: dict[str, Any] | str = Field(
        min_length=1,
        description="sizes, e.g. { num_hidden_layers = 3 }, or a checkpoint: hub id, folder, run",
    )
    layer_epochs: PositiveInt = 2
    prediction_epochs: PositiveInt = 3
    temperature: Annotated[float, Field(gt=0)] = 1.0


class AdaptSection(Section):
    """[adapt]: new tasks for a trained model."""

    start: str = Field(description="run or model folder")
    like: str | dict[str, str] = Field(
        "random", description="a task of that model, random or xavier; or a table: new task → start"
    )
    head: Literal["new", "like"] = "new"
    frozen: bool = Field(False, description="train only what is the new tasks' own")
    free: bool | None = Field(None, description="train everything, also what the start had frozen")
    shares: list[Annotated[float, Field(gt=0, le=1)]] | None = Field(
        None, min_length=1, description="of the new tasks' training data, one training each"
    )
    train: bool = Field(True, description="false: zero-shot scores only")

    @field_validator("shares")
    @classmethod
    def _distinct(cls, values: list[float] | None) -> list[float] | None:
        if values is not None and len(set(values)) < len(values):
            raise ValueError("one stands twice")
        return values


class MetaSection(Section):
    """[meta]: meta-learning over pairs of task and language."""

    unseen: list[str] = Field(min_length=1, description="tasks kept for the test")
    tuning: str | None = Field(None, description="a task of neither side, to choose the rate by")
    algorithm: Literal["fomaml", "maml", "reptile"] = "fomaml"
    steps: PositiveInt = Field(100, description="of the outer loop")
    pairs: PositiveInt = Field(4, description="a step")
    support: PositiveInt = 16
    query: PositiveInt = 16
    inner_steps: PositiveInt = 3
    inner_rate: Annotated[float, Field(gt=0)] = 0.1
    outer_rate: Annotated[float, Field(gt=0)] = 0.03
    gate_rate: Annotated[float, Field(gt=0)] = Field(
        0.05, description="length of a step of trained gates"
    )
    sparsity: Annotated[float, Field(ge=0)] = Field(
        0.0, description="weight of the share of open gates in the outer loss"
    )
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    clip: Annotated[float, Field(gt=0)] | None = 1.0
    off: Share = Field(0.0, description="of the heads, the least important")
    off_before: Literal["testing", "training"] = "testing"
    against: list[Literal["pretrained", "multitask"]] = Field(["pretrained", "multitask"])
    seeds: PositiveInt = 3
    draws: PositiveInt = Field(20, description="support sets of an unseen pair, of every seed")
    shots: list[PositiveInt] = Field([16], min_length=1)
    curve: list[Annotated[int, Field(ge=0, le=10**9)]] = Field([0, 1, 3, 10], min_length=1)
    rates: list[Annotated[float, Field(gt=0)]] = Field([0.1], min_length=1)


class StudySection(Section):
    """[study]: a kind of study without a section of its own; further keys are that kind's."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)
    kind: str = Field(description="its name in STUDIES")


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


class CompareSection(Section):
    """[compare]: ways of training side by side."""

    arms: list[Arm] = Field(["single", "multi", "iat"], min_length=2)
    seeds: list[Seed] = Field(default_factory=list, description="default: the run's own seed")

    @field_validator("arms", "seeds")
    @classmethod
    def _distinct(cls, values: list[Any]) -> list[Any]:
        if len(set(values)) < len(values):
            raise ValueError("one stands twice")
        return values


class GridSection(Section):
    """[grid]: many runs from one configuration; every combination of what is listed."""

    pairs: bool = Field(False, description="every pair of the tasks instead of all together")
    groups: list[list[str]] | None = Field(None, description="names of tasks trained together")
    cases: list[dict[str, Any]] = Field(
        default_factory=list, description='settings that go together, e.g. {"model.freeze" = 0.5}'
    )
    vary: dict[str, list[Any]] = Field(
        default_factory=dict, description="setting → its values, e.g. seed = [0, 1, 2]"
    )
    heads: bool = Field(True, description="map heads and dissociate; false: scores only")


class Config(Section):
    """A whole run."""

    name: str
    output: str = Field("runs", description="the run folder is output/name")
    seed: Seed = 0
    data_seed: Seed = Field(0, description="divisions and draws of data")
    data_dir: str | None = Field(None, description="where relative data paths start")
    threads: Annotated[int, Field(gt=0, le=1024)] | None = Field(
        None, description="of the processor; default: torch's own"
    )
    trackers: list[str] = Field(default_factory=list)
    keep_checkpoints: bool = Field(
        False, description="true: a finished run keeps its optimizer states, three times the model"
    )
    tasks: list[str | TaskDescription]
    model: ModelSection = Field(default_factory=ModelSection.model_construct)
    training: TrainingSection = Field(default_factory=TrainingSection.model_construct)
    specialize: SpecializeSection | None = None
    off: OffSection | None = None
    map: MapSection = Field(default_factory=MapSection.model_construct)
    dissociation: DissociationSection = Field(default_factory=DissociationSection.model_construct)
    grid: GridSection | None = None
    compare: CompareSection | None = None
    transfer: TransferSection | None = None
    distill: DistillSection | None = None
    adapt: AdaptSection | None = None
    meta: MetaSection | None = None
    study: StudySection | None = None
    recipe: dict[str, Any] | None = Field(None, description="whose experiment this is")

    @field_validator("name")
    @classmethod
    def _name_is_a_folder(cls, name: str) -> str:
        if not name or not all(c.isalnum() or c in "_-." for c in name) or name.startswith("."):
            raise ValueError("expected a folder name of letters, digits, '_', '-' and '.'")
        if len(name.encode()) > LONGEST_NAME:
            raise ValueError(f"expected a folder name of at most {LONGEST_NAME} bytes")
        return name

    @field_validator("tasks")
    @classmethod
    def _some_task(cls, tasks: list[Any]) -> list[Any]:
        if not tasks:
            raise ValueError("expected at least one task")
        return tasks

    @property
    def folder(self) -> Path:
        return Path(self.output) / self.name

    def resolved(self) -> dict[str, Any]:
        """Every setting with its value, as stored in the run folder; without what is not set, and
        without a model where that of a trained run is taken."""
        exclude = {"recipe"}
        if self.adapt is not None and not self.model.model_fields_set:
            exclude.add("model")
        return self.model_dump(exclude_none=True, exclude_defaults=False, exclude=exclude)

    def given_tasks(self) -> list[Any]:
        """As they were written: names, or tables without what was left to its default."""
        return [t if isinstance(t, str) else t.model_dump(exclude_unset=True) for t in self.tasks]

    def portable(self) -> dict[str, Any]:
        """All settings but where things stand on this machine."""
        return {k: v for k, v in self.resolved().items() if k not in ("output", "data_dir")}

    def fingerprint(self) -> str:
        """Of what decides the result; where it is written and who watches do not."""
        kept = {k: v for k, v in self.resolved().items() if k not in RESULT_DOES_NOT_DEPEND_ON}
        return digest(kept)


# A trained model does not depend on what is measured afterwards, so measuring differently does not
# make another run: a measurement knows its own settings and is made again when they change.
RESULT_DOES_NOT_DEPEND_ON: tuple[str, ...] = ("name", "output", "data_dir", "trackers", "threads")
RESULT_DOES_NOT_DEPEND_ON += ("keep_checkpoints", "map", "dissociation", "grid", "compare")


def load_config(path: Path, overrides: list[str] | None = None) -> tuple[Config, Path]:
    """The configuration and the folder its relative data paths start from.

    `path` is a TOML file, or the folder of a run that has one.
    """
    folder = None
    if path.is_dir() and (path / "config.toml").is_file():
        folder, path = path, path / "config.toml"
    try:
        values = parse_toml(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        near = did_you_mean(path.name, sorted(other.name for other in path.parent.glob("*.toml")))
        if "did you mean" in near:
            raise InputError(f"{path}: no such file{near}") from None
        raise InputError(
            f"{path}: no such file; `brodmann init` writes one to start from"
        ) from None
    except IsADirectoryError:
        raise InputError(f"{path}: is a folder without a run, expected a TOML file") from None
    except ValueError as error:
        if path.name.lower().endswith(ENDINGS):
            raise InputError(
                f"{path}: is a data file, expected a configuration (TOML) that names it: `brodmann "
                "init` writes one to start from"
            ) from None
        raise InputError(f"{path}: not TOML: {error}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    for override in overrides or []:
        apply_override(values, override)
    if folder is not None:  # wherever it was moved to
        values |= {"output": str(folder.resolve().parent), "name": folder.resolve().name}
    return checked_config(values, str(path), path.parent)


def checked_config(values: dict[str, Any], source: str, beside: Path) -> tuple[Config, Path]:
    """Settings, named in messages by where they come from, with paths beside a folder."""
    entries = values.get("tasks")
    for place, entry in enumerate(entries if isinstance(entries, list) else []):
        if isinstance(entry, dict):  # by itself: as part of a union its own problem would be lost
            checked(TaskDescription, entry, f"{source}: tasks[{place}]")
    config = checked(Config, values, source)
    if config.dissociation.redraws and config.map.estimator == "iterative":
        raise InputError(
            f"{source}: dissociation.redraws = {config.dissociation.redraws}: cannot be combined "
            "with map.estimator = 'iterative', which has no sums to redraw: set redraws = 0"
        )
    base = beside
    if config.data_dir is not None:
        base = beside / Path(config.data_dir).expanduser()
        if not base.is_dir():
            raise InputError(f"{source}: data_dir = '{config.data_dir}': no such folder")
    # Stored with the run, so that its own config.toml finds the same files from anywhere.
    config.data_dir = str(base.resolve())
    return config, base


def apply_override(values: dict[str, Any], override: str) -> None:
    """`training.epochs=1` sets values["training"]["epochs"]; `tasks.0.limit=100` reaches a list."""
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise InputError(f"--set {override}: expected key=value, for example training.epochs=1")
    try:
        value = parse_toml(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text  # a bare word is a string
    except ValueError as error:
        raise InputError(f"--set {override:.60}: {error}") from None
    if key == "data_dir":
        # Typed in a shell: relative to where one stands.
        value = str(Path(text.strip("\"'")).expanduser().resolve())
    set_value(values, key, value, override)


def set_value(values: dict[str, Any], key: str, value: Any, override: str) -> None:
    """Set a dotted key; `override` is what was written, for messages.

    A table or list is copied: the next key may reach into it, and it is somebody else's.
    """
    value = copy.deepcopy(value)
    *path, last = key.split(".")
    if not all((*path, last)):
        raise InputError(
            f"--set {override}: '{key}' is not a key, expected for example training.epochs"
        )
    place: Any = values
    for part in path:
        place = (
            _element(place, part, override)
            if isinstance(place, list)
            else place.setdefault(part, {})
        )
        if not isinstance(place, dict | list):
            raise InputError(f"--set {override}: '{part}' is not a table")
    if isinstance(place, list):
        _element(place, last, override)
        place[int(last)] = value
    else:
        place[last] = value


def _element(place: list[Any], part: str, override: str) -> Any:
    if not part.isdecimal() or int(part) >= len(place):
        raise InputError(f"--set {override}: '{part}' is not one of the {len(place)} entries")
    element = place[int(part)]
    if isinstance(element, str):  # a task given by name alone becomes a table that can be added to
        element = place[int(part)] = {"use": element}
    return element


def to_toml(values: dict[str, Any]) -> str:
    import tomli_w

    return tomli_w.dumps(values)
