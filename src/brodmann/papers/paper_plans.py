"""Plan the papers' recipes at either scale: counted, without data, weights or hub."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from brodmann.config import Config
from brodmann.errors import InputError, did_you_mean
from brodmann.measuring.relations import RELATIONS
from brodmann.papers.recipe_relations import takes_pairs, takes_training
from brodmann.papers.recipes import PAPERS, Recipe, find, index, recipes
from brodmann.papers.reproduce import check_needs, configured, ways_of
from brodmann.studies import study_of
from brodmann.studies.cells import cells_of
from brodmann.studies.pair_trainings import pairs_grid
from brodmann.studies.plan.counting import Counted, count_runs, sizes_of_tasks
from brodmann.studies.plan.estimate import estimate_run, operations_of, tournament
from brodmann.studies.plan.measuring_run import check_speed
from brodmann.studies.plan.planning import make_plan
from brodmann.training.events import Report


def recipes_named(name: str) -> list[Recipe]:
    """One recipe, that of a table or figure, or all of a paper."""
    of_paper = [
        recipe
        for recipe in recipes()
        if recipe.paper.lower() == name.lower()
        and (recipe.at_paper_scale or recipe.needs)  # some are only ours, on generated text
    ]
    if of_paper:
        return of_paper
    try:
        recipe, views = find(name)
        return [replace(recipe, relate=ways_of(recipe, views))]
    except InputError:
        papers = [paper.lower() for paper in PAPERS]
        known = [*papers, *(recipe.name for recipe in recipes()), *index()]
        near = did_you_mean(name, known)
        if "did you mean" not in near:  # all of them would fill a screen
            near = "; `brodmann init` writes a file to start from, "
            near += "`brodmann reproduce` lists the rest"
        raise InputError(f"{name}: no such file, recipe or paper{near}") from None


def _from_data(recipe: Recipe) -> bool:
    """Whether the recipe needs no training at all."""
    related = bool(recipe.relate) and not takes_training(recipe.relate)
    return recipe.statistics or related


def measure_recipe(
    recipe: Recipe,
    report: Report,
    *,
    scale: str,
    output: Path,
    overrides: list[str],
    speed: float | None,
) -> dict[str, Any]:
    """Plan a recipe from some of its steps, taken here with its data; once it has run, add what it
    took."""
    check_needs(recipe, scale, output)
    if _from_data(recipe):
        raise InputError(f"{recipe.name}: it is computed from the data: there is nothing to plan")
    config, base = configured(recipe, scale, output, overrides)
    if takes_pairs(recipe.relate):
        config = pairs_grid(config, config.given_tasks())
    return make_plan(config, base, report, speed=speed, heads=not recipe.relate)


def estimate_recipes(
    names: list[Recipe], report: Report, *, scale: str, speed: float | None
) -> dict[str, Any]:
    """Estimate recipes by counting alone; a cell that two grids share counts once."""
    check_speed(speed)
    known: set[str] = set()
    rows: list[dict[str, Any]] = []
    assumed: set[str] = set()
    for recipe in names:
        config, _ = configured(recipe, scale, Path("runs"), [])
        counted = _counted(recipe, config, scale)
        alone = sum(run.total + run.first_steps for run in counted.runs) + counted.operations
        taken = counted.operations
        again = 0
        for run in counted.runs:
            if config.grid is not None and run.fingerprint in known:
                again += 1
                continue
            taken += run.total
            if config.grid is not None:
                known.add(run.fingerprint)
        assumed |= {task for part in counted.parts() for task in part.assumed}
        rows.append(
            {
                "recipe": recipe.name,
                "paper": recipe.paper,
                "backbone": counted.config.model.backbone,
                "runs": len(counted.runs) + counted.trainings,
                "there": again,
                "steps": sum(run.steps for run in counted.runs),
                "tokens": sum(run.tokens for run in counted.runs) + counted.tokens,
                "parameters": max((part.parameters for part in counted.parts()), default=0),
                "memory": max((part.memory for part in counted.parts()), default=0.0),
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


def _counted(recipe: Recipe, config: Config, scale: str) -> Counted:
    if _from_data(recipe):
        return Counted(config, [])
    if takes_pairs(recipe.relate):
        cells = cells_of(pairs_grid(config, config.given_tasks()))
        return count_runs(config, [(cell.label, cell.config, False, 1.0) for cell in cells])
    if recipe.relate:
        run = estimate_run(config.name, config, heads=False)
        games = 0.0
        if any(RELATIONS[by].trains for by in recipe.relate):
            games = operations_of(tournament(sizes_of_tasks(config)), config)
        return Counted(config, [run], operations=games)
    start = _start_of(recipe, scale) if recipe.needs else None
    return study_of(config).count(config, start)


def _start_of(recipe: Recipe, scale: str) -> Config:
    """The configuration of the recipe whose models this one starts from."""
    return configured(find(recipe.needs[0])[0], scale, Path("runs"), [])[0]
