"""Verbs that run a configuration: a run, a study of many runs, a plan, a paper's table."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from brodmann.config import Changes, Config
from brodmann.errors import InputError
from brodmann.studies import Study, load_study, study_of
from brodmann.studies.report import FILE, report_on
from brodmann.training.events import Report
from brodmann.verbs.asking import Asked, settle
from brodmann.verbs.following import followed
from brodmann.verbs.outcomes import Outcome, Page, Run
from brodmann.verbs.rows import rows_of_comparison, rows_of_plan, rows_of_study, rows_of_tables

if TYPE_CHECKING:
    from brodmann.studies.work import Engine

Place = str | os.PathLike[str]


def run(
    config: Asked,
    *,
    changes: Changes | None = None,
    progress: bool | None = None,
    report: Report | None = None,
) -> Run:
    """Train, evaluate, map heads, measure dissociation and write the page; resumes if interrupted.

    `config` is the path of a configuration or run folder, or the same settings as a dict, whose
    tasks may hold rows in memory. `changes` are settings by dotted key.
    """
    from brodmann.pipeline.run import run as run_all
    from brodmann.training.processes import is_main

    settings, base = settle(config, changes)
    with followed(progress, report) as shown:
        run_all(settings, base, shown)
        if is_main():
            report_on([settings.folder], shown)
    return Run(settings.folder)


def train(
    config: Asked,
    *,
    changes: Changes | None = None,
    progress: bool | None = None,
    report: Report | None = None,
) -> Run:
    """Train without measuring anything; resumes if interrupted."""
    from brodmann.pipeline.train import train as train_all

    settings, base = settle(config, changes)
    with followed(progress, report) as shown:
        return Run(train_all(settings, base, shown))


def study(
    config: Asked,
    *,
    changes: Changes | None = None,
    progress: bool | None = None,
    report: Report | None = None,
) -> Outcome:
    """Run whichever study a configuration describes: its section, or `study.kind`, names it."""
    settings, base = settle(config, changes)
    return _studied(study_of(settings), settings, base, progress, report)


def grid(
    config: Asked,
    *,
    changes: Changes | None = None,
    engine: "Engine | None" = None,
    retries: int = 0,
    progress: bool | None = None,
    report: Report | None = None,
) -> Outcome:
    """Run every cell of a grid; finished cells are skipped.

    `engine` executes the cells elsewhere (`brodmann.studies.ray_engine`). A cell that fails, also
    after its `retries`, is a row whose state is "failed".
    """
    settings, base = settle(config, changes)
    options = {"engine": engine, "retries": retries}
    return _studied(load_study("grid"), settings, base, progress, report, **options)


def transfer(
    config: Asked,
    *,
    changes: Changes | None = None,
    progress: bool | None = None,
    report: Report | None = None,
) -> Outcome:
    """Measure few-shot transfer: train on many small draws of examples from given models."""
    settings, base = settle(config, changes)
    return _studied(load_study("transfer"), settings, base, progress, report)


def adapt(
    config: Asked,
    *,
    changes: Changes | None = None,
    progress: bool | None = None,
    report: Report | None = None,
) -> Outcome:
    """Add new tasks to a trained model: zero-shot scores from every start, then training."""
    settings, base = settle(config, changes)
    return _studied(load_study("adapt"), settings, base, progress, report)


def meta(
    config: Asked,
    *,
    changes: Changes | None = None,
    progress: bool | None = None,
    report: Report | None = None,
) -> Outcome:
    """Meta-learn over pairs of task and language, and test on pairs that were held out."""
    settings, base = settle(config, changes)
    return _studied(load_study("meta"), settings, base, progress, report)


def compare(
    config_or_runs: Asked | Run | Sequence[Place | Run],
    *,
    baseline: str | None = None,
    out: Place | None = None,
    changes: Changes | None = None,
    progress: bool | None = None,
    report: Report | None = None,
) -> Outcome:
    """Compare ways of training: scores over seeds, significance, dissociation.

    Takes a configuration with `[compare]`, whose arms are trained, or a list of finished runs.
    `out` is a folder for comparison.json.
    """
    from brodmann.studies.arms import run_arms
    from brodmann.studies.compare import compare_runs, grouped

    target = None if out is None else Path(out)
    runs = _runs(config_or_runs)
    if runs is not None:
        if changes:
            raise InputError("changes need a configuration: finished runs cannot be changed")
        arms = grouped(runs)
        if baseline is not None and baseline not in arms:
            raise InputError(f"no arm '{baseline}': expected one of {', '.join(arms)}")
        with followed(progress, report) as shown:
            found = compare_runs(arms, shown, baseline=baseline, to=target)
        return Outcome("compare", found, rows_of_comparison(found), target, shown.blocks)
    settings, base = settle(config_or_runs, changes)  # type: ignore[arg-type]
    with followed(progress, report) as shown:
        found = run_arms(settings, base, shown, baseline=baseline, to=target)
        if target is None:
            report_on([settings.folder], shown)
    place = target or settings.folder
    return Outcome("compare", found, rows_of_comparison(found), place, shown.blocks)


def plan(
    config: Asked,
    *,
    speed: float | None = None,
    changes: Changes | None = None,
    scale: str | None = None,
    data_dir: Place | None = None,
    output: Place | None = None,
    progress: bool | None = None,
    report: Report | None = None,
) -> Outcome:
    """Estimate steps, tokens, operations, memory and hours; after a run, also show what it took.

    `config` may also name a recipe, a table or a paper, counted without data; `scale`, `data_dir`
    (to time a few steps) and `output` are for these. `speed` is that of another machine, in
    operations per second.
    """
    from brodmann.papers.paper_plans import estimate_recipes, measure_recipe, recipes_named
    from brodmann.studies.plan.planning import make_plan

    named = isinstance(config, str | os.PathLike) and not Path(config).exists()
    if named and Path(str(config)).suffix != ".toml":
        recipes = recipes_named(str(config))
        if data_dir is not None and len(recipes) > 1:
            raise InputError(
                f"data_dir measures one recipe, but {config} names {len(recipes)}: name one"
            )
        if changes and data_dir is None:
            raise InputError("changes need a measured plan: a recipe is counted unchanged")
        with followed(progress, report) as shown:
            if data_dir is None:
                found = estimate_recipes(recipes, shown, scale=scale or "paper", speed=speed)
            else:
                found = measure_recipe(
                    recipes[0],
                    shown,
                    scale=scale or "mini",
                    output=Path(output or "runs"),
                    overrides=[*_texts(changes), f"data_dir={data_dir}"],
                    speed=speed,
                )
        return Outcome(f"plan of {config}", found, rows_of_plan(found), None, shown.blocks)
    given = {"scale": scale, "data_dir": data_dir, "output": output}
    if option := next((name for name, value in given.items() if value is not None), None):
        raise InputError(
            f"{option} is only for a recipe, table or paper: set it in the configuration"
        )
    settings, base = settle(config, changes)
    with followed(progress, report) as shown:
        found = make_plan(settings, base, shown, speed=speed)
    return Outcome(f"plan of {settings.name}", found, rows_of_plan(found), None, shown.blocks)


def reproduce(
    name: str,
    *,
    scale: str = "mini",
    data_dir: Place | None = None,
    output: Place = "runs",
    limit: int | None = None,
    engine: "Engine | None" = None,
    retries: int = 0,
    changes: Sequence[str] = (),
    progress: bool | None = None,
    report: Report | None = None,
) -> Outcome:
    """Run a table or figure of the papers here and compare it with the paper's numbers."""
    from brodmann.papers.reproduce import reproduce as run_again
    from brodmann.papers.tables import SCALES

    if scale not in SCALES:
        raise InputError(f"scale = '{scale}': expected one of {', '.join(SCALES)}")
    overrides = _texts(changes) + ([] if data_dir is None else [f"data_dir={data_dir}"])
    with followed(progress, report) as shown:
        found = run_again(
            name,
            shown,
            scale=scale,
            output=Path(output),
            overrides=overrides,
            limit=limit,
            engine=engine,
            retries=retries,
        )
    document = {"views": found}
    return Outcome(f"reproduce {name}", document, rows_of_tables(found), None, shown.blocks)


