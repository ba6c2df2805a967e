"""Commands that train and measure: one run, its stages, and many runs."""

import json
from pathlib import Path
from typing import Annotated

import typer

from brodmann.cli.options import (
    RUNS,
    STUDIES,
    Address,
    ConfigPath,
    Cpus,
    EngineName,
    Gpus,
    Json,
    Overrides,
    Retries,
    RunPath,
    Workers,
    app,
    grid_engine,
    is_main_process,
    loaded,
    view,
)
from brodmann.errors import InputError, RunError


@app.command(rich_help_panel=RUNS)
def run(config: ConfigPath, overrides: Overrides = None, as_json: Json = False) -> None:
    """Train, evaluate, map heads, dissociate and write the page.

    Resumes an interrupted run.

    Example: brodmann run brodmann.toml --set training.epochs=1 (also under torchrun)
    """
    settings, base = loaded(config, overrides)
    from brodmann.pipeline.run import run as run_all
    from brodmann.studies.report import report_on

    with view(as_json) as report:
        result = run_all(settings, base, report)
        if not is_main_process():
            return
        page = report_on([settings.folder], report)
    if as_json:
        print(json.dumps({"folder": str(settings.folder), "report": str(page), **result}))


@app.command(rich_help_panel=RUNS)
def train(config: ConfigPath, overrides: Overrides = None, as_json: Json = False) -> None:
    """Train without measuring; also over several processes.

    Example: torchrun --nproc_per_node 2 -m brodmann train brodmann.toml
    """
    settings, base = loaded(config, overrides)
    from brodmann.pipeline.train import train as train_all

    with view(as_json) as report:
        folder = train_all(settings, base, report)
    if is_main_process():
        text = f"model: {folder / 'model'}"
        print(
            json.dumps({"folder": str(folder), "model": str(folder / "model")}) if as_json else text
        )


@app.command(rich_help_panel=RUNS)
def evaluate(config: RunPath, overrides: Overrides = None, as_json: Json = False) -> None:
    """Score a trained run on validation and test splits.

    Example: brodmann evaluate brodmann.toml --json
    """
    settings, base = loaded(config, overrides)
    from brodmann.pipeline.evaluate import evaluate as evaluate_all

    with view(as_json) as report:
        result = evaluate_all(settings, base, report)
    if as_json and is_main_process():
        print(json.dumps(result))


@app.command(rich_help_panel=STUDIES)
def grid(
    config: ConfigPath,
    engine: EngineName = "order",
    address: Address = None,
    workers: Workers = None,
    cpus: Cpus = 1,
    gpus: Gpus = 0,
    retries: Retries = 0,
    overrides: Overrides = None,
    as_json: Json = False,
) -> None:
    """Run every cell of a grid; finished cells are skipped.

    Example: brodmann grid study.toml --engine ray --workers 2
    """
    chosen = grid_engine(engine, address=address, workers=workers, cpus=cpus, gpus=gpus)
    from brodmann.verbs.running import grid as run_grid

    with view(as_json) as report:
        found = run_grid(config, changes=overrides, engine=chosen, retries=retries, report=report)
    if as_json:
        print(json.dumps(found.document))
    if failed := found.document["failed"]:
        raise RunError(f"{len(failed)} of {len(found.document['cells'])} cells failed")


@app.command(rich_help_panel=STUDIES)
def compare(
    paths: Annotated[
        list[Path], typer.Argument(help=r"a configuration with \[compare], or run folders")
    ],
    baseline: Annotated[str | None, typer.Option(help="the arm to compare with")] = None,
    out: Annotated[Path | None, typer.Option(help="folder to write comparison.json to")] = None,
    overrides: Overrides = None,
    as_json: Json = False,
) -> None:
    """Compare ways of training, or finished runs.

    Shows scores over seeds, significance and dissociation.

    Example: brodmann compare study.toml; brodmann compare runs/plain runs/iat
    """
    from brodmann.verbs.running import compare as compare_all

    single = len(paths) == 1 and not (paths[0] / "config.toml").is_file()
    if overrides and not single:
        raise InputError("--set needs a configuration: finished runs cannot be changed")
    with view(as_json) as report:
        found = compare_all(
            paths[0] if single else paths,
            baseline=baseline,
            out=out,
            changes=overrides,
            report=report,
        )
    if as_json:
        print(json.dumps(found.document))


@app.command(rich_help_panel=STUDIES)
def transfer(config: ConfigPath, overrides: Overrides = None, as_json: Json = False) -> None:
    r"""Measure few-shot transfer from given models.

    Trains on many small draws of examples.

    Example: brodmann transfer few.toml, where \[transfer] has starts = { plain = "runs/a" }
    """
    from brodmann.verbs.running import transfer as transfer_all

    with view(as_json) as report:
        found = transfer_all(config, changes=overrides, report=report)
    if as_json:
        print(json.dumps(found.document))


