"""Run a recipe and compare its results with the paper's numbers."""

import tomllib
from pathlib import Path
from typing import Any

from brodmann.config import Config, apply_override, checked_config, set_value
from brodmann.data.sources.named import FEWER
from brodmann.data.task_cache import TaskCache
from brodmann.errors import InputError, RunError
from brodmann.files import read_json, write_json, write_text
from brodmann.papers.readers import READERS, SHOW_DISSOCIATION
from brodmann.papers.readers.common import case_key
from brodmann.papers.readers.links import voxels_needed
from brodmann.papers.recipe_relations import (
    related,
    statistics_of,
    takes_pairs,
    takes_training,
)
from brodmann.papers.recipes import Recipe, View, find
from brodmann.papers.tables import (
    SCALES,
    Origin,
    as_blocks,
    as_markdown,
    described,
    hardly_learnt,
    table_file,
)
from brodmann.pipeline.run import one_process
from brodmann.pipeline.run_folder import machine_of
from brodmann.provenance import provenance
from brodmann.results import mean_dissociation
from brodmann.studies import STUDIES, load_study, study_of
from brodmann.studies.cells import cells_of, task_name
from brodmann.studies.grid import done_cells
from brodmann.studies.work import Engine
from brodmann.text import reasons
from brodmann.training.events import Report


def reproduce(
    name: str,
    report: Report,
    *,
    scale: str = "mini",
    output: Path,
    overrides: list[str],
    limit: int | None = None,
    engine: Engine | None = None,
    retries: int = 0,
) -> list[dict[str, Any]]:
    """Run the experiment of a table or figure (finished parts are skipped), then write its views.

    `limit` cuts every split of every task, to try a recipe out. `engine` runs the cells of its grid
    elsewhere; failed cells are retried `retries` times.
    """
    one_process("reproduce", trains=True)
    recipe, views = find(name)
    if limit is not None:
        overrides = [*overrides, *limits(recipe, scale, output, overrides, limit)]
    config, base = configured(recipe, scale, output, overrides)
    if engine is not None and config.grid is None:
        raise InputError(f"--engine ray only runs grids: {recipe.name} is not a grid: leave it out")
    changed_starts = check_needs(recipe, scale, output)
    views = _that_can_be_made(views, config, report)
    given = any(override.startswith("data_dir=") for override in overrides)
    needless = all(view.reader == "model_statistics" for view in views)
    cache = TaskCache()
    notes = [] if needless else _read_data(config, base, cache, given=given)
    ways = ways_of(recipe, views)
    options = {"engine": engine, "retries": retries} if config.grid is not None else {}
    found = run_recipe(recipe, config, base, report, ways, views, cache, options)
    notes += found.get("notes", [])
    failed = _failed_runs(recipe, found)
    found["titles"] = titles_of(recipe, scale, output)
    found["benchmarks"] = benchmarks_of(config)
    runs = runs_of(recipe, config, scale, found, ways)
    changes = [*changes_of(overrides), *changed_starts]
    here = provenance()
    machine = {**machine_of(config), "git": here["git"], "started": here["started"]}
    origin = Origin(scale, config.portable(), machine, changes, failed, notes)
    documents = []
    for view in views:
        own = _runs_of_view(view, runs)
        document = described(
            view,
            recipe,
            READERS[view.reader](found),
            origin,
            runs=own,
            weak=hardly_learnt(found, view.arm) if own else {},
            undefined=undefined_runs(found) if view.reader in SHOW_DISSOCIATION else {},
        )
        file = table_file(output, view.name, scale, changed=bool(changes))
        _write_view(document, file, view)
        report("reproduced", {"blocks": as_blocks(document), "file": file.with_suffix(".md")})
        documents.append(document)
    if failed:
        raise RunError(f"{recipe.name}: {len(failed)} runs failed and are missing from the tables")
    return documents


def _failed_runs(recipe: Recipe, found: dict[str, Any]) -> list[str]:
    failed = list(found.get("failed", ()))
    if failed and len(failed) == len(found["cells"]):
        reason = next(cell["error"] for cell in found["cells"] if cell["state"] == "failed")
        raise RunError(f"{recipe.name}: every run failed ({reason})")
    return failed


