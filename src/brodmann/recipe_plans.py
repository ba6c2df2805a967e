"""Plans of the papers' recipes at either scale: counted, without data, weights or hub."""

from pathlib import Path
from typing import Any

from brodmann.config import Config
from brodmann.errors import InputError, did_you_mean
from brodmann.estimate import (
    RunEstimate,
    Sized,
    estimate_run,
    few_shot,
    meta_learning,
    operations_of,
    sized,
    starts_scored,
    tournament,
)
from brodmann.grid import cells_of
from brodmann.pipeline.plan import check_speed
from brodmann.planning import arms_of, own_shares
from brodmann.recipes import PAPERS, Recipe, find, index, recipes
from brodmann.relations import pairs_grid
from brodmann.reproduce import configured


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
            assumed |= {task.name for task in _sized(config) if task.assumed}
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
        trainings = few_shot(config.transfer, _sized(config))
        return [], operations_of(trainings, config), trainings.count
    if config.meta is not None:
        trainings = meta_learning(config.meta, _sized(config))
        return [], operations_of(trainings, config), trainings.count
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
                for label, settings, heads, share in arms_of(config)
            ],
            0.0,
            0,
        )
    if config.grid is None:
        games = tournament(_sized(config)) if "ahp" in recipe.relate else None
        more = 0.0 if games is None else operations_of(games, config)
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


def _sized(config: Config) -> list[Sized]:
    return [sized(task, config.model.max_length) for task in config.tasks]


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
    scored = starts_scored(len(start.tasks)) * run.operations["evaluation"]
    return [run], again + scored, len(smaller)
