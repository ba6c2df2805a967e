"""Plans of one run, of a grid or comparison of many, or of the papers' recipes, before anything
runs."""

from pathlib import Path
from typing import Any

from brodmann.arms import FROM_THE_START, OFF, VARIANTS, arm_config
from brodmann.artifacts import digest
from brodmann.config import Config, MetaSection, SpecializeSection
from brodmann.errors import InputError, did_you_mean
from brodmann.estimate import (
    RunEstimate,
    estimate_run,
    few_shot_operations,
    meta_operations,
    read_to_meta_train,
    sized,
    tournament_operations,
)
from brodmann.grid import Cell, cells_of, shared_beginnings, specialized_share
from brodmann.pipeline.plan import check_speed, measured, plan, stored
from brodmann.recipes import PAPERS, Recipe, find, index, recipes
from brodmann.relations import pairs_grid
from brodmann.reproduce import configured


def make_plan(
    config: Config, base: Path, report: Any, *, speed: float | None = None
) -> dict[str, Any]:
    """What the configuration's command will take; of a finished run, what it took beside it."""
    check_speed(speed)
    if config.meta is not None:
        raise InputError(_no_plan_of(config.meta))
    if config.grid is not None:
        cells = cells_of(config)
        shares = own_shares(cells)
        heads = config.grid.heads
        runs = [(c.label, c.config, heads, share) for c, share in zip(cells, shares, strict=True)]
        return _of_many(config, base, report, runs, speed)
    if config.compare is not None:
        return _of_many(config, base, report, _arms(config), speed)
    before = stored(config)
    if before is not None and before["took"] is not None and speed is None:
        report("plan", {"plan": before, "file": None})
        return before
    return plan(config, base, report, speed=speed)


def _no_plan_of(section: MetaSection) -> str:
    training = read_to_meta_train(section)
    twice = " and as many for plain training" if "multitask" in section.against else ""
    return (
        f"[meta]: `plan` does not know `brodmann meta`; each of its {section.seeds} seeds reads "
        f"{training:,} examples to meta-train{twice}"
    )


def _arms(config: Config) -> list[tuple[str, Config, bool, float]]:
    """(label, configuration, whether heads are mapped, share of a whole training)."""
    assert config.compare is not None
    special = config.specialize or SpecializeSection.model_construct()
    found = []
    for seed in config.compare.seeds or [config.seed]:
        for arm in config.compare.arms:
            shared = arm in VARIANTS and "multi" in config.compare.arms
            only_off = arm in OFF and arm not in FROM_THE_START and not OFF[arm].get("train", True)
            share = special.delta if shared else 0.0 if only_off else 1.0
            settings = arm_config(config, arm, seed)
            settings = settings.model_copy(update={"off": None, "specialize": None})
            heads = arm != "single" and arm not in OFF
            found.append((f"{arm}, seed {seed}", settings, heads, share))
    return found


def _of_many(
    config: Config,
    base: Path,
    report: Any,
    runs: list[tuple[str, Config, bool, float]],
    speed: float | None,
) -> dict[str, Any]:
    """Runs that differ in the seed alone are measured once."""
    known: dict[str, dict[str, Any]] = {}
    cells, total, operations = [], 0.0, 0.0
    for label, settings, heads, share in runs:
        kept = {k: v for k, v in settings.resolved().items() if k not in ("seed", "name", "output")}
        key = digest(kept, heads)
        if key not in known:
            known[key] = measured(settings, base, report, heads=heads)
        found = known[key]
        count = sum(v * (share if k == "training" else 1) for k, v in found["operations"].items())
        seconds = sum(v * (share if k == "training" else 1) for k, v in found["seconds"].items())
        if speed is not None:
            seconds = count / speed
        total, operations = total + seconds, operations + count
        cells.append({"label": label, "seconds": seconds, "operations": count})
    result = {
        "name": config.name,
        "runs": len(cells),
        "calibrated": len(known),
        "cells": cells,
        "seconds": total,
        "operations": operations,
        "memory": max(found["memory"]["process"] for found in known.values()),
    }
    report("plan of many", {"plan": result})
    return result


def recipes_named(name: str) -> list[Recipe]:
    """One recipe, that of a table or figure, or all of a paper."""
    of_paper = [
        recipe
        for recipe in recipes()
        if recipe.paper.lower() == name.lower()
        and (recipe.at_paper_scale or recipe.needs)  # some are ours alone, on generated text
    ]
    if of_paper:
        return of_paper
    try:
        return [find(name)[0]]
    except InputError:
        papers = [paper.lower() for paper in PAPERS]
        known = [*papers, *(recipe.name for recipe in recipes()), *index()]
        raise InputError(
            f"{name}: no such file, recipe or paper{did_you_mean(name, known)}"
        ) from None


