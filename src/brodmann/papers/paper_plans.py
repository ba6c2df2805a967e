"""Plans of the papers' recipes at either scale: counted, without data, weights or hub."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from brodmann.config import Config
from brodmann.errors import InputError, did_you_mean
from brodmann.papers.recipe_relations import takes_training
from brodmann.papers.recipes import PAPERS, Recipe, find, index, recipes
from brodmann.papers.reproduce import check_needs, configured, ways_of
from brodmann.studies.cells import cells_of
from brodmann.studies.pair_trainings import pairs_grid
from brodmann.studies.plan.estimate import (
    RunEstimate,
    Sized,
    Trainings,
    estimate_run,
    few_shot,
    meta_learning,
    operations_of,
    sized,
    starts_scored,
    tournament,
)
from brodmann.studies.plan.one_run import check_speed
from brodmann.studies.plan.planning import arms_of, make_plan, own_shares


def recipes_named(name: str) -> list[Recipe]:
    """One recipe, that of a table or figure (as far as it takes it), or all of a paper."""
    of_paper = [
        recipe
        for recipe in recipes()
        if recipe.paper.lower() == name.lower()
        and (recipe.at_paper_scale or recipe.needs)  # some are ours alone, on generated text
    ]
    if of_paper:
        return of_paper
    try:
        recipe, views = find(name)
        return [replace(recipe, relate=ways_of(recipe, views))]
    except InputError:
        papers = [paper.lower() for paper in PAPERS]
        known = [*papers, *(recipe.name for recipe in recipes()), *index()]
        raise InputError(
            f"{name}: no such file, recipe or paper{did_you_mean(name, known)}"
        ) from None


def _from_data(recipe: Recipe) -> bool:
    """Whether it takes no training at all."""
    related = bool(recipe.relate) and not takes_training(recipe.relate)
    return recipe.statistics or related


def measure_recipe(
    recipe: Recipe,
    report: Any,
    *,
    scale: str,
    output: Path,
    overrides: list[str],
    speed: float | None,
) -> dict[str, Any]:
    """The recipe's plan from some of its steps, taken here with its data; once it has run, what it
    took beside it."""
    check_needs(recipe, scale, output)
    if _from_data(recipe):
        raise InputError(f"{recipe.name}: computed from the data, there is nothing to plan")
    config, base = configured(recipe, scale, output, overrides)
    if "pairs" in recipe.relate:
        config = pairs_grid(config, config.given_tasks())
    return make_plan(config, base, report, speed=speed, heads=not recipe.relate)


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


@dataclass(frozen=True)
class Counted:
    """What a recipe runs: whole runs, and operations and tokens of what is none."""

    config: Config  # with the model that it is about
    runs: list[RunEstimate]
    trainings: int = 0  # short ones
    operations: float = 0.0
    tokens: float = 0.0

    def parts(self) -> list[RunEstimate]:
        """Where parameters, memory and assumptions are read off."""
        if self.runs or not self.trainings:
            return self.runs
        return [estimate_run(self.config.name, self.config, heads=False)]


def _counted(recipe: Recipe, config: Config, scale: str) -> Counted:
    if _from_data(recipe):
        return Counted(config, [])
    if config.adapt is not None:
        return _adapted(recipe, config, scale)
    if (section := config.transfer) is not None:  # from the models of another recipe
        backbone = _start_of(recipe, scale).model.backbone
        model = config.model.model_copy(update={"backbone": backbone})
        config = config.model_copy(update={"model": model})
        return _short(config, few_shot(section, _sized(config)))
    if config.meta is not None:
        return _short(config, meta_learning(config.meta, _sized(config)))
    if "pairs" in recipe.relate:
        cells = cells_of(pairs_grid(config, config.given_tasks()))
        return Counted(config, [estimate_run(c.label, c.config, heads=False) for c in cells])
    if config.compare is not None:
        arms = arms_of(config)
        runs = [estimate_run(label, one, heads=h, share=share) for label, one, h, share in arms]
        return Counted(config, runs)
    if config.grid is None:
        run = estimate_run(config.name, config, heads=not recipe.relate)
        if "ahp" not in recipe.relate:
            return Counted(config, [run])
        games = tournament(_sized(config))
        return Counted(config, [run], operations=operations_of(games, config))
    cells, heads = cells_of(config), config.grid.heads
    shares = zip(cells, own_shares(cells), strict=True)
    runs = [estimate_run(c.label, c.config, heads=heads, share=share) for c, share in shares]
    return Counted(config, runs)


def _short(config: Config, trainings: Trainings) -> Counted:
    tokens = sum(trainings.learnt.values())
    return Counted(config, [], trainings.count, operations_of(trainings, config), tokens)


def _sized(config: Config) -> list[Sized]:
    return [sized(task, config.model.max_length) for task in config.tasks]


def _start_of(recipe: Recipe, scale: str) -> Config:
    """The recipe whose models it starts from."""
    return configured(find(recipe.needs[0])[0], scale, Path("runs"), [])[0]


def _adapted(recipe: Recipe, config: Config, scale: str) -> Counted:
    """New tasks, in every cell of a grid or all at once: scored from every start (the known tasks,
    random, xavier), then one training with all of the data and one for every smaller share of it,
    with the model of the needed recipe."""
    assert config.adapt is not None
    start = _start_of(recipe, scale)
    cells = [(config.name, config)]
    if config.grid is not None:
        cells = [(cell.label, cell.config) for cell in cells_of(config)]
    smaller = sorted(config.adapt.shares or [1.0])[:-1]
    runs, operations, tokens = [], 0.0, 0.0
    for label, cell in cells:
        run = estimate_run(label, cell.model_copy(update={"model": start.model}), heads=False)
        again = sum(share * run.operations["training"] for share in smaller)
        operations += again + starts_scored(len(start.tasks)) * run.operations["evaluation"]
        tokens += sum(smaller) * run.tokens
        runs.append(run)
    whole = config.model_copy(update={"model": start.model})
    return Counted(whole, runs, len(smaller) * len(cells), operations, tokens)
