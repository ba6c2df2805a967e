"""Commands that make a trained model smaller: prune, compress."""

import json
from pathlib import Path
from typing import Annotated

import typer

from brodmann.cli.options import USE, Json, Overrides, RunPath, app, loaded, view


@app.command(rich_help_panel=USE)
def prune(
    config: RunPath,
    alpha: Annotated[float, typer.Option(help="share of the heads to remove")] = 0.3,
    order: Annotated[
        str, typer.Option(help="heads to remove: least or top (by importance), or random")
    ] = "least",
    task: Annotated[
        str | None, typer.Option(help="use this task's map; default: all tasks together")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="folder of the smaller model")] = None,
    overrides: Overrides = None,
    as_json: Json = False,
) -> None:
    """Remove heads for good; report size, speed and scores.

    Example: brodmann prune runs/demo --alpha 0.3 --order least
    """
    settings, base = loaded(config, overrides)
    from brodmann.pipeline.prune import prune as make_smaller

    with view(as_json) as report:
        result = make_smaller(settings, base, report, alpha=alpha, order=order, task=task, to=out)
    if as_json:
        print(json.dumps(result))


@app.command(rich_help_panel=USE)
def compress(
    config: RunPath,
    lose: Annotated[float, typer.Option(help="points that a task may lose")] = 1.0,
    latency: Annotated[
        float | None, typer.Option(help="share of the time to reach; default: the least that holds")
    ] = None,
    size: Annotated[
        float | None, typer.Option(help="share of the parameters to reach, instead of the time")
    ] = None,
    recover: Annotated[
        int, typer.Option(help="epochs of learning from the whole model after each step", min=0)
    ] = 0,
    vocabulary: Annotated[
        str, typer.Option(help="pieces that stay: keep, data (those in use), or a text file's, too")
    ] = "keep",
    drop: Annotated[list[str] | None, typer.Option(help="leave this task out (repeatable)")] = None,
    out: Annotated[Path | None, typer.Option(help="folder of the smaller model")] = None,
    overrides: Overrides = None,
    as_json: Json = False,
) -> None:
    """Make the fastest model that loses no more than you allow.

    Example: brodmann compress runs/demo --lose 1
    """
    settings, base = loaded(config, overrides)
    from brodmann.pipeline.compress import checked_wishes
    from brodmann.pipeline.compress import compress as make_smaller

    wishes = checked_wishes(
        lose=lose,
        latency=latency,
        size=size,
        recover=recover,
        vocabulary=vocabulary,
        drop=drop or (),
    )
    with view(as_json) as report:
        result = make_smaller(settings, base, report, wishes=wishes, to=out)
    if as_json:
        print(json.dumps(result))
    if "folder" not in result:
        raise typer.Exit(1)