def estimate_recipes(
    names: list[Recipe], report: Any, *, scale: str, speed: float | None
) -> dict[str, Any]:
    """What the recipes would take, by counting alone; a cell that two grids share counts once."""
    check_speed(speed)
    known: set[str] = set()
    rows: list[dict[str, Any]] = []
    assumed: set[str] = set()
    for recipe in names:
        config, _ = configured(recipe, scale, Path("runs"), [])
        runs, more, trainings = _runs_of(recipe, config, scale)
        alone = sum(run.total + run.first_steps for run in runs) + more
        taken = more
        again = 0
        for run in runs:
            if config.grid is not None and run.fingerprint in known:
                again += 1
                continue
            taken += run.total
            if config.grid is not None:
                known.add(run.fingerprint)
        assumed |= {task for run in runs for task in run.assumed}
        if not runs:
            each = (sized(task, config.model.max_length) for task in config.tasks)
            assumed |= {task.name for task in each if task.assumed}
        rows.append(
            {
                "recipe": recipe.name,
                "paper": recipe.paper,
                "backbone": config.model.backbone,
                "runs": len(runs) + trainings,
                "there": again,
                "steps": sum(run.steps for run in runs),
                "tokens": sum(run.tokens for run in runs),
                "parameters": max((run.parameters for run in runs), default=0),
                "memory": max((run.memory for run in runs), default=0.0),
                "operations_alone": alone,
                "operations": taken,
                "hours_alone": None if speed is None else alone / speed / 3600,
                "hours": None if speed is None else taken / speed / 3600,
            }
        )
    result = {
        "scale": scale,
        "speed": speed,
        "recipes": rows,
        "assumed": sorted(assumed),
        **{
            key: None if key.startswith("hours") and speed is None else sum(r[key] for r in rows)
            for key in ("runs", "there", "operations_alone", "operations", "hours_alone", "hours")
        },
    }
    report("estimate", {"estimate": result})
    return result


def _runs_of(recipe: Recipe, config: Config, scale: str) -> tuple[list[RunEstimate], float, int]:
    """(runs, operations of what is no run, how many small trainings that is)."""
    if config.adapt is not None:
        return _adapted(recipe, config, scale)
    if config.transfer is not None:
        trainings, operations = few_shot_operations(config)
        return [], operations, trainings
    if config.meta is not None:
        trainings, operations = meta_operations(config)
        return [], operations, trainings
    if "pairs" in recipe.relate:
        tasks = [
            task if isinstance(task, str) else task.model_dump(exclude_unset=True)
            for task in config.tasks
        ]
        cells = cells_of(pairs_grid(config, tasks))
        return [estimate_run(cell.label, cell.config, heads=False) for cell in cells], 0.0, 0
    if config.compare is not None:
        return (
            [
                estimate_run(label, settings, heads=heads, share=share)
                for label, settings, heads, share in _arms(config)
            ],
            0.0,
            0,
        )
    if config.grid is None:
        more = tournament_operations(config) if "ahp" in recipe.relate else 0.0
        return [estimate_run(config.name, config, heads=not recipe.relate)], more, 0
    cells, heads = cells_of(config), config.grid.heads
    return (
        [
            estimate_run(cell.label, cell.config, heads=heads, share=share)
            for cell, share in zip(cells, own_shares(cells), strict=True)
        ],
        0.0,
        0,
    )


def _adapted(recipe: Recipe, config: Config, scale: str) -> tuple[list[RunEstimate], float, int]:
    """New tasks: scored from every start (the known tasks, random, xavier), then one training with
    all of the data and one for every smaller share of it, with the model of the needed recipe."""
    section = config.adapt
    assert section is not None
    start = configured(find(recipe.needs[0])[0], scale, Path("runs"), [])[0]
    config = config.model_copy(update={"model": start.model})
    run = estimate_run(config.name, config, heads=False)
    smaller = sorted(section.shares or [1.0])[:-1]
    again = sum(share * run.operations["training"] for share in smaller)
    scored = (len(start.tasks) + 2) * run.operations["evaluation"]
    return [run], again + scored, len(smaller)


def own_shares(cells: list[Cell]) -> list[float]:
    """Of its training, what each cell does itself: others may have taken its first steps."""
    branches = shared_beginnings(cells)
    return [
        specialized_share(cell)
        if (branch := branches.get(cell.fingerprint)) is not None and branch.start is not None
        else 1.0
        for cell in cells
    ]
