"""The whole way from files to advice, resumable at any point.

Decisions depend on files and finished cells alone, so that an interrupted session that is run again
with the same budget, or a larger one, gives the answer that one session would have given.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from brodmann.advising.arrangements import Arrangement, CellKey, cells_of_arrangement
from brodmann.advising.cell_runs import Bench
from brodmann.advising.choosing import Choice, choose, signals
from brodmann.advising.costs import (
    EPOCHS,
    MOSTS,
    Plan,
    Purse,
    Speed,
    make_plan,
    measure_speed,
    probe_of,
    setup_of,
)
from brodmann.advising.data_parts import Parts, divide_tasks
from brodmann.advising.delivery import deliver
from brodmann.advising.given import READ_AGAIN, read_given
from brodmann.advising.health import examine_tasks
from brodmann.advising.label_curves import label_curves
from brodmann.advising.tasks_file import FILE, read_tasks, write_tasks
from brodmann.advising.trying import JOURNAL, TOLERANCE, Search, need_optuna
from brodmann.advising.verdicts import judge, own_scores
from brodmann.config import Config
from brodmann.data.task_cache import TaskCache
from brodmann.data.tasks import Task
from brodmann.errors import InputError
from brodmann.files import locked, read_json, write_json
from brodmann.models.model_settings import ModelSettings
from brodmann.training.defaults import AUTO, choose_epochs
from brodmann.training.events import Report

USUAL_BACKBONE = ModelSettings().backbone
ADVICE, PLAN, LOOKED = "advice.json", "plan.json", "looked.json"


def look_at(
    files: Sequence[Path], folder: Path, report: Report, *, backbone: str | None, seed: int | None
) -> tuple[Config, Parts, dict[str, Any]]:
    """Beliefs about the files, written for correction, or the corrected ones read again.

    Returns the configuration, the divided tasks and what was seen in them.
    """
    known = (folder / FILE).is_file()
    if not known:
        if not files:
            raise InputError(f"{folder}: no {FILE} in it: name the files with labelled rows")
        if folder.is_dir() and {p.name for p in folder.iterdir()} - {READ_AGAIN, LOOKED}:
            raise InputError(f"{folder} already holds other files: name another folder with --to")
        report("stage", {"text": "looking at the files"})
        given = read_given(files, folder)
        beliefs = {
            one.name: {
                **asdict(one.belief),
                "confidence": one.belief.confidence,
                "files": [path.name for path in one.paths.values()],
            }
            for one in given
        }
        write_json(
            folder / LOOKED,
            {"beliefs": beliefs, "files": sorted(str(path.resolve()) for path in files)},
        )
        write_tasks(given, folder, backbone=backbone or USUAL_BACKBONE, seed=seed or 0)
    elif files:
        before = read_json(folder / LOOKED, files=list)["files"]
        now = sorted(str(path.resolve()) for path in files)
        if before != now:
            raise InputError(
                f"{folder}: was made for other files ({', '.join(map(str, before[:3]))}): name "
                "another folder with --to, or leave the files out to continue it"
            )
    config = read_tasks(folder)
    _check_asked(folder / FILE, "model.backbone", backbone, config.model.backbone)
    _check_asked(folder / FILE, "seed", seed, config.seed)
    parts = divide_tasks(config, folder)
    health = examine_tasks(parts)
    looked = read_json(folder / LOOKED) if (folder / LOOKED).is_file() else {"beliefs": {}}
    document = {**health, "tasks": _rows(config, looked["beliefs"], health)}
    report("looked", {"result": document, "file": folder / FILE})
    return config, parts, document


def _check_asked(path: Path, key: str, asked: object, there: object) -> None:
    """Raise InputError for an option that the file contradicts."""
    if asked is not None and asked != there:
        raise InputError(f"{path}: {key} is {there!r} there, not {asked!r}: change it there")


def _rows(config: Config, beliefs: dict[str, Any], health: dict[str, Any]) -> dict[str, Any]:
    """What is believed about every task, and whether the user corrected it."""
    found = {}
    for task in config.given_tasks():
        name = task["name"]
        belief = beliefs.get(name, {})
        columns = {
            role: task[role] for role in belief.get("columns", {}) if task.get(role) is not None
        }
        same = belief.get("kind") == task["kind"] and columns == belief.get("columns")
        found[name] = {
            **health["tasks"][name],
            "columns": columns or {k: v for k, v in task.items() if k in _ROLES},
            "confidence": belief.get("confidence", "given") if same else "corrected",
            "reasons": list(belief.get("reasons", ())) if same else ["as tasks.toml says"],
            "others": list(belief.get("others", ())) if same else [],
        }
    return found


_ROLES = (
    "text",
    "text_pair",
    "label",
    "choices",
    "question",
    "context",
    "answer",
    "tokens",
    "tags",
)


def advise_on(
    files: Sequence[Path],
    folder: Path,
    report: Report,
    *,
    budget: float,
    backbone: str | None,
    seed: int | None,
    go_on: Callable[[Path], bool],
) -> dict[str, Any] | None:
    """Look, plan, try, choose, judge and deliver; None if `go_on` says to stop after looking."""
    need_optuna()
    config, parts, looked = look_at(files, folder, report, backbone=backbone, seed=seed)
    if not go_on(folder / FILE):
        return None
    with locked(folder):
        names = [name for name in parts.names if name not in looked["copies"]]
        tasks = [task for task in parts.tasks if task.name in names]
        speed, relations = measure_speed(_trainable(config, parts, folder), tasks, folder, report)
        plan = _planned(folder, config, speed, tasks, budget)
        bench = Bench(config, folder, parts, Purse(plan, speed), report, TaskCache())
        report("advice plan", {"plan": _plan_rows(plan, speed, names)})
        document = _decided(bench, names, looked, relations)
        document["looked"] = looked
        document["relations"] = relations
        document["plan"] = plan.document()
        write_json(folder / ADVICE, document)
    report("advised", {"result": document, "file": folder / ADVICE})
    return document


def _trainable(config: Config, parts: Parts, folder: Path) -> Config:
    """The configuration over the written parts."""
    values = config.resolved() | {"tasks": parts.descriptions, "data_dir": str(folder.resolve())}
    return Config.model_validate(values)


def _planned(
    folder: Path, config: Config, speed: Speed, tasks: Sequence[Task], budget: float
) -> Plan:
    """The plan; a folder keeps the epochs that its first session chose."""
    names = [task.name for task in tasks]
    largest = max(len(task.splits["train"]) for task in tasks)
    path = folder / PLAN
    mosts: tuple[int | None, ...] = MOSTS
    known = read_json(path) if path.is_file() else {}
    setup = setup_of(config, tasks)
    if known.get("setup") == setup:
        epochs: tuple[int, ...] = (known["epochs"],)
        mosts = (known["most"],)
    elif config.training.epochs != AUTO:
        epochs = (int(config.training.epochs),)
    else:
        most = choose_epochs(AUTO, largest // config.training.batch_size)
        epochs = tuple(count for count in EPOCHS if count <= most)
    plan = make_plan(speed, names, budget, epochs, mosts)
    write_json(path, {**plan.document(), "setup": setup})
    return plan


def _plan_rows(plan: Plan, speed: Speed, names: Sequence[str]) -> dict[str, Any]:
    """What is said before anything is trained."""

    def seconds(cells: Sequence[CellKey]) -> float:
        return sum(speed.seconds(cell, plan.epochs, plan.most) for cell in cells)

    rows = {"linear probes of all tasks": seconds([probe_of(names)])}
    rows["each task alone"] = seconds([CellKey((name,)) for name in names])
    if len(names) > 1:
        whole = Arrangement((tuple(names),))
        for method in ("plain", "ca_mtl"):
            one = Arrangement(whole.groups, method)
            rows[f"all together ({method})"] = seconds(cells_of_arrangement(one, 0))
    return {**plan.document(), "costs": rows}


def _cells(bench: Bench, choice: Choice) -> dict[str, dict[str, list[str]]]:
    """The runs behind every gain: names of folders in `cells/`, one per seed."""
    return {
        task: {
            "shared": [bench.run(choice.cell_of(task, k)).name for k in range(choice.seeds)],
            "alone": [bench.run(CellKey((task,), seed=k)).name for k in range(choice.seeds)],
        }
        for group in choice.shared
        for task in group
    }


def _decided(
    bench: Bench, names: list[str], looked: dict[str, Any], relations: dict[str, Any]
) -> dict[str, Any]:
    plan, folder = bench.purse.plan, bench.folder
    bench.run(probe_of(names))
    for name in names:
        bench.run(CellKey((name,)))
    signal = signals(bench, names)
    sharing = [name for name in names if signal[name].present]
    for seed in range(1, plan.seeds):
        for name in sharing:
            bench.run(CellKey((name,), seed=seed))
    attempts = []
    if len(sharing) > 1:
        attempts = Search(bench, sharing, relations["clusters"]).run(folder / JOURNAL)
    choice = choose(attempts, sharing, plan.seeds)
    final, verdict = judge(bench, choice, folder)
    curves = label_curves(bench, final, sharing)
    delivered = deliver(bench, final, sharing, bench.report)
    return {
        "tasks": names,
        "copies": looked["copies"],
        "without_signal": [name for name in names if name not in sharing],
        "signals": {name: asdict(one) for name, one in signal.items()},
        "trials": [attempt.document() for attempt in attempts],
        "choice": final.document(),
        "apart": final.apart,
        "cells": _cells(bench, choice),
        "verdict": verdict,
        "scores": own_scores(bench, names, final, signal),
        "curves": curves,
        "tolerance": TOLERANCE,
        "spent": bench.purse.spent,
        **delivered,
    }