def report(
    runs: Place | Run | Sequence[Place | Run],
    *,
    out: Place | None = None,
    texts: bool = True,
    progress: bool | None = None,
    events: Report | None = None,
) -> Page:
    """Write one page about a run, a study, or several runs side by side, from stored results.

    Without `texts`, the page quotes no example.
    """
    given = [Path(runs)] if isinstance(runs, str | os.PathLike) else _runs(runs) or []
    if not given:
        raise InputError("report: expected at least one run, found none")
    folders = [reported_folder(path) for path in given]
    if out is None and len(folders) > 1:
        raise InputError("several runs: name the file for their page, for example out='both.html'")
    with followed(progress, events) as shown:
        place = None if out is None else Path(out)
        return Page(report_on(folders, shown, to=place, texts=texts))


def reported_folder(path: Path) -> Path:
    """The folder of a run or study that is named by itself, by its config.toml or by its TOML."""
    if path.name == "config.toml" and (path.parent / "provenance.json").is_file():
        return path.parent
    return settle(path)[0].folder if path.is_file() else path


def _studied(
    kind: Study,
    settings: Config,
    base: Path,
    progress: bool | None,
    report: Report | None,
    **options: Any,
) -> Outcome:
    """Run a study and write its page."""
    with followed(progress, report) as shown:
        document = kind.run(settings, base, shown, **options)
        folders = kind.folders(settings)
        to = None if folders == [settings.folder] else settings.folder / FILE
        report_on(folders, shown, to=to)
    rows = rows_of_study(kind.command, document)
    return Outcome(kind.command, document, rows, settings.folder, shown.blocks)


def _runs(given: Any) -> list[Path] | None:
    """Folders of finished runs, or None if it is a configuration."""
    if isinstance(given, Run):
        return [given.folder]
    if isinstance(given, str | os.PathLike):
        return [Path(given)] if (Path(given) / "config.toml").is_file() else None
    if isinstance(given, Sequence):
        return [one.folder if isinstance(one, Run) else Path(one) for one in given]
    return None


def _texts(changes: Changes | None) -> list[str]:
    """Changes as `--set` writes them."""
    if isinstance(changes, str) or changes is None or not isinstance(changes, Sequence):
        if not changes:
            return []
        raise InputError('changes: for a recipe, expected texts such as "training.epochs=1"')
    return list(changes)
