"""The configuration: one TOML file, checked completely before anything is loaded.

Settings of methods are declared beside the methods (`training/settings.py` and others), so that
configuration and Python share every default and check; settings that only a configuration has are
in `config/sections.py`. Only `pipeline` and the rooms above it see a whole configuration.
"""

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator

from brodmann.config.overrides import (
    RESULT_DOES_NOT_DEPEND_ON,
    Changes,
    apply_changes,
    apply_override,
    set_value,
)
from brodmann.config.sections import (
    AdaptSection,
    CompareSection,
    DistillSection,
    GridSection,
    MetaSection,
    OffSection,
    ReportSection,
    StudySection,
    TransferSection,
)
from brodmann.data.description import TaskDescription
from brodmann.data.kinds import KINDS
from brodmann.data.schema import Section, Seed, checked, parse_toml
from brodmann.data.sources.readers import ENDINGS
from brodmann.errors import InputError, did_you_mean
from brodmann.files import digest
from brodmann.measuring.measuring_settings import (
    CalibrationSettings,
    DissociationSettings,
    ImportanceSettings,
)
from brodmann.models.model_settings import DEVICES, ModelSettings
from brodmann.training.method_settings import IAT
from brodmann.training.settings import TrainingSettings

__all__ = [
    "RESULT_DOES_NOT_DEPEND_ON",
    "AdaptSection",
    "Changes",
    "CompareSection",
    "Config",
    "DistillSection",
    "GridSection",
    "MetaSection",
    "OffSection",
    "ReportSection",
    "StudySection",
    "TransferSection",
    "apply_changes",
    "apply_override",
    "checked_config",
    "load_config",
    "set_value",
    "to_toml",
]

LONGEST_NAME = 180  # bytes: file systems allow 255, and files beside the folder have longer names


class Config(Section):
    """All settings of a run."""

    name: str = Field(description="name of the run and of its folder")
    output: str = Field("runs", description="the run folder is output/name")
    seed: Seed = Field(0, description="seed of weights, batches and random heads")
    data_seed: Seed = Field(0, description="seed of data splits and samples")
    data_dir: str | None = Field(None, description="folder that relative data paths start from")
    device: str = Field(
        "auto", description="where models run: auto (the best one here), cpu, cuda, mps or xpu"
    )
    threads: Annotated[int, Field(gt=0, le=1024)] | None = Field(
        None, description="CPU threads; default: torch's choice"
    )
    trackers: list[str] = Field(
        default_factory=list, description="trackers to log to as well, e.g. tensorboard"
    )
    keep_checkpoints: bool = Field(
        False, description="true: keep optimizer states after the run (three times the model)"
    )
    tasks: list[str | TaskDescription] = Field(
        description="dataset names, files that describe tasks, or tables"
    )
    model: ModelSettings = Field(default_factory=ModelSettings, description="the network")
    training: TrainingSettings = Field(
        default_factory=TrainingSettings, description="how the model is trained"
    )
    specialize: IAT | None = Field(
        None, description="train the last steps along the map of heads (IAT)"
    )
    off: OffSection | None = Field(None, description="heads switched off from the start")
    map: ImportanceSettings = Field(
        default_factory=ImportanceSettings, description="how head importance is measured"
    )
    dissociation: DissociationSettings = Field(
        default_factory=DissociationSettings, description="how dissociation is measured"
    )
    calibrate: CalibrationSettings = Field(
        default_factory=CalibrationSettings, description="how the rules for answers are fitted"
    )
    report: ReportSection = Field(
        default_factory=ReportSection,
        description="what the page shows of validation examples",
    )
    grid: GridSection | None = Field(None, description="many runs: `brodmann grid`")
    compare: CompareSection | None = Field(
        None, description="ways of training side by side: `brodmann compare`"
    )
    transfer: TransferSection | None = Field(
        None, description="few-shot transfer: `brodmann transfer`"
    )
    distill: DistillSection | None = Field(
        None, description="a smaller student: `brodmann distill`"
    )
    adapt: AdaptSection | None = Field(
        None, description="new tasks for a trained model: `brodmann adapt`"
    )
    meta: MetaSection | None = Field(None, description="meta-learning: `brodmann meta`")
    study: StudySection | None = Field(None, description="any other kind of study")
    recipe: dict[str, Any] | None = Field(
        None, description="the paper's experiment that this configuration repeats"
    )

    @field_validator("name")
    @classmethod
    def _name_is_a_folder(cls, name: str) -> str:
        if not name or not all(c.isalnum() or c in "_-." for c in name) or name.startswith("."):
            raise ValueError("expected a folder name of letters, digits, '_', '-' and '.'")
        if len(name.encode()) > LONGEST_NAME:
            raise ValueError(f"expected a folder name of at most {LONGEST_NAME} bytes")
        return name

    @field_validator("device")
    @classmethod
    def _known_device(cls, device: str) -> str:
        if not re.fullmatch(DEVICES, device):
            raise ValueError("expected auto, cpu, cuda, cuda:1, mps or xpu")
        return device

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
        """Every setting with its value, as stored in the run folder.

        Unset settings are left out, and so is the model if it comes from a trained run.
        """
        exclude = {"recipe"}
        if self.adapt is not None and not self.model.model_fields_set:
            exclude.add("model")
        return self.model_dump(exclude_none=True, exclude_defaults=False, exclude=exclude)

    def given_tasks(self) -> list[Any]:
        """The tasks as they were written: names, or tables without defaults."""
        return [t if isinstance(t, str) else t.model_dump(exclude_unset=True) for t in self.tasks]

    def portable(self) -> dict[str, Any]:
        """All settings except paths on this machine."""
        return {k: v for k, v in self.resolved().items() if k not in ("output", "data_dir")}

    def fingerprint(self) -> str:
        """Digest of the settings that decide the result: not of output folder and trackers."""
        kept = {k: v for k, v in self.resolved().items() if k not in RESULT_DOES_NOT_DEPEND_ON}
        return digest(kept)


