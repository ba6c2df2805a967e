"""The command that goes from labelled files to a decision."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from brodmann.cli.options import START, Json, app, view


@app.command(rich_help_panel=START)
def advise(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="files or folders with labelled rows", show_default=False),
    ] = None,
    budget: Annotated[str, typer.Option(help="time to train, e.g. 30m or 2h")] = "30m",
    to: Annotated[Path, typer.Option(help="folder of everything that is written")] = Path("advice"),
    backbone: Annotated[
        str | None, typer.Option(help="hub id or folder; default: builtin:minilm")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="seed of divisions and trainings; default: 0", min=0)
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="train without asking")] = False,
    as_json: Json = False,
) -> None:
    """Find out which labelled files one model can serve.

    Looks at the files, tries what fits the budget, and recommends which tasks share a model.

    Example: brodmann advise reviews.csv names.jsonl --budget 30m --to advice
    """
    from brodmann.verbs.advising_verb import advise as advise_all

    def go_on(path: Path) -> bool:
        if yes:
            return True
        again = f"correct {path} if anything is wrong, then: brodmann advise --to {to} --yes"
        if as_json or not sys.stdin.isatty():
            print(again, file=sys.stderr)
            return False
        return typer.confirm("Is this right? Train now", default=True)

    with view(as_json) as report:
        found = advise_all(
            files or [],
            budget=budget,
            to=to,
            backbone=backbone,
            seed=seed,
            go_on=go_on,
            report=report,
        )
    if as_json and found is not None:
        print(json.dumps(found.document))
