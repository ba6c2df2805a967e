"""Many runs from one configuration, one after the other or (an engine) elsewhere.

A `[grid]` table becomes cells, each an ordinary run whose folder is named by the fingerprint of
its configuration: `output/cells/<fingerprint>`. So nothing is trained twice, not even by two
grids; what is finished is skipped; a cell that fails is shown and does not stop the rest; and an
interrupted study goes on where it was. Cells that differ only in how they specialize (plain and
IAT, or several δ) share their first steps. One small JSON a cell in `output/name/` holds its
numbers.
"""

import itertools
import shutil
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brodmann.analysis.statistics import mean_and_spread
from brodmann.artifacts import locked, read_json, read_lines, write_json, write_text
from brodmann.config import Config, set_value, to_toml
from brodmann.data.catalogue import short_name
from brodmann.data.description import checked
from brodmann.errors import BrodmannError, InputError, Interrupted, did_you_mean
from brodmann.pipeline import dissociate
from brodmann.pipeline.run import run
from brodmann.pipeline.run_folder import machine_of, only_relevance
from brodmann.pipeline.train import tasks_of

CELLS = "cells"


@dataclass
class Cell:
    """One run of the grid."""

    label: str
    config: Config
    varied: dict[str, Any]  # what sets it apart, tasks included

    @property
    def fingerprint(self) -> str:
        return self.config.fingerprint()


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
        raise InputError("[grid]: makes no run at all (an empty list, or pairs of one task)")
    seen: dict[str, str] = {}
    for cell in cells:
        if cell.fingerprint in seen:
            raise InputError(
                f"[grid]: '{cell.label}' and '{seen[cell.fingerprint]}' are the same run (what is "
                "measured afterwards makes no other run: for several shares use dissociation.curve)"
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
        raise InputError(f"[grid]: '{numbered}' counts tasks, which pairs and groups choose anew")
    if config.grid.pairs:
        return [list(pair) for pair in itertools.combinations(names, 2)]
    for group in config.grid.groups or []:
        for name in group:
            if name not in names:
                raise InputError(f"[grid]: no task '{name}'{did_you_mean(name, names)}")
        if len(set(group)) < len(group):
            raise InputError(f"[grid]: a task stands twice in the group {'+'.join(group)}")
    return config.grid.groups or [names]


def task_name(task: Any) -> str:
    """Of a task that is not read yet: a name, a description, or (inside `pair_of`) its values."""
    if isinstance(task, str):
        return short_name(task.removesuffix(".toml"))
    given = task if isinstance(task, dict) else vars(task)
    if given.get("name") is None and given.get("pair_of") is not None:
        return f"{task_name(given['pair_of'])}_pair"
    return str(given.get("name") or short_name(given.get("use") or ""))


def _cell(config: Config, group: list[str], varied: dict[str, Any]) -> Cell:
    values = config.resolved()
    values.pop("grid", None)
    values["tasks"] = [
        task if isinstance(task, str) else task.model_dump(exclude_unset=True)
        for task in config.tasks
        if task_name(task) in group
    ]
    for key, value in varied.items():
        set_value(values, key, value, f"{key}={value}")
    values |= {"output": str(Path(config.output) / CELLS), "name": "cell"}
    cell = checked(Config, values, "[grid]")
    cell.name = cell.fingerprint()
    settings = [f"{key.rpartition('.')[2]}={_short(value)}" for key, value in varied.items()]
    return Cell(" ".join(["+".join(group), *settings]), cell, {"tasks": group, **varied})


def _short(value: Any) -> str:
    """A table of settings as key=value pairs."""
    if isinstance(value, dict):
        return "(" + ", ".join(f"{key}={inner}" for key, inner in value.items()) + ")"
    return str(value)


def run_grid(
    config: Config,
    base: Path,
    report: Callable[[str, dict[str, Any]], None],
    *,
    engine: "Engine | None" = None,
    retries: int = 0,
) -> Any:
    """Run what is not finished; the summary of all cells.

    `engine` runs cells elsewhere; cells that fail are tried again so many times. A backbone or a
    task that cannot be read is said before anything runs or is written.
    """
    from brodmann.models.backbone import check_backbone

    cells = cells_of(config)
    folder = config.folder
    own = (folder / "grid.toml").is_file() or only_relevance(folder)
    if (folder / "config.toml").is_file() and not own:
        raise InputError(f"{folder}: holds a run: give the grid another name")
    assert config.grid is not None
    heads = config.grid.heads
    for backbone in dict.fromkeys(cell.config.model.backbone for cell in cells):
        check_backbone(backbone)
    data = [_data_fingerprints(cell.config, base) for cell in cells]  # says what cannot be read
    with locked(folder):
        write_text(folder / "grid.toml", to_toml(config.resolved()))
        branches = shared_beginnings(cells)
        waiting: list[Work] = []
        for number, cell in enumerate(cells):
            branch = branches.get(cell.fingerprint, Branch())
            work = Work(cell, number, len(cells), folder, base, heads, data[number], branch)
            if _finished(work):
                facts = {"number": number, "cells": len(cells), "cell": cell, "state": "there"}
                report("cell", facts)
            else:
                waiting.append(work)
        for _ in range(1 + retries):
            # Those that others start from come first; on many machines the others wait for them.
            for wave in (True, False):
                now = [work for work in waiting if (work.branch.start is None) is wave]
                if now:
                    (engine or in_order)(now, report)
            waiting = [work for work in waiting if not _finished(work)]
            if not waiting:
                break
        else:
            branches = {}  # who failed may be tried again from there
        for branch in branches.values():
            if branch.start is not None:
                shutil.rmtree(branch.start / "checkpoints" / "branch", ignore_errors=True)
        summary = summarised(folder, cells)
        write_json(folder / "grid.json", summary)
        report("grid", {"summary": summary, "folder": folder})
        return summary


@dataclass(frozen=True)
class Branch:
    """What a cell keeps for others to go on from, or whose steps it goes on from."""

    keep_at: tuple[float, ...] = ()  # last shares of the steps: a checkpoint before each
    start: Path | None = None  # run folder


def shared_beginnings(cells: Sequence[Cell]) -> dict[str, Branch]:
    """Cells that are the same run until their heads specialize: one of them trains those steps.

    That is the plain one, or else the one that switches last.
    """
    alike: dict[str, list[Cell]] = {}
    for cell in cells:
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
    """Of the steps, the last ones: 0 never specializes, 1 does from the first step on."""
    from brodmann.training.iat import IAT

    if cell.config.specialize is None:
        return 0.0
    special = IAT(**cell.config.specialize.model_dump())
    return 0.0 if special.is_plain else special.share


@dataclass
class Work:
    """A cell that is still to be run, with all that it takes; its result goes to `path`."""

    cell: Cell
    number: int
    cells: int
    folder: Path
    base: Path
    heads: bool
    data: dict[str, str]
    branch: Branch = Branch()

    @property
    def path(self) -> Path:
        return self.folder / f"{self.cell.fingerprint}.json"

    def finish(self, report: Any) -> dict[str, Any]:
        """Run it and write what it gave, whole or not at all."""
        result = {**_run_cell(self, report), "data": self.data}
        write_json(self.path, result)
        return result

    def give_up(self, reason: str, report: Any) -> None:
        """Whoever ran it cannot say why it failed."""
        result = {**_failed(_facts_of(self.cell), reason, report), "data": self.data}
        write_json(self.path, result)

    def facts(self, state: str, expected: float | None = None) -> dict[str, Any]:
        facts = {"number": self.number, "cells": self.cells, "cell": self.cell, "state": state}
        return {**facts, "expected": expected}

    def step(self) -> tuple[int, int] | None:
        """(step, steps) of its training, as far as its log says; None before it begins."""
        entries = read_lines(self.cell.config.folder / "log.jsonl")
        steps = next((entry["steps"] for entry in entries if "start" in entry), None)
        return None if steps is None else (max(e.get("step", 0) for e in entries), steps)


Engine = Callable[[list[Work], Any], None]


def in_order(waiting: list[Work], report: Any) -> None:
    """One after the other, in this process."""
    began = time.monotonic()
    for done, work in enumerate(waiting):
        seconds = time.monotonic() - began
        expected = seconds / done * (len(waiting) - done) if done else None
        report("cell", work.facts("starts", expected))
        work.finish(report)


def _run_cell(work: Work, report: Any) -> dict[str, Any]:
    cell, branch = work.cell, work.branch
    facts = _facts_of(cell)
    from brodmann.training.checkpoint import clear_checkpoints

    try:
        result = run(
            cell.config,
            work.base,
            report,
            heads=work.heads,
            branch_at=branch.keep_at,
            branch_from=branch.start,
        )
    except (KeyboardInterrupt, Interrupted):
        raise
    except BrodmannError as error:
        return _failed(facts, str(error), report)
    except Exception as error:  # a cell's failure is its own: kept whole, shown short
        facts["traceback"] = traceback.format_exc()
        return _failed(facts, f"{type(error).__name__}: {error}", report)
    clear_checkpoints(cell.config.folder)  # many cells would fill the disk with them
    keep = {"splits", "dissociation", "parameters"}
    return {
        **facts,
        "state": "done",
        "heads": work.heads,
        **{key: value for key, value in result.items() if key in keep},
        "configuration": cell.config.portable(),
        "provenance": machine_of(cell.config),
    }


def _facts_of(cell: Cell) -> dict[str, Any]:
    return {
        "label": cell.label,
        "fingerprint": cell.fingerprint,
        "varied": cell.varied,
        "request": dissociate.requested(cell.config),
    }


def _failed(facts: dict[str, Any], reason: str, report: Any) -> dict[str, Any]:
    report("cell failed", {"label": facts["label"], "reason": " ".join(reason.split())})
    return {**facts, "state": "failed", "error": " ".join(reason.split())}


def _data_fingerprints(config: Config, base: Path) -> dict[str, str]:
    """Of the tasks as they are now."""
    return {task.name: task.fingerprint() for task in tasks_of(config, base)}


def _finished(work: Work) -> bool:
    """Whether its result is there, of the same data and with all that is asked for now."""
    if not work.path.is_file():
        return False
    document = read_json(work.path)
    same = document.get("request") == dissociate.requested(work.cell.config)
    same = same and document.get("data") == work.data
    mapped = document.get("heads", True) or not work.heads
    return bool(document.get("state") == "done" and same and mapped)


def summarised(folder: Path, cells: list[Cell]) -> dict[str, Any]:
    """All cells, and the mean and spread over those that differ in their seed alone."""
    rows = [read_json(folder / f"{cell.fingerprint}.json") for cell in cells]
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        apart = {key: value for key, value in row["varied"].items() if key != "seed"}
        key = " ".join(["+".join(apart.pop("tasks")), *(f"{k}={v}" for k, v in apart.items())])
        groups.setdefault(key, []).append(row)
    over_seeds = {key: _over_seeds(list(members)) for key, members in groups.items()}
    return {
        "cells": [{k: v for k, v in row.items() if k != "schema_version"} for row in rows],
        "over_seeds": {key: value for key, value in over_seeds.items() if value is not None},
        "failed": [row["label"] for row in rows if row["state"] == "failed"],
    }


def _over_seeds(rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Seeds are trained models, not draws."""
    found = [row["dissociation"] for row in rows if row.get("dissociation")]
    done = [row for row in found if not row["undefined"]]  # a mean over fewer tasks is another one
    if len(done) < 2:
        return None
    tasks = done[0]["tasks"]

    def over(values: Iterator[float | None]) -> list[float | None] | None:
        defined = [value for value in values if value is not None]
        return list(mean_and_spread(defined)) if defined else None

    return {
        "seeds": len(done),
        "left_out": len(found) - len(done),
        "undertrained": sorted({name for row in done for name in row["undertrained"]}),
        "tasks": tasks,
        "base": [over(row["base"][i] for row in done) for i in range(len(tasks))],
        "per_task": [over(row["per_task"][i] for row in done) for i in range(len(tasks))],
        "mean": over(row["mean"] for row in done),
    }
