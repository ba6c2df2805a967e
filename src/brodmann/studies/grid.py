"""Run many configurations from one, one after the other or, with an engine, elsewhere.

A `[grid]` table becomes cells, each an ordinary run whose folder is named by the fingerprint of its
configuration: `output/cells/<fingerprint>`. So nothing is trained twice, even by two grids;
finished cells are skipped; a cell that fails is shown and does not stop the rest; and an
interrupted study resumes. Cells that differ only in how they specialize (plain and IAT, or several
δ) share their first steps. One small JSON file per cell in `output/name/` holds its numbers.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from brodmann.analysis.seed_groups import differences, over_seeds
from brodmann.config import Config, to_toml
from brodmann.data.task_cache import TaskCache
from brodmann.errors import InputError
from brodmann.files import locked, read_json, write_json, write_text
from brodmann.pipeline.run import one_process
from brodmann.pipeline.run_folder import only_relevance
from brodmann.pipeline.train import check_methods, tasks_of
from brodmann.studies import Study
from brodmann.studies.cells import Branch, Cell, cells_of, own_shares, shared_beginnings
from brodmann.studies.plan.counting import Counted, Run, count_runs
from brodmann.studies.plan.many import plan_many
from brodmann.studies.work import Engine, Execute, Watch, Work, in_order
from brodmann.training.events import Report


def run_grid(
    config: Config,
    base: Path,
    report: Report,
    *,
    engine: Engine | None = None,
    retries: int = 0,
    cache: TaskCache | None = None,
) -> Any:
    """Run the unfinished cells and return the summary of all cells.

    `engine` runs cells elsewhere; failed cells are retried `retries` times. Invalid methods,
    backbones, tasks and engines are reported before anything runs or is written. Cells with the
    same tasks read them once, or not at all if `cache` holds them.
    """
    from brodmann.models.backbone.load import check_backbone
    from brodmann.training.checkpoints.checkpoint import clear_branches

    one_process("grid", trains=True)
    cells = cells_of(config)
    folder = config.folder
    own = (folder / "grid.toml").is_file() or only_relevance(folder)
    if (folder / "config.toml").is_file() and not own:
        raise InputError(f"{folder}: contains a run: give the grid another name")
    for cell in cells:
        check_methods(cell.config, cell.command)
    trained = [cell for cell in cells if cell.trains]  # others have a model already
    for backbone in dict.fromkeys(cell.config.model.backbone for cell in trained):
        check_backbone(backbone)
    branches = shared_beginnings(cells)
    works = _works(config, cells, base, branches, cache or TaskCache())
    waiting = [work for work in works if not work.is_finished()]
    with contextlib.ExitStack() as stack:
        execute = stack.enter_context((engine or in_order)(report)) if waiting else None
        stack.enter_context(locked(folder))
        write_text(folder / "grid.toml", to_toml(config.resolved()))
        left = {work.number for work in waiting}
        for work in works:
            if work.number not in left:
                report("cell", work.facts("there"))
        for _ in range(1 + retries):
            if execute is not None and waiting:
                _execute_all(execute, waiting)
                waiting = [work for work in waiting if not work.is_finished()]
        if not waiting:  # failed cells may be retried from there
            for branch in branches.values():
                if branch.start is not None:
                    clear_branches(branch.start)
        summary = summarised(folder, cells)
        write_json(folder / "grid.json", summary)
        report("grid", {"summary": summary, "folder": folder})
        return summary


def _works(
    config: Config, cells: list[Cell], base: Path, branches: dict[str, Branch], cache: TaskCache
) -> list[Work]:
    """One piece of work per cell; InputError if its data cannot be read."""
    assert config.grid is not None
    heads, folder = config.grid.heads, config.folder
    works = []
    with cache.keeping_tables():
        for number, cell in enumerate(cells):
            data = _data_fingerprints(cell.config, base, cache)
            cell.study.read_ahead(cell.config, cache)
            branch = branches.get(cell.fingerprint, Branch())
            works.append(Work(cell, number, len(cells), folder, base, heads, data, branch, cache))
    return works


def _execute_all(execute: Execute, works: list[Work]) -> None:
    """Run cells that others start from first; with an engine, the others wait for them."""
    watch = Watch(works)
    for wave in (True, False):
        now = [work for work in works if (work.branch.start is None) is wave]
        if now:
            execute(now, watch)


def _data_fingerprints(config: Config, base: Path, cache: TaskCache) -> dict[str, str]:
    """Fingerprints of the tasks' current data."""
    return {task.name: task.fingerprint() for task in tasks_of(config, base, cache)}