def load_config(path: Path, changes: Changes | None = None) -> tuple[Config, Path]:
    """The configuration and the folder that its relative data paths start from.

    `path` is a TOML file, or the folder of a run that has one.
    """
    folder = None
    if path.is_dir() and (path / "config.toml").is_file():
        folder, path = path, path / "config.toml"
    try:
        values = parse_toml(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        runs = [] if path.suffix else [run.parent.name for run in path.parent.glob("*/config.toml")]
        files = [other.name for other in path.parent.glob("*.toml")]
        near = did_you_mean(path.name, sorted([*files, *runs]))
        if "did you mean" in near:
            raise InputError(f"{path}: no such file{near}") from None
        raise InputError(
            f"{path}: no such file; `brodmann init` writes one to start from"
        ) from None
    except IsADirectoryError:
        files = sorted(str(file) for file in path.glob("*.toml"))
        if (path.parent / "config.toml").is_file():  # the model or an export inside a run
            files = [str(path.parent)]
        near = f"; did you mean '{files[0]}'?" if len(files) == 1 else ""
        raise InputError(f"{path}: is a folder without a run, expected a TOML file{near}") from None
    except ValueError as error:
        if path.name.lower().endswith(ENDINGS):
            raise InputError(
                f"{path}: is a data file, expected a configuration (TOML) that names it: `brodmann "
                "init` writes one to start from"
            ) from None
        raise InputError(f"{path}: not TOML: {error}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    apply_changes(values, changes)
    if folder is not None:  # even if the run folder was moved
        values |= {"output": str(folder.resolve().parent), "name": folder.resolve().name}
    return checked_config(values, str(path), path.parent)


def checked_config(values: dict[str, Any], source: str, beside: Path) -> tuple[Config, Path]:
    """Check settings; `source` names them in messages, and paths are relative to `beside`."""
    entries = values.get("tasks")
    if isinstance(entries, dict):
        raise InputError(f"{source}: [tasks] is a single table: write [[tasks]] before each task")
    for place, entry in enumerate(entries if isinstance(entries, list) else []):
        if isinstance(entry, dict):  # separately: inside a union its own error would be lost
            kind = checked(TaskDescription, entry, f"{source}: tasks[{place}]").kind
            if kind is not None and kind not in KINDS:
                known = did_you_mean(kind, KINDS)
                raise InputError(f"{source}: tasks[{place}]: unknown kind '{kind}'{known}")
    _check_varied(values.get("grid"), source)
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
    # Stored with the run, so that its config.toml finds the same files from anywhere.
    config.data_dir = str(base.resolve())
    return config, base


def _check_varied(grid: Any, source: str) -> None:
    """Raise InputError for a setting that is varied outside of `vary`."""
    for key, value in grid.items() if isinstance(grid, dict) else ():
        if isinstance(value, list) and key not in GridSection.model_fields:
            shown = f"vary = {{ {key} = {value!r:.40} }}"
            raise InputError(f"{source}: unknown key 'grid.{key}'; did you mean {shown}?")


def to_toml(values: dict[str, Any]) -> str:
    import tomli_w

    return tomli_w.dumps(values)
