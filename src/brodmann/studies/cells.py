"""Turn a `[grid]` table into cells: every combination of groups of tasks, cases and settings.

Also finds cells that share their first steps.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brodmann.config import Config, set_value
from brodmann.data.catalogue import short_name
from brodmann.data.schema import checked
from brodmann.errors import InputError, did_you_mean
from brodmann.studies import Study, load_one_run, study_of
from brodmann.text import setting

CELLS = "cells"


@dataclass
class Cell:
    """One run of the grid."""

    label: str
    config: Config
    varied: dict[str, Any]  # how it differs from other cells, tasks included

    @property
    def fingerprint(self) -> str:
        return self.config.fingerprint()

    @property
    def study(self) -> Study:
        """The study that runs it: distillation, adaptation or ordinary training."""
        found = study_of(self.config)
        return found if found.in_grids else load_one_run()

    @property
    def command(self) -> str:
        return self.study.command

    @property
    def trains(self) -> bool:
        """Whether it is an ordinary run."""
        return self.study is load_one_run()


def cells_of(config: Config) -> list[Cell]:
    """Every combination of groups of tasks, cases and varied settings."""
    grid = config.grid
    if grid is None:
        raise InputError(
            "no [grid] table: add one, for example [grid] with vary = { seed = [0, 1, 2] }"
        )
    cells: list[Cell] = []
    for group in _groups(config):
        for case in grid.cases or [{}]:
            for values in itertools.product(*grid.vary.values()):
                varied = {**case, **dict(zip(grid.vary, values, strict=True))}
                cells.append(_cell(config, group, varied))
    if not cells:
        raise InputError("[grid]: describes no run (an empty list, or pairs of one task)")
    seen: dict[str, str] = {}
    for cell in cells:
        if cell.fingerprint in seen:
            raise InputError(
                f"[grid]: '{cell.label}' and '{seen[cell.fingerprint]}' are the same run "
                "(settings of measurements make no other run: for several shares use "
                "dissociation.curve)"
            )
        seen[cell.fingerprint] = cell.label
    return cells


def _groups(config: Config) -> list[list[str]]:
    assert config.grid is not None
    names = [task_name(task) for task in config.tasks]
    if config.grid.pairs and config.grid.groups is not None:
        raise InputError("[grid]: give pairs or groups, not both")
    keys = [*config.grid.vary, *(key for case in config.grid.cases for key in case)]
    numbered = next((key for key in keys if key.startswith("tasks.")), None)
    if numbered and (config.grid.pairs or config.grid.groups):
        raise InputError(
            f"[grid]: '{numbered}' is a position in tasks, which pairs and groups choose again"
        )
    if config.grid.pairs:
        return [list(pair) for pair in itertools.combinations(names, 2)]
    for group in config.grid.groups or []:
        for name in group:
            if name not in names:
                raise InputError(f"[grid]: no task '{name}'{did_you_mean(name, names)}")
        if len(set(group)) < len(group):
            raise InputError(f"[grid]: a task occurs twice in the group {'+'.join(group)}")
    return config.grid.groups or [names]


def task_name(task: Any) -> str:
    """Name of a task not read yet: a name, a description, or (inside `pair_of`) its values."""
    if isinstance(task, str):
        return short_name(task.removesuffix(".toml"))
    given = task if isinstance(task, dict) else vars(task)
    if given.get("name") is None and given.get("pair_of") is not None:
        return f"{task_name(given['pair_of'])}_pair"
    return str(given.get("name") or short_name(given.get("use") or ""))


def _cell(config: Config, group: list[str], varied: dict[str, Any]) -> Cell:
    values = config.resolved()
    for section in ("grid", "compare"):
        values.pop(section, None)
    values["report"] = {**values["report"], "mistakes": False}  # nobody reads those of many cells
    values["tasks"] = [task for task in config.given_tasks() if task_name(task) in group]
    for key, value in varied.items():
        set_value(values, key, value, f"{key}={value}")
    values |= {"output": str(Path(config.output) / CELLS), "name": "cell"}
    cell = checked(Config, values, "[grid]")
    cell.name = cell.fingerprint()
    settings = [f"{key.rpartition('.')[2]}={setting(value)}" for key, value in varied.items()]
    return Cell(" ".join(["+".join(group), *settings]), cell, {"tasks": group, **varied})


@dataclass(frozen=True)
class Branch:
    """Checkpoints that a cell keeps for others to continue from, or the run it continues from."""

    keep_at: tuple[float, ...] = ()  # last shares of the steps: a checkpoint before each
    start: Path | None = None  # run folder


def shared_beginnings(cells: Sequence[Cell]) -> dict[str, Branch]:
    """Find cells that are the same run until their heads specialize: one trains those steps.

    That is the plain cell or, without one, the cell that switches last.
    """
    alike: dict[str, list[Cell]] = {}
    for cell in cells:
        if not cell.trains:  # its checkpoints are in other folders
            continue
        plain = cell.config.model_copy(update={"specialize": None}).fingerprint()
        alike.setdefault(plain, []).append(cell)
    found: dict[str, Branch] = {}
    for group in alike.values():
        first = min(group, key=specialized_share)
        others = [cell for cell in group if cell is not first and 0 < specialized_share(cell) < 1]
        for cell in others:
            found[cell.fingerprint] = Branch(start=first.config.folder)
        if others:
            shares = tuple(sorted({specialized_share(cell) for cell in others}))
            found[first.fingerprint] = Branch(keep_at=shares)
    return found


def specialized_share(cell: Cell) -> float:
    """Last share of the steps that specializes heads: 0 never, 1 from the first step on."""
    special = cell.config.specialize
    return 0.0 if special is None or special.is_plain else special.share


def own_shares(cells: list[Cell]) -> list[float]:
    """Share of its training that each cell does itself: others may have done its first steps."""
    branches = shared_beginnings(cells)
    return [
        specialized_share(cell)
        if (branch := branches.get(cell.fingerprint)) is not None and branch.start is not None
        else 1.0
        for cell in cells
    ]