def summarised(folder: Path, cells: list[Cell]) -> dict[str, Any]:
    """All cells, mean and spread over those that differ only in their seed, and the paired
    differences between such groups."""
    rows = [read_json(folder / f"{cell.fingerprint}.json") for cell in cells]
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        apart = {key: value for key, value in row["varied"].items() if key != "seed"}
        key = " ".join(["+".join(apart.pop("tasks")), *(f"{k}={v}" for k, v in apart.items())])
        groups.setdefault(key, []).append(row)
    found = {key: over_seeds(members) for key, members in groups.items()}
    return {
        "cells": [{k: v for k, v in row.items() if k != "schema_version"} for row in rows],
        "over_seeds": {key: value for key, value in found.items() if value is not None},
        "differences": differences(groups),
        "failed": [row["label"] for row in rows if row["state"] == "failed"],
    }


def done_cells(folder: Path) -> list[dict[str, Any]]:
    """The finished cells of a grid."""
    return [cell for cell in read_json(folder / "grid.json")["cells"] if cell["state"] == "done"]


class Grid(Study):
    command = "grid"

    def run(self, config: Config, base: Path, report: Report, **options: Any) -> dict[str, Any]:
        summary: dict[str, Any] = run_grid(config, base, report, **options)
        return summary

    def runs(self, config: Config) -> dict[str, Config]:
        return {cell.label: cell.config for cell in cells_of(config)}

    def read_more(self, config: Config, result: dict[str, Any]) -> dict[str, Any]:
        return {"output": config.output}

    def is_done(self, config: Config) -> bool:
        return (config.folder / "grid.json").is_file() and bool(done_cells(config.folder))

    def move_starts(self, values: dict[str, Any], moved: Callable[[str], str]) -> None:
        for case in values["grid"].get("cases", ()):  # students of other recipes' models
            if "distill.teacher" in case:
                case["distill.teacher"] = moved(case["distill.teacher"])

    def check_plan(self, config: Config) -> None:
        for cell in cells_of(config):
            cell.study.check_plan(cell.config)

    def plan(
        self, config: Config, base: Path, report: Report, *, speed: float | None, heads: bool
    ) -> dict[str, Any]:
        cells = cells_of(config)
        return plan_many(
            config,
            base,
            report,
            _planned(config, cells),
            [cell.config for cell in cells],
            speed=speed,
            branches=sum(len(branch.keep_at) for branch in shared_beginnings(cells).values()),
        )

    def count(self, config: Config, start: Config | None) -> Counted:
        cells = cells_of(config)
        if not all(cell.trains for cell in cells):
            return _count_studies(config, cells, start)
        return count_runs(config, _planned(config, cells))


def _planned(config: Config, cells: list[Cell]) -> list[Run]:
    assert config.grid is not None
    heads = config.grid.heads
    return [(c.label, c.config, heads, s) for c, s in zip(cells, own_shares(cells), strict=True)]


def _count_studies(config: Config, cells: list[Cell], start: Config | None) -> Counted:
    """Count cells that are adaptations or students rather than runs."""
    counted = [cell.study.count(cell.config, start) for cell in cells]
    return Counted(
        config if start is None else config.model_copy(update={"model": start.model}),
        [run for one in counted for run in one.runs],
        sum(one.trainings for one in counted),
        sum(one.operations for one in counted),
        sum(one.tokens for one in counted),
    )


STUDY = Grid()
