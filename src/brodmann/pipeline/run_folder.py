"""Open a run folder: check which run it belongs to, read it, and lock it against other writers."""

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from brodmann import files
from brodmann.analysis.difficulty import task_difficulty
from brodmann.config import RESULT_DOES_NOT_DEPEND_ON, Config, to_toml
from brodmann.data.schema import read_settings
from brodmann.data.tasks import Task
from brodmann.errors import BrodmannError, InputError
from brodmann.provenance import peak_of_process, provenance

ROWS = "data"  # folder of the rows of tasks that were given in memory
MACHINE = ("versions", "processor", "cores", "device", "precision")


@contextlib.contextmanager
def in_threads(count: int | None) -> Iterator[None]:
    """Set torch's number of threads inside the block (None: unchanged); restore it afterwards."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(before if count is None else count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def opened(
    config: Config, tasks: list[Task], *, main: bool = True, keep: bool = False
) -> Iterator[Path]:
    """Lock and yield the run folder of this configuration, new or to be continued.

    With `keep`, the stored configuration stays: measuring one stage with other settings (`--set`)
    does not change the run's own. A folder that only holds relevances is not a run yet and takes
    the configuration that opens it.
    """
    folder = config.folder
    with contextlib.ExitStack() as stack:
        stack.enter_context(in_threads(config.threads))
        if not main:  # the main process checks and locks for all of them
            _agree(folder, None)
            yield folder
            return
        try:
            check_folder(config, tasks)
            stack.enter_context(files.locked(folder))
            if not keep or not (folder / "config.toml").is_file() or only_relevance(folder):
                files.write_text(folder / "config.toml", to_toml(config.resolved()))
            record_provenance(folder, config, tasks)
        except BrodmannError as error:
            _agree(folder, str(error))
            raise
        _agree(folder, None)
        yield folder


def _agree(folder: Path, problem: str | None) -> None:
    """Stop all processes if the first one has a problem with the folder or if they do not see the
    same folder: each would train from what it sees, and the numbers would mean nothing.
    """
    from brodmann.training.processes import everyones

    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        return
    first, *_ = everyones(problem, world)
    if first is not None:
        raise InputError(first)
    path = folder / "provenance.json"
    seen = everyones(files.digest(path.read_bytes()) if path.is_file() else None, world)
    if len(set(seen)) > 1:
        raise InputError(
            f"{folder}: is not the same folder for all {world} processes: set 'output' to a disk "
            "that their machines share"
        )


def trained(config: Config) -> None:
    """Raise InputError, with what to do, unless the run has a trained model and its device."""
    from brodmann.models.backbone.devices import choose_device
    from brodmann.models.saving import is_model_folder, model_damage

    choose_device(config.device)  # raises if it is not there
    place = config.folder / "model"
    if not is_model_folder(place):
        raise InputError(f"{config.folder}: no trained model in it: run `brodmann train` first")
    if damage := model_damage(place):
        raise InputError(
            f"{place}: {damage}: `brodmann run` rebuilds the model if a checkpoint is left"
        )


def trained_model(folder: str, device: str) -> Any:
    """The model of a run or model folder that a configuration names as a start."""
    from brodmann.models.multitask import MultiTaskModel
    from brodmann.models.saving import is_model_folder

    path = Path(folder)
    if not is_model_folder(path) and not is_model_folder(path / "model"):
        raise InputError(f"{path}: no trained model in it: run `brodmann train` first")
    return MultiTaskModel.from_pretrained(path, device=device)


def only_relevance(folder: Path) -> bool:
    """Whether the folder holds only relevances (and their reports) rather than a run.

    Relevances depend on the tasks, not on how a model is trained; pair trainings store their
    settings.
    """
    beside = {".lock", ROWS, "config.toml", "provenance.json", "report.html", "figures"}
    found = {path.name for path in folder.iterdir()} - beside if folder.is_dir() else set()
    return bool(found) and all(fnmatch(name, "relevance-*.json") for name in found)


def check_output(config: Config) -> None:
    """Raise InputError before reading data or model if the run folder cannot be written."""
    folder = config.folder.absolute()
    place = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if not place.is_dir():
        raise InputError(
            f"output = '{config.output}': {place} is a file, so {config.folder} cannot be a "
            "folder: set another 'output' or name"
        )
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        raise InputError(
            f"output = '{config.output}': {place} cannot be written ({error.strerror}): set "
            "another 'output', or fix its permissions"
        ) from None


def check_strangers(folder: Path) -> None:
    """Raise InputError if a folder that is not a run yet contains unrelated files."""
    known = (".lock", ROWS)
    inside = sorted(folder.iterdir()) if folder.is_dir() else []
    for path in inside:
        if path.name not in known and not files.is_leftover(path):
            raise InputError(
                f"{folder} already holds other files ({path.name}) and is not a run: choose "
                "another name or output"
            )


def check_folder(config: Config, tasks: list[Task]) -> None:
    """Raise InputError if the folder belongs to another run or contains unrelated files."""
    folder = config.folder
    stored = folder / "config.toml"
    if not stored.is_file():
        if folder.is_file():
            raise InputError(f"{folder}: is a file, expected a run folder or nothing")
        check_strangers(folder)
        return
    different = _differences(read_settings(stored), config.resolved())
    if only_relevance(folder):
        different = [one for one in different if one[0].partition(".")[0] == "tasks"]
    if different:
        key, old, new = different[0]
        raise InputError(
            f"{folder}: belongs to another run ({key} is {old!r:.40} in it, {new!r:.40} here): "
            "set another name, or remove the folder"
        )
    if (folder / "provenance.json").is_file():
        before = files.read_json(folder / "provenance.json", data=dict)["data"]
        for task in tasks:
            if (before.get(task.name) or {}).get("fingerprint") != task.fingerprint():
                raise InputError(
                    f"{folder}: the data of task '{task.name}' have changed since this run began: "
                    "set another name, or restore the data"
                )


def _differences(there: dict[Any, Any], here: dict[Any, Any], prefix: str = "") -> list[Any]:
    found: list[Any] = []
    for key in sorted({*there, *here}):
        if not prefix and key in RESULT_DOES_NOT_DEPEND_ON:
            continue
        old, new = there.get(key), here.get(key)
        if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
            old, new = dict(enumerate(old)), dict(enumerate(new))
        if isinstance(old, dict) and isinstance(new, dict):
            found += _differences(old, new, f"{prefix}{key}.")
        elif old != new:
            found.append((f"{prefix}{key}", old, new))
    return found


@contextlib.contextmanager
def timed(folder: Path, stage: str) -> Iterator[None]:
    """Log the time of a stage; an interrupted stage gets one line per attempt."""
    from brodmann.training.processes import is_main

    began = time.monotonic()

    def note() -> None:
        if is_main():
            seconds = round(time.monotonic() - began, 3)
            entry = {"stage": stage, "seconds": seconds, "memory": peak_of_process()}
            files.append_lines(folder / "log.jsonl", [entry])

    try:
        yield
    except BaseException:
        with contextlib.suppress(
            OSError, InputError
        ):  # a full disk may have stopped it: report that error
            note()
        raise
    note()


def machine_of(config: Config) -> dict[str, Any]:
    """The setup behind a stored number: versions, hardware, number format."""
    about = {**provenance(), **_computed_on(config)}
    return {key: about[key] for key in MACHINE if key in about}


def _computed_on(config: Config) -> dict[str, str]:
    """The device and number format that the configuration means on this machine."""
    from brodmann.models.backbone.devices import choose_device
    from brodmann.models.backbone.precision import computed_in

    device = choose_device(config.device)
    return {"device": device.type, "precision": computed_in(config.training.precision, device)}


def record_provenance(folder: Path, config: Config, tasks: list[Task]) -> None:
    """Record versions, hardware and data: one entry per session."""
    path = folder / "provenance.json"
    known = files.read_json(path, data=dict, sittings=list) if path.is_file() else {}
    data = {
        task.name: {
            "fingerprint": task.fingerprint(),
            "sizes": task.sizes,
            "source": task.spec.source,
            "generated": task.spec.generated,
            "language": task.spec.language,
            "head": task.spec.output_head,
            "named": task.spec.named,
            "notes": task.notes,
            "difficulty": _difficulty(task, known.get("data", {}).get(task.name, {})),
        }
        for task in tasks
    }
    sittings = known.get("sittings", [])
    document = {
        "seed": config.seed,
        "data_seed": config.data_seed,
        "fingerprint": config.fingerprint(),
        "data": data,
        "sittings": [*sittings, {**provenance(), **_computed_on(config)}],
    }
    files.write_json(path, document)


def _difficulty(task: Task, known: dict[str, Any]) -> float | None:
    """Difficulty of the task's data, computed once, since it does not change during a run."""
    if "difficulty" in known:
        found: float | None = known["difficulty"]
        return found
    return task_difficulty(task)