def _write_view(document: dict[str, Any], file: Path, view: View) -> None:
    """Write one table or figure: the numbers, the comparison with the paper, the figure."""
    from brodmann.reporting.figures import save
    from brodmann.reporting.view_figures import draw_view

    write_json(file.with_suffix(".json"), document)
    if view.figure:
        scale = document["scale"]
        about = f"{scale}, changed by --set" if document["changes"] else scale
        save(draw_view(document["view"], document["ours"], about), file.with_suffix(".svg"))
    write_text(file.with_suffix(".md"), as_markdown(document))


def limits(recipe: Recipe, scale: str, output: Path, overrides: list[str], limit: int) -> list[str]:
    """Overrides that cut the recipe's tasks (or those given instead of them)."""
    tasks = configured(recipe, scale, output, overrides)[0].tasks
    cut = f"{{ train = {limit}, validation = {limit}, test = {limit} }}"
    return [f"tasks.{place}.limit={cut}" for place in range(len(tasks))]


def _read_data(config: Config, base: Path, cache: TaskCache, *, given: bool) -> list[str]:
    """Read the data first; return notes where they are fewer than the official ones.

    Datasets by name need a folder or the hub: fail here rather than in every run.
    """
    from brodmann.pipeline.train import tasks_of

    try:
        tasks = tasks_of(config, base, cache)
    except InputError as error:
        raise InputError(str(error) if given else f"{error}; datasets: --data-dir FOLDER") from None
    return [note for task in tasks for note in task.notes if FEWER in note]


def check_needs(recipe: Recipe, scale: str, output: Path) -> list[str]:
    """Raise InputError if the recipe's starts are missing; return notes on starts that were made
    with other settings, which change this recipe, too."""
    changed = []
    for needed in recipe.starts_from(scale):
        settings = configured(find(needed)[0], scale, output, [])[0]
        if not study_of(settings).is_done(settings):
            words = f"`brodmann reproduce {needed}{' --scale paper' if scale == 'paper' else ''}`"
            raise InputError(f"{recipe.name} starts from {needed}: {words}")
        if not _is_the_recipes_own(settings):
            changed.append(f"the starts: {needed} was run with other settings")
    return changed


def _is_the_recipes_own(config: Config) -> bool:
    """Whether the existing results were run with the recipe's own settings."""
    expected = {one.fingerprint() for one in study_of(config).runs(config).values()}
    if config.grid is not None:  # all grids keep their runs together
        return {cell["fingerprint"] for cell in done_cells(config.folder)} <= expected
    paths = config.folder.glob("**/provenance.json")
    return all(read_json(path).get("fingerprint") in expected for path in paths)


def _that_can_be_made(views: list[View], config: Config, report: Report) -> list[View]:
    """The views that can be drawn: Figure 3 of Li et al. needs brain data, so note that first."""
    measured = config.folder / "similarity.json"
    if measured.is_file() and "cnm" in read_json(measured):
        return views
    lacking = [view for view in views if view.reader == "link_cnm"]
    if not lacking:
        return views
    words = f"{lacking[0].name}: {voxels_needed(str(config.folder))}"
    if len(lacking) == len(views):
        raise InputError(words)
    report("note", {"text": words})
    return [view for view in views if view not in lacking]


def _runs_of_view(view: View, runs: dict[str, str]) -> dict[str, str]:
    if view.relate and not takes_training(view.relate):
        return {}  # from the data alone
    return {k: v for k, v in runs.items() if not view.arm or k.startswith(view.arm)}


def ways_of(recipe: Recipe, views: list[View]) -> tuple[str, ...]:
    """The relations that these views show; others might need trainings."""
    if any(not view.relate for view in views):
        return recipe.relate
    return tuple(by for by in recipe.relate if any(by in view.relate for view in views))


def undefined_runs(found: dict[str, Any]) -> dict[str, str]:
    """Why D is undefined, by run: cells of a grid, or runs of a comparison."""
    why = {
        cell["label"]: reasons(cell["dissociation"]["undefined"])
        for cell in [*found.get("cells", []), *found.get("joint", []), *found.get("dual", [])]
        if cell["state"] == "done"
        and cell.get("dissociation")
        and mean_dissociation(cell["dissociation"]) is None
    }
    for arm in (found.get("arms") or {}).values():
        why |= arm.get("undefined") or {}
    return why


