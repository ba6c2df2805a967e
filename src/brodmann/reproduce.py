"""Run a recipe and set what comes out beside the paper's numbers."""

import tomllib
from pathlib import Path
from typing import Any

from brodmann.analysis.dissociation import undertrained
from brodmann.arms import arm_config, run_arms
from brodmann.artifacts import provenance, read_json, write_json, write_text
from brodmann.config import Config, apply_override, checked_config, set_value
from brodmann.errors import InputError, RunError
from brodmann.grid import run_grid
from brodmann.grid_cells import cells_of, task_name
from brodmann.grid_work import Engine
from brodmann.pipeline.relate import FROM_RUN
from brodmann.pipeline.run import one_process
from brodmann.pipeline.run_folder import machine_of
from brodmann.recipes import Recipe, View, find
from brodmann.recipes.cells import case_key
from brodmann.recipes.readers import READERS
from brodmann.recipes.tables import SCALES, as_markdown, described, table_file
from brodmann.results import LOWER_IS_BETTER


def reproduce(
    name: str,
    report: Any,
    *,
    scale: str = "mini",
    output: Path,
    overrides: list[str],
    limit: int | None = None,
    engine: Engine | None = None,
    retries: int = 0,
) -> list[dict[str, Any]]:
    """Run the experiment of a table or figure (what is there is not done again), then its views.

    `limit` cuts every split of every task, to try a recipe out. `engine` runs the cells of its grid
    elsewhere; those that fail are tried again so many times.
    """
    from brodmann.reporting.figures import save
    from brodmann.reporting.view_figures import draw_view

    one_process("reproduce", trains=True)
    recipe, views = find(name)
    if limit is not None:
        overrides = [*overrides, *limits(recipe, scale, output, overrides, limit)]
    config, base = configured(recipe, scale, output, overrides)
    if engine is not None and config.grid is None:
        raise InputError(f"--engine ray is for grids: {recipe.name} is none, it runs in order")
    for needed in recipe.needs:
        other = configured(find(needed)[0], scale, output, [])[0]
        if not _is_there(other):
            raise InputError(f"{recipe.name} starts from {needed}: `brodmann reproduce {needed}`")
    if not any(override.startswith("data_dir=") for override in overrides):
        _check_data(config, base)
    ways = ways_of(recipe, views)
    found = run_recipe(recipe, config, base, report, engine, retries, ways)
    failed = list(found.get("failed", ()))
    if failed and len(failed) == len(found["cells"]):
        reason = next(cell["error"] for cell in found["cells"] if cell["state"] == "failed")
        raise RunError(f"{recipe.name}: every run failed ({reason})")
    found["titles"] = titles_of(recipe, scale, output)
    found["benchmarks"] = benchmarks_of(config)
    runs = runs_of(recipe, config, scale, found, ways)
    changes = changes_of(overrides)
    here = provenance()
    machine = {**machine_of(config), "git": here["git"], "started": here["started"]}
    documents = []
    for view in views:
        own = runs if not view.arm else {k: v for k, v in runs.items() if k.startswith(view.arm)}
        document = described(
            view,
            recipe,
            scale,
            READERS[view.reader](found),
            configuration=config.portable(),
            runs=own,
            machine=machine,
            changes=changes,
            failed=failed,
            weak=hardly_learnt(found, view.arm),
        )
        file = table_file(output, view.name, scale, changed=bool(changes))
        write_json(file.with_suffix(".json"), document)
        if view.figure:
            about = f"{scale}, changed by --set" if changes else scale
            drawn = draw_view(document["view"], document["ours"], about)
            save(drawn, file.with_suffix(".svg"))
        write_text(file.with_suffix(".md"), as_markdown(document))
        report("reproduced", {"document": document, "file": file.with_suffix(".md")})
        documents.append(document)
    if failed:
        raise RunError(f"{recipe.name}: {len(failed)} runs failed, the tables are without them")
    return documents


def limits(recipe: Recipe, scale: str, output: Path, overrides: list[str], limit: int) -> list[str]:
    """What cuts the recipe's tasks (or those given instead of them)."""
    tasks = configured(recipe, scale, output, overrides)[0].tasks
    cut = f"{{ train = {limit}, validation = {limit}, test = {limit} }}"
    return [f"tasks.{place}.limit={cut}" for place in range(len(tasks))]


def _check_data(config: Config, base: Path) -> None:
    """Datasets by name need a folder or the hub: better said now than by every run."""
    from brodmann.pipeline.train import tasks_of

    try:
        tasks_of(config, base)
    except InputError as error:
        raise InputError(f"{error}; datasets: --data-dir FOLDER") from None


def ways_of(recipe: Recipe, views: list[View]) -> tuple[str, ...]:
    """Of relating tasks, those that these views show; the others may take trainings."""
    if any(not view.relate for view in views):
        return recipe.relate
    return tuple(by for by in recipe.relate if any(by in view.relate for view in views))


