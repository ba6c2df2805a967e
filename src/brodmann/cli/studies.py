"""Commands about the papers: their tables and figures, run again."""

import json
from pathlib import Path
from typing import Annotated

import typer

from brodmann.cli.shared import (
    Address,
    EngineName,
    Json,
    Overrides,
    Workers,
    app,
    grid_engine,
    view,
)
from brodmann.errors import RunError


@app.command()
def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="a table, figure or recipe; left out: list them all")
    ] = None,
    scale: Annotated[str, typer.Option(help="mini (minutes to hours here) or paper")] = "mini",
    data_dir: Annotated[Path | None, typer.Option(help="folder of datasets")] = None,
    output: Annotated[Path, typer.Option(help="folder of runs")] = Path("runs"),
    check: Annotated[bool, typer.Option("--check", help="is there a recipe for each?")] = False,
    engine: EngineName = "order",
    address: Address = None,
    workers: Workers = None,
    overrides: Overrides = None,
    as_json: Json = False,
) -> None:
    """A table or figure of the papers, run here and set beside the paper's numbers.

    Example: brodmann reproduce spec-table3 --scale mini --data-dir data
    """
    from brodmann.recipes import index, missing
    from brodmann.reproduce import listed
    from brodmann.reproduce import reproduce as run_again

    if check:
        lacking = missing()
        print(f"{len(index()) - len(lacking)} of {len(index())} tables and figures have a recipe")
        if lacking:
            raise RunError(f"without a recipe: {', '.join(lacking)}")
        return
    if name is None:
        rows = listed(output)
        if as_json:
            print(json.dumps(rows))
            return
        from brodmann.console import LastingConsole
        from brodmann.console_plan import recipes_table

        LastingConsole().print(recipes_table(rows))
        return
    changes = list(overrides or [])
    if data_dir is not None:
        changes.append(f"data_dir={data_dir}")
    chosen = grid_engine(engine, address=address, workers=workers)
    with view(as_json) as report:
        documents = run_again(
            name, report, scale=scale, output=output, overrides=changes, engine=chosen
        )
    if as_json:
        print(json.dumps(documents))