@app.command(rich_help_panel=STUDIES)
def distill(config: ConfigPath, overrides: Overrides = None, as_json: Json = False) -> None:
    r"""Train a small student from a trained teacher.

    Learns first the layers, then the answers, on all tasks.

    Example: brodmann distill small.toml, where \[distill] names teacher and student
    """
    settings, base = loaded(config, overrides)
    from brodmann.studies.distill import distill as make_student

    with view(as_json) as report:
        result = make_student(settings, base, report)
    if as_json:
        print(json.dumps(result))


@app.command(rich_help_panel=STUDIES)
def adapt(config: ConfigPath, overrides: Overrides = None, as_json: Json = False) -> None:
    r"""Add new tasks to a trained model.

    Scores every start without training first, then trains from one.

    Example: brodmann adapt new.toml, where \[adapt] has start = "runs/trained", like = "rte"
    """
    from brodmann.verbs.running import adapt as adapt_all

    with view(as_json) as report:
        found = adapt_all(config, changes=overrides, report=report)
    if as_json:
        print(json.dumps(found.document))


@app.command(rich_help_panel=STUDIES)
def meta(config: ConfigPath, overrides: Overrides = None, as_json: Json = False) -> None:
    r"""Meta-learn over pairs of task and language.

    Tests on pairs that were held out.

    Example: brodmann meta languages.toml, where \[meta] has unseen = ["sentiment-es"]
    """
    from brodmann.verbs.running import meta as meta_all

    with view(as_json) as report:
        found = meta_all(config, changes=overrides, report=report)
    if as_json:
        print(json.dumps(found.document))


@app.command(rich_help_panel=RUNS)
def plan(
    config: Annotated[
        Path, typer.Argument(help="a configuration, recipe, table or paper", show_default=False)
    ],
    speed: Annotated[
        float | None, typer.Option(help="operations per second of another machine, e.g. 1e14")
    ] = None,
    scale: Annotated[
        str | None, typer.Option(help="for a recipe: paper (counted without data) or mini")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="for a recipe: datasets on which to time a few steps")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="for a recipe: folder of its runs (default: runs)")
    ] = None,
    overrides: Overrides = None,
    as_json: Json = False,
) -> None:
    """Estimate time, memory and disk before anything runs.

    It counts steps, tokens and operations; after a run, it also shows what the run took.

    Example: brodmann plan study.toml; brodmann plan spec-table3 --scale paper --speed 1e14
    """
    from brodmann.papers.paper_plans import recipes_named
    from brodmann.verbs.running import plan as plan_all

    if not config.exists() and config.suffix != ".toml":
        named = recipes_named(str(config))
        if data_dir is not None and len(named) > 1:
            raise InputError(f"--data-dir measures one recipe, but {config} names {len(named)}")
        if overrides and data_dir is None:
            raise InputError("--set needs a measured plan: a recipe is counted unchanged")
    else:
        given = {"--scale": scale, "--data-dir": data_dir, "--output": output}
        if option := next((name for name, value in given.items() if value is not None), None):
            raise InputError(
                f"{option} is only for a recipe, table or paper: set it in the configuration"
            )
    with view(as_json) as report:
        found = plan_all(
            config,
            speed=speed,
            scale=scale,
            data_dir=data_dir,
            output=output,
            changes=overrides,
            report=report,
        )
    if as_json:
        print(json.dumps(found.document))


@app.command(rich_help_panel=RUNS)
def report(
    paths: Annotated[
        list[Path], typer.Argument(help="one or more runs, a study, or a configuration")
    ],
    text: Annotated[bool, typer.Option("--text", help="print it in the terminal instead")] = False,
    out: Annotated[Path | None, typer.Option(help="file to write the page to")] = None,
    texts: Annotated[
        bool, typer.Option("--texts/--no-texts", help="quote examples, or keep them off the page")
    ] = True,
    as_json: Json = False,
) -> None:
    """Write one page about a run, or several side by side.

    It reads stored results and runs nothing.

    Example: brodmann report runs/demo; brodmann report runs/plain runs/iat --out both.html
    """
    from brodmann.reporting.sections import sections
    from brodmann.studies.report import hide_texts, read_study, report_on
    from brodmann.verbs.running import reported_folder

    folders = [reported_folder(path) for path in paths]
    if out is None and len(folders) > 1 and not text:
        raise InputError("several runs: name the file for their page, for example --out both.html")
    if text:
        from brodmann.terminal.drawing import drawn
        from brodmann.terminal.width import LastingConsole

        console = LastingConsole()
        with view(as_json) as show:
            study = read_study(folders, show)
        if not texts:
            hide_texts(study)
        for part in drawn(sections(study)):
            console.print(part, highlight=False)
        return
    with view(as_json) as show:
        page = report_on(folders, show, to=out, texts=texts)
    if as_json:
        print(json.dumps({"report": str(page)}))