def hardly_learnt(found: dict[str, Any], arm: str = "") -> dict[str, str]:
    """task → in how many of the runs it is near an answer without reading: what is said of such a
    task's heads, or of a way of training it, means little."""
    splits = [c["splits"]["validation"] for c in found.get("cells", []) if c["state"] == "done"]
    for name, runs in found.get("splits", {}).items():
        if name == arm or not arm:
            splits += [run["validation"] for run in runs]
    near: dict[str, list[bool]] = {}
    for results in splits:
        for task, entry in results.items():
            judged = entry["metric"] not in LOWER_IS_BETTER and entry.get("trivial") is not None
            weak = judged and undertrained(entry["score"], entry["trivial"]) is not None
            near.setdefault(task, []).append(weak)
    return {task: f"{sum(weak)} of {len(weak)} runs" for task, weak in near.items() if any(weak)}


def changes_of(overrides: list[str]) -> list[str]:
    """What makes it another experiment than the recipe's."""
    harmless = ("data_dir=", "threads=")
    return [override for override in overrides if not override.startswith(harmless)]


def _is_there(config: Config) -> bool:
    """Whether another recipe has left something to start from: a run, arms, a finished cell."""
    if config.grid is not None:
        return (config.folder / "grid.json").is_file() and bool(_done(config.folder))
    return config.folder.is_dir()


def _done(folder: Path) -> list[dict[str, Any]]:
    """The finished cells of a grid."""
    return [cell for cell in read_json(folder / "grid.json")["cells"] if cell["state"] == "done"]


def configured(
    recipe: Recipe, scale: str, output: Path, overrides: list[str]
) -> tuple[Config, Path]:
    """The recipe's configuration at a scale, with changes on top."""
    if scale not in SCALES:
        raise InputError(f"--scale {scale}: expected one of {', '.join(SCALES)}")
    values = tomllib.loads(recipe.path.read_text(encoding="utf-8"))
    del values["recipe"]
    values["output"] = str(output)
    if scale == "paper":
        values["name"] = f"{values['name']}-paper"
        for task in values["tasks"]:
            if isinstance(task, dict):
                task.pop("limit", None)
        for key, value in recipe.at_paper_scale.items():
            set_value(values, key, value, f"{recipe.name}: {key}")
    _starts_there(values, output, "-paper" if scale == "paper" else "")
    for override in overrides:
        key = override.partition("=")[0]
        if key == "output":
            raise InputError(f"--set {override}: tables and runs go to --output FOLDER")
        if key.partition(".")[0] == "recipe":
            raise InputError(f"--set {override}: what a recipe says of itself cannot be changed")
        apply_override(values, override)
    return checked_config(values, f"recipe {recipe.name}", Path.cwd())


def _starts_there(values: dict[str, Any], output: Path, suffix: str) -> None:
    """Recipes name the runs they start from as runs/NAME/…: of this output and scale."""

    def moved(start: str) -> str:
        _, name, *rest = Path(start).parts
        return str(Path(output, name.removesuffix(suffix) + suffix, *rest))

    if "transfer" in values:
        starts = values["transfer"]["starts"]
        values["transfer"]["starts"] = {name: moved(start) for name, start in starts.items()}
    if "adapt" in values:
        values["adapt"]["start"] = moved(values["adapt"]["start"])


def titles_of(recipe: Recipe, scale: str, output: Path) -> dict[str, str]:
    """The recipe's own words for the cases of its grid; cases of somebody else's have none."""
    others = scale == "paper" and recipe.titles_at_paper_scale
    titles = recipe.titles_at_paper_scale if others else recipe.titles
    if not titles:
        return {}
    cells = cells_of(configured(recipe, scale, output, [])[0])
    cases = list(dict.fromkeys(case_key(cell.varied) for cell in cells))
    return dict(zip(cases, titles, strict=True))


def benchmarks_of(config: Config) -> dict[str, list[str]]:
    """Tasks by the collection that the catalogue has them in; a recipe with one has no need."""
    found: dict[str, list[str]] = {}
    for task in config.tasks:
        use = task if isinstance(task, str) else task.use or ""
        if "/" in use and not use.endswith(".toml"):
            found.setdefault(use.partition("/")[0], []).append(task_name(task))
    return found if len(found) > 1 else {}


def runs_of(
    recipe: Recipe, config: Config, scale: str, found: dict[str, Any], ways: tuple[str, ...]
) -> dict[str, str]:
    """The runs that the numbers come from, each with the fingerprint of its configuration."""
    runs: dict[str, str] = {}
    if ways and not {"pairs", *FROM_RUN} & set(ways):
        return runs  # from the data alone
    if config.grid is not None:
        runs = {cell["label"]: cell["fingerprint"] for cell in found["cells"]}
    elif config.compare is not None:
        runs = {
            f"{arm}, seed {seed}": arm_config(config, arm, seed).fingerprint()
            for arm in config.compare.arms
            for seed in config.compare.seeds or [config.seed]
        }
    else:
        runs = {config.name: config.fingerprint()}
    if "pairs" in ways:
        summary = read_json(Path(config.output) / f"{config.name}-pairs" / "grid.json")
        runs = {cell["label"]: cell["fingerprint"] for cell in summary["cells"]}
    for cell in found.get("dual", []):
        runs[f"pairs: {cell['label']}"] = cell["fingerprint"]
    for needed in recipe.needs:
        other = find(needed)[0]
        settings = configured(other, scale, Path(config.output), [])[0]
        if settings.grid is not None:  # whose runs stand with those of all grids
            cells = _done(settings.folder)
            runs |= {f"{needed}: {cell['label']}": cell["fingerprint"] for cell in cells}
        for path in sorted(settings.folder.glob("**/provenance.json")):
            runs[f"{needed}: {path.parent.name}"] = read_json(path).get("fingerprint", "")
    return runs


