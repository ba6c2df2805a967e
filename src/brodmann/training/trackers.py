"""Trackers: whatever Accelerate logs to, by its name, beside the run's own log.

Accelerate's registry says which names there are. TensorBoard, MLflow, Aim, trackio and Weights &
Biases write into the run folder and reach no network, unless the tool's own environment variable
(`MLFLOW_TRACKING_URI`, `WANDB_MODE`, `TRACKIO_SPACE_ID`, …) says otherwise. The other trackers
get nothing but names and values: where they write is up to them. A resumed run continues the same
run of its trackers; what identifies it there is in `trackers.json`.
"""

import contextlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from brodmann.errors import InputError, did_you_mean
from brodmann.files import read_json, write_json

PROJECT = "brodmann"
FILE = "trackers.json"
INSTALL = {"comet_ml": "comet-ml", "mlflow": "mlflow-skinny"}  # packages named unlike the tracker


@dataclass(frozen=True)
class Place:
    """How a tracker is told to write into a folder, and what identifies a run to it."""

    environment: Mapping[str, str] = field(default_factory=dict)  # only where nothing else is set
    options: Mapping[str, Any] = field(default_factory=dict)
    identity: Callable[[Any], str] | None = None  # of the tool's own run object
    resumes_by: str = ""  # option that takes this identity


def place_of(tracker: str, folder: Path, run: str) -> Place:
    """Where and how one tracker writes."""
    inside = str(folder.resolve() / tracker)
    if tracker == "mlflow":
        store = (folder.resolve() / tracker).as_uri()
        return Place(
            # A store of files needs no database; MLflow asks whether it is meant.
            {"MLFLOW_TRACKING_URI": store, "MLFLOW_ALLOW_FILE_STORE": "true"},
            {"run_name": run},
            lambda one: str(one.info.run_id),
            "run_id",
        )
    if tracker == "wandb":
        variables = ("WANDB_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR")
        return Place(
            {"WANDB_MODE": "offline", "WANDB_SILENT": "true", **dict.fromkeys(variables, inside)},
            # W&B reads the variables once per process; a second run needs its own folder.
            {"name": run, "resume": "allow", "dir": os.environ.get("WANDB_DIR", inside)},
            lambda one: str(one.id),
            "id",
        )
    if tracker == "trackio":
        return Place(
            {"TRACKIO_DIR": inside},
            {"name": run, "resume": "allow", "embed": False, "auto_log_cpu": False},
        )
    if tracker == "aim":
        quiet = {"system_tracking_interval": None, "capture_terminal_logs": False}
        return Place({}, quiet, lambda one: str(one.hash), "run_hash")
    return Place()


def check_trackers(trackers: Sequence[str]) -> None:
    """Raise InputError for a tracker that Accelerate does not know, or that is not installed."""
    if not trackers:
        return
    from accelerate.tracking import LOGGER_TYPE_TO_CLASS
    from accelerate.utils import LoggerType

    usual = {str(name) for name in LoggerType}
    for name in trackers:
        if name not in LOGGER_TYPE_TO_CLASS:
            known = ", ".join(LOGGER_TYPE_TO_CLASS)
            raise InputError(
                f"unknown tracker '{name}'{did_you_mean(name, LOGGER_TYPE_TO_CLASS)}: Accelerate "
                f"logs to {known}"
            )
        if name in usual and importlib.util.find_spec(name) is None:
            raise InputError(
                f"tracker '{name}' is not installed: pip install {INSTALL.get(name, name)}"
            )


@contextlib.contextmanager
def tracking(
    trackers: Sequence[str], folder: str | Path | None, settings: Mapping[str, Any], *, main: bool
) -> Iterator[Any]:
    """Yield a function `log(values, step)` that writes to the requested trackers, if any."""
    if not trackers:
        yield lambda values, step: None
        return
    from accelerate import Accelerator

    check_trackers(trackers)
    where = Path(folder or ".")
    run = where.resolve().name
    places = {name: place_of(name, where, run) for name in trackers}
    with _environment({k: v for place in places.values() for k, v in place.environment.items()}):
        if "trackio" in trackers:
            _forget_import("trackio")
        known = read_json(where / FILE) if (where / FILE).is_file() else {}
        # The loop has chosen the device: Accelerate takes no second choice.
        made = Accelerator(log_with=list(trackers), project_dir=str(where))
        options = {name: _options(place, known.get(name)) for name, place in places.items()}
        made.init_trackers(PROJECT, config=plain_values(settings), init_kwargs=options)
        if main and folder is not None:
            found = {
                name: place.identity(made.get_tracker(name, unwrap=True))
                for name, place in places.items()
                if place.identity is not None
            }
            if found:
                write_json(where / FILE, known | found)
        try:
            yield lambda values, step: made.log(values, step=step)
        finally:
            made.end_training()


def _options(place: Place, known: str | None) -> dict[str, Any]:
    return dict(place.options) | ({place.resumes_by: known} if known is not None else {})


def plain_values(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as trackers take them: tables flattened, lists as text, unset ones left out."""
    found: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            found |= {f"{key}.{name}": inner for name, inner in plain_values(value).items()}
        elif isinstance(value, int | float | str | bool):
            found[key] = value
        elif isinstance(value, list | tuple):
            found[key] = ", ".join(map(str, value))
    return found


@contextlib.contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """Set variables that are not set yet, and unset them afterwards."""
    new = [name for name in wanted if name not in os.environ]
    os.environ.update({name: wanted[name] for name in new})
    try:
        yield
    finally:
        for name in new:
            os.environ.pop(name, None)


def _forget_import(package: str) -> None:
    """Let a package that reads its folder on import read it again: every run has its own."""
    for name in [n for n in sys.modules if n == package or n.startswith(f"{package}.")]:
        del sys.modules[name]
