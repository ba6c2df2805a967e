"""Compare finished runs, and test whether their difference is more than chance."""

import re
from pathlib import Path
from typing import Any

from brodmann.analysis.comparison import Run, compare
from brodmann.config import RESULT_DOES_NOT_DEPEND_ON
from brodmann.data.schema import read_settings
from brodmann.data.tasks import TaskSpec
from brodmann.errors import InputError
from brodmann.files import read_arrays, read_json, write_json
from brodmann.pipeline.evaluate import OUTCOMES
from brodmann.pipeline.run_folder import MACHINE
from brodmann.results import Dissociation, mean_dissociation
from brodmann.text import reasons
from brodmann.training.events import Report

FILE = "comparison.json"


def compare_runs(
    arms: dict[str, list[Path]],
    report: Report,
    *,
    baseline: str | None = None,
    to: Path | None = None,
) -> dict[str, Any]:
    """Compare arms, lists of run folders with one per seed; the first is the default baseline."""
    if len(arms) < 2:
        raise InputError(
            "compare needs at least two arms (runs that differ only in seed are one arm)"
        )
    runs = {arm: [read_run(folder) for folder in folders] for arm, folders in arms.items()}
    _check_data(arms)
    result = compare(runs, baseline=baseline or next(iter(arms)))
    result |= _origin([folder for folders in arms.values() for folder in folders])
    if to is not None:
        write_json(to / FILE, result)
    report("comparison", {"result": result, "file": None if to is None else to / FILE})
    return result


def read_run(folder: Path) -> Run:
    """Read a run that was trained and evaluated."""
    for name, command in (("model/config.json", "train"), (OUTCOMES, "evaluate")):
        if not (folder / name).is_file():
            raise InputError(f"{folder}: {name} is missing: run `brodmann {command} {folder}`")
    described = read_json(folder / "model" / "config.json", tasks=list)["tasks"]
    stored = read_arrays(folder / OUTCOMES)
    specs = [TaskSpec.from_dict(values) for values in described]
    specs = [s for s in specs if f"validation|{s.name}" in stored]  # adapted: only new tasks
    outcomes = {spec.name: stored[f"validation|{spec.name}"] for spec in specs}
    found, undefined = None, ""
    if (folder / "dissociation.json").is_file():
        measured = Dissociation.load(folder / "dissociation.json")
        found = mean_dissociation(vars(measured))
        undefined = "" if found is not None else reasons(measured.undefined)
    settings = read_settings(folder / "config.toml")
    seed = int(settings.get("seed", 0))
    named = {spec.name: spec for spec in specs}
    return Run(folder.name, seed, named, outcomes, found, undefined)


def _check_data(arms: dict[str, list[Path]]) -> None:
    """Raise InputError if the arms' data differ: a paired test needs the same examples."""
    first: dict[str, str] | None = None
    for folder in [folder for folders in arms.values() for folder in folders]:
        data = read_json(folder / "provenance.json", data=dict)["data"]
        prints = {name: entry["fingerprint"] for name, entry in data.items()}
        if first is None:
            first = prints
        for name, fingerprint in prints.items():
            if first.get(name, fingerprint) != fingerprint:
                raise InputError(f"{folder}: the data of task '{name}' differ from the other runs'")


def _origin(folders: list[Path]) -> dict[str, Any]:
    """How the runs were made: the settings they share, and every machine."""
    settings = [read_settings(folder / "config.toml") for folder in folders]
    first = {k: v for k, v in settings[0].items() if k not in RESULT_DOES_NOT_DEPEND_ON}
    alike = {k: v for k, v in first.items() if all(one.get(k) == v for one in settings)}
    machines: list[dict[str, Any]] = []
    for folder in folders:
        for sitting in read_json(folder / "provenance.json", sittings=list)["sittings"]:
            told = {key: sitting[key] for key in MACHINE if key in sitting}
            if told not in machines:
                machines.append(told)
    return {"configuration": alike, "machines": machines}


def grouped(folders: list[Path]) -> dict[str, list[Path]]:
    """Group runs that differ only in seed into arms, named after their first run."""
    arms: dict[str, list[Path]] = {}
    keys: dict[str, str] = {}
    for folder in folders:
        path = folder / "config.toml"
        if not path.is_file():
            raise InputError(f"{folder}: not a run (config.toml is missing)")
        settings = read_settings(path)
        left_out = ("seed", *RESULT_DOES_NOT_DEPEND_ON)
        key = repr(sorted((k, v) for k, v in settings.items() if k not in left_out))
        if key not in keys:
            short = re.sub(r"-seed\d+$", "", folder.name)
            names = (short, folder.name, str(folder))
            keys[key] = next(name for name in names if name not in keys.values())
        name = keys[key]
        if folder in arms.setdefault(name, []):
            raise InputError(f"{folder}: named twice")
        arms[name].append(folder)
    return arms