def changes_of(overrides: list[str]) -> list[str]:
    """Overrides that make the experiment differ from the recipe."""
    harmless = ("data_dir=", "threads=")
    return [override for override in overrides if not override.startswith(harmless)]


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
            raise InputError(
                f"--set {override}: cannot be changed: choose the folder with --output FOLDER"
            )
        if key.partition(".")[0] == "recipe":
            raise InputError(f"--set {override}: the [recipe] table cannot be changed")
        apply_override(values, override)
    return checked_config(values, f"recipe {recipe.name}", Path.cwd())


def _starts_there(values: dict[str, Any], output: Path, suffix: str) -> None:
    """Point the starts that recipes name as runs/NAME/… to this output and scale."""

    def moved(start: str) -> str:
        _, name, *rest = Path(start).parts
        return str(Path(output, name.removesuffix(suffix) + suffix, *rest))

    for section in STUDIES:
        if section in values:
            load_study(section).move_starts(values, moved)


def titles_of(recipe: Recipe, scale: str, output: Path) -> dict[str, str]:
    """The recipe's titles for the cases of its grid; other cases have none."""
    others = scale == "paper" and recipe.titles_at_paper_scale
    titles = recipe.titles_at_paper_scale if others else recipe.titles
    if not titles:
        return {}
    cells = cells_of(configured(recipe, scale, output, [])[0])
    cases = list(dict.fromkeys(case_key(cell.varied) for cell in cells))
    return dict(zip(cases, titles, strict=True))


def benchmarks_of(config: Config) -> dict[str, list[str]]:
    """Tasks by their collection in the catalogue; empty for a single collection."""
    found: dict[str, list[str]] = {}
    for task in config.tasks:
        use = task if isinstance(task, str) else task.use or ""
        if "/" in use and not use.endswith(".toml"):
            found.setdefault(use.partition("/")[0], []).append(task_name(task))
    return found if len(found) > 1 else {}


def runs_of(
    recipe: Recipe, config: Config, scale: str, found: dict[str, Any], ways: tuple[str, ...]
) -> dict[str, str]:
    """The runs behind the numbers, each with the fingerprint of its configuration."""
    runs: dict[str, str] = {}
    if recipe.statistics or (ways and not takes_training(ways)):
        return runs  # from the data alone
    planned = study_of(config).runs(config)
    failed = [cell["label"] for cell in found.get("cells", ()) if cell["state"] != "done"]
    runs = {label: one.fingerprint() for label, one in planned.items() if label not in failed}
    if takes_pairs(ways):
        summary = read_json(Path(config.output) / f"{config.name}-pairs" / "grid.json")
        runs = {cell["label"]: cell["fingerprint"] for cell in summary["cells"]}
    for cell in found.get("dual", []):
        runs[f"pairs: {cell['label']}"] = cell["fingerprint"]
    for needed in recipe.starts_from(scale):
        other = find(needed)[0]
        settings = configured(other, scale, Path(config.output), [])[0]
        if settings.grid is not None:  # all grids keep their runs together
            cells = done_cells(settings.folder)
            runs |= {f"{needed}: {cell['label']}": cell["fingerprint"] for cell in cells}
        starts = config.transfer.starts.values() if config.transfer is not None else ()
        for path in sorted(settings.folder.glob("**/provenance.json")):
            if starts and path.parent.name not in {Path(start).name for start in starts}:
                continue
            runs[f"{needed}: {path.parent.name}"] = read_json(path).get("fingerprint", "")
    return runs


def run_recipe(
    recipe: Recipe,
    config: Config,
    base: Path,
    report: Report,
    ways: tuple[str, ...],
    views: list[View],
    cache: TaskCache,
    options: dict[str, Any],
) -> dict[str, Any]:
    """Run a recipe by the command of its configuration and return that command's result."""
    if recipe.statistics:
        return statistics_of(recipe, config, base, views, cache)
    if recipe.relate:
        return related(recipe, config, base, report, ways, cache)
    study = study_of(config)
    result = study.run(config, base, report, cache=cache, **options)
    return {**result, **study.read_more(config, result)}
