"""Commands that look at attention heads: map, dissociate."""

from pathlib import Path
from typing import Annotated

import typer

from brodmann.cli.options import RUNS, Json, Overrides, RunPath, app, is_main_process, loaded, view
from brodmann.errors import InputError


@app.command("map", rich_help_panel=RUNS)
def map_command(
    config: Annotated[
        str,
        typer.Argument(
            help="run folder, its configuration, or with --data any classifier (folder or hub id)",
            show_default=False,
        ),
    ],
    data: Annotated[
        Path | None, typer.Option(help="labelled file, for a classifier trained elsewhere")
    ] = None,
    text: Annotated[str, typer.Option(help="column with the text, with --data")] = "text",
    pair: Annotated[str | None, typer.Option(help="column with a second text, with --data")] = None,
    label: Annotated[str, typer.Option(help="column with the label, with --data")] = "label",
    examples: Annotated[int, typer.Option(help="rows to read, with --data", min=1)] = 1000,
    out: Annotated[
        Path | None, typer.Option(help="folder to write, with --data; default: NAME-heads")
    ] = None,
    device: Annotated[
        str, typer.Option(help="where the model runs, with --data: auto, cpu, cuda, mps or xpu")
    ] = "auto",
    overrides: Overrides = None,
    as_json: Json = False,
) -> None:
    """Map which attention heads matter to which task.

    Takes a trained run or, with a labelled file, any classifier.

    Example: brodmann map runs/demo --set map.estimator=leave_one_out (a classifier: brodmann map
    ./my-model --data reviews.csv --text body --label stars)
    """
    if data is not None:
        from brodmann.models.labelled_batches import Columns
        from brodmann.pipeline.map_checkpoint import FILE as CLASSIFIER_MAP
        from brodmann.pipeline.map_checkpoint import map_checkpoint

        if overrides:
            raise InputError("--set changes a configuration: with --data there is none")
        columns = Columns(text, pair, label)
        folder = out or Path(f"{Path(config).name}-heads")
        with view(as_json) as report:
            map_checkpoint(
                config, data, folder, report, columns=columns, examples=examples, device=device
            )
        if as_json:
            print((folder / CLASSIFIER_MAP).read_text(encoding="utf-8"))
        return
    usual = (None, None, "text", "label", 1000, "auto")
    if (out, pair, text, label, examples, device) != usual:
        raise InputError(
            "--text, --pair, --label, --examples, --out and --device need --data (for a run: "
            "--set device=cpu)"
        )
    settings, base = loaded(Path(config), overrides)
    from brodmann.pipeline.map import FILE, map_heads

    with view(as_json) as report:
        map_heads(settings, base, report)
    if as_json and is_main_process():
        print((settings.folder / FILE).read_text(encoding="utf-8"))


@app.command(rich_help_panel=RUNS)
def dissociate(config: RunPath, overrides: Overrides = None, as_json: Json = False) -> None:
    """Score all tasks with each task's top heads off.

    Measures how far the tasks have separated.

    Example: brodmann dissociate runs/demo --set dissociation.alpha=0.2
    """
    settings, base = loaded(config, overrides)
    from brodmann.pipeline.dissociate import FILE
    from brodmann.pipeline.dissociate import dissociate as measure

    with view(as_json) as report:
        measure(settings, base, report)
    if as_json and is_main_process():
        print((settings.folder / FILE).read_text(encoding="utf-8"))
