"""Commands about many tasks or many runs: relations of tasks; the papers' tables and figures."""

import json
from pathlib import Path
from typing import Annotated

import typer

from brodmann.cli.options import (
    PAPERS,
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
    loaded,
    print_blocks,
    view,
)
from brodmann.errors import InputError, RunError, did_you_mean


@app.command(rich_help_panel=PAPERS)
def relate(
    config: RunPath,
    by: Annotated[
        str,
        typer.Option(
            help="words, groups, pairs (trainings); covsim, dse, cra, ahp, cnm, attention (of runs)"
        ),
    ] = "words",
    clusters: Annotated[
        int | None, typer.Option(help="number of clusters; default: the clearest")
    ] = None,
    pieces: Annotated[
        bool, typer.Option("--pieces", help="for words: compare the backbone's word pieces instead")
    ] = False,
    limit: Annotated[
        int, typer.Option(help="for pairs: training examples per task; 0: all")
    ] = 1000,
    examples: Annotated[
        int,
        typer.Option(
            help="texts per task (covsim, attention) or of all tasks together (dse, cra), held-out "
            "examples per target (ahp)"
        ),
    ] = 1000,
    other: Annotated[
        Path | None, typer.Option("--with", help="for attention: the run to compare with")
    ] = None,
    voxels: Annotated[Path | None, typer.Option(help="for cnm: folder of the fMRI files")] = None,
    corpus: Annotated[
        Path | None,
        typer.Option(
            help="for dse, cra: text file with one sentence per line, instead of the tasks' texts"
        ),
    ] = None,
    advise: Annotated[
        Path | None, typer.Option(help="write a configuration that follows the result")
    ] = None,
    overrides: Overrides = None,
    as_json: Json = False,
) -> None:
    """Measure how tasks relate, by their data or inside a run.

    By words, groups or pair trainings, or by what trained encoders do.

    Example: brodmann relate study.toml --by pairs --advise better.toml
    """
    from brodmann.measuring.relations import RELATIONS, names_of

    if by not in RELATIONS:
        raise InputError(f"--by {by}{did_you_mean(by, RELATIONS)}")
    relation = RELATIONS[by]
    relevances = names_of("data", "trainings")
    if by not in relevances and (advise is not None or clusters is not None):
        option = "--advise" if advise is not None else "--clusters"
        listed = f"{', '.join(relevances[:-1])} or {relevances[-1]}"
        raise InputError(f"{option} needs --by {listed}")
    if pieces and not relation.pieces:
        able = [name for name, one in RELATIONS.items() if one.pieces]
        raise InputError(f"--pieces needs --by {' or '.join(able)}")
    if (other is not None) != (relation.of == "two runs"):
        raise InputError(f"--by {names_of('two runs')[0]} and --with RUN need each other")
    if (voxels is not None) != relation.voxels:
        needing = next(name for name, one in RELATIONS.items() if one.voxels)
        raise InputError(f"--by {needing} and --voxels FOLDER need each other")
    if corpus is not None and not relation.sentences:
        able = [name for name, one in RELATIONS.items() if one.sentences]
        raise InputError(f"--corpus needs --by {' or '.join(able)}")
    from brodmann.studies.pair_trainings import advise as write_advice
    from brodmann.studies.pair_trainings import check_target
    from brodmann.verbs.using import relate as relate_all

    settings, _ = loaded(config, overrides)
    if advise is not None:
        check_target(advise)
    with view(as_json) as report:
        found = relate_all(
            config,
            by=by,
            clusters=clusters,
            examples=examples,
            limit=limit,
            other=other,
            voxels=voxels,
            corpus=corpus,
            pieces=pieces,
            changes=overrides,
            report=report,
        )
        if advise is not None:
            reasons = write_advice(settings, dict(found.document), advise)
            report("advice", {"reasons": reasons, "file": advise})
    if as_json:
        print(json.dumps(found.document))


@app.command(rich_help_panel=STUDIES)
def study(config: ConfigPath, overrides: Overrides = None, as_json: Json = False) -> None:
    r"""Run whichever study a configuration describes.

    Its section names the study: \[grid], \[compare] and others, or \[study] with a kind.

    Example: brodmann study mine.toml
    """
    from brodmann.verbs.running import study as run_study

    with view(as_json) as report:
        found = run_study(config, changes=overrides, report=report)
    if as_json:
        print(json.dumps(found.document))


@app.command(rich_help_panel=PAPERS)
def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="a table, figure or recipe; default: list them all")
    ] = None,
    scale: Annotated[str, typer.Option(help="mini (minutes to hours here) or paper")] = "mini",
    data_dir: Annotated[Path | None, typer.Option(help="folder of datasets")] = None,
    output: Annotated[Path, typer.Option(help="folder of runs")] = Path("runs"),
    limit: Annotated[
        int | None, typer.Option(min=1, help="examples per task and split, to try it out")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="check that every table and figure has a recipe")
    ] = False,
    engine: EngineName = "order",
    address: Address = None,
    workers: Workers = None,
    cpus: Cpus = 1,
    gpus: Gpus = 0,
    retries: Retries = 0,
    overrides: Overrides = None,
    as_json: Json = False,
) -> None:
    """Repeat a paper's table or figure beside its numbers.

    Example: brodmann reproduce spec-table3 --scale mini --data-dir data
    """
    from brodmann.papers.recipes import index, missing
    from brodmann.papers.reproduce import reproduce as run_again
    from brodmann.papers.tables import SCALES, listed, recipe_list

    if scale not in SCALES:
        raise InputError(f"--scale {scale}: expected one of {', '.join(SCALES)}")
    if check:
        if name is not None:
            raise InputError(f"--check covers all tables and figures: leave out '{name}'")
        lacking = missing()
        covered = {"covered": len(index()) - len(lacking), "of": len(index()), "missing": lacking}
        text = "{covered} of {of} tables and figures have a recipe".format(**covered)
        print(json.dumps(covered) if as_json else text)
        if lacking:
            raise RunError(f"without a recipe: {', '.join(lacking)}")
        return
    if name is None:
        rows = listed(output)
        if as_json:
            print(json.dumps(rows))
            return
        print_blocks(recipe_list(rows))
        return
    changes = list(overrides or [])
    if data_dir is not None:
        changes.append(f"data_dir={data_dir}")
    chosen = grid_engine(engine, address=address, workers=workers, cpus=cpus, gpus=gpus)
    with view(as_json) as report:
        documents = run_again(
            name,
            report,
            scale=scale,
            output=output,
            overrides=changes,
            limit=limit,
            engine=chosen,
            retries=retries,
        )
    if as_json:
        print(json.dumps(documents))