def run_recipe(
    recipe: Recipe,
    config: Config,
    base: Path,
    report: Any,
    engine: Engine | None,
    retries: int,
    ways: tuple[str, ...],
) -> dict[str, Any]:
    """By the command that its configuration is for; what that command gives."""
    if recipe.relate:
        return _related(recipe, config, base, report, ways)
    if config.compare is not None:
        found = {**run_arms(config, base, report), "folder": config.folder}
        found["splits"] = {
            arm: [read_json(config.folder / run / "metrics.json")["splits"] for run in one["runs"]]
            for arm, one in found["arms"].items()
        }
        return found
    if config.adapt is not None:
        from brodmann.pipeline.adapt import adapt

        return adapt(config, base, report)
    if config.meta is not None:
        from brodmann.pipeline.meta import meta

        return meta(config, base, report)
    if config.transfer is not None:
        from brodmann.pipeline.transfer import transfer

        return transfer(config, base, report)
    summary = run_grid(config, base, report, engine=engine, retries=retries)
    return {**summary, "output": config.output}


def _related(
    recipe: Recipe, config: Config, base: Path, report: Any, ways: tuple[str, ...]
) -> dict[str, Any]:
    """By their data or by trainings of pairs; or between encoders that are trained first."""
    from brodmann.pipeline.evaluate import evaluate
    from brodmann.pipeline.relate import relate
    from brodmann.pipeline.train import train
    from brodmann.relations import relate_pairs

    found: dict[str, Any] = {}
    suffix = "-paper" if config.name.endswith("-paper") else ""
    if any(by in FROM_RUN for by in ways):
        train(config, base, report)
    if "covsim" in ways:
        scores = evaluate(config, base, report)["splits"]["validation"]
        found["scores"] = {task: entry["score"] for task, entry in scores.items()}
    if "single_trained" in recipe.needs:
        alone = read_json(Path(config.output) / f"single-trained{suffix}" / "metrics.json")
        scores = alone["splits"]["validation"]
        found["single"] = {task: entry["score"] for task, entry in scores.items()}
    if "dse" in ways:
        found["joint"] = _done(Path(config.output) / f"five-tasks{suffix}")
        dual = Path(config.output) / f"pairs{suffix}"
        if (dual / "grid.json").is_file():  # `brodmann reproduce pairs` was here
            found["dual"] = _done(dual)
    for by in ways:
        found[by] = (
            relate_pairs(config, base, report, limit=0)  # a recipe has limits of its own
            if by == "pairs"
            else relate(config, base, report, by=by)
        )
    if "pairs" in ways:
        pairs = read_json(Path(config.output) / f"{config.name}-pairs" / "grid.json")
        found["cells"] = pairs["cells"]  # which tasks were hardly learnt
        found["attention"] = _attention_maps(config, base, found["pairs"], recipe.attention)
    return found


def _attention_maps(
    config: Config, base: Path, pairs: dict[str, Any], named: dict[str, list[str]]
) -> dict[str, Any]:
    """Of a helpful and a harmful pair: every head's maps in the task's own model and in the pair's,
    by their mean cosine. They are those `named`, where their tasks are here, or else the pairs that
    help and harm most."""
    from brodmann.models.attention_maps import attention_map_similarity
    from brodmann.models.multitask import MultiTaskModel
    from brodmann.pipeline.train import tasks_of

    tasks = {task.name: task for task in tasks_of(config, base)}
    names, matrix = pairs["tasks"], pairs["matrix"]
    gains = {
        (a, b): (matrix[i][j] + matrix[j][i]) / 2
        for i, a in enumerate(names)
        for j, b in enumerate(names)
        if i < j and matrix[i][j] is not None and matrix[j][i] is not None
    }
    if not gains:
        raise InputError("attention maps: no pair of tasks has a relevance both ways")
    summary = read_json(Path(config.output) / f"{config.name}-pairs" / "grid.json")
    models = {
        frozenset(cell["splits"]["validation"]): Path(config.output) / "cells" / cell["fingerprint"]
        for cell in summary["cells"]
    }

    def loaded(*own: str) -> Any:
        return MultiTaskModel.from_pretrained(models[frozenset(own)] / "model")

    found: dict[str, Any] = {}
    for title, extreme in (("helpful", max), ("harmful", min)):
        own = {one for one in gains if set(one) == set(named.get(title, ()))}
        pair = own.pop() if own else extreme(gains, key=gains.__getitem__)
        together = loaded(*pair)
        maps = {
            name: attention_map_similarity(loaded(name), together, tasks[name]).tolist()
            for name in pair
        }
        found[title] = {"gain": gains[pair], "maps": maps}
    return found
