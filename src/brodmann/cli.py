"""The `brodmann` command. Heavy imports stand inside the commands, so that --help is quick."""

import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from brodmann import __version__
from brodmann.errors import BrodmannError, InputError, RunError, did_you_mean, disk_error

app = typer.Typer(
    name="brodmann",
    help="One Transformer encoder for many language tasks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ConfigPath = Annotated[Path, typer.Argument(help="configuration (TOML)", show_default=False)]
RunPath = Annotated[
    Path, typer.Argument(help="run folder, or its configuration", show_default=False)
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="change a setting, repeatable"),
]
Json = Annotated[bool, typer.Option("--json", help="print JSON for a program to read")]


def main() -> None:
    """Run the command; what a user can mend is one line on stderr, never a traceback."""
    try:
        code = app(standalone_mode=False)  # typer's own messages are several lines in a box
        sys.stdout.flush()
    except BrodmannError as error:
        _complain(str(error))
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        _complain("stopped")
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has gone: not our failure
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:  # a path that cannot be what it is asked to be
        if error.filename is None:
            raise
        known = disk_error(error, error.filename)
        _complain(str(known or f"{error.filename}: {error.strerror}"))
        sys.exit(2)
    except Exception as error:
        if not hasattr(error, "format_message"):  # typer's usage errors have it
            raise
        _complain(f"{error.format_message()} (see `brodmann --help`)")
        sys.exit(2)
    if code == 130:  # typer's own answer to Ctrl-C
        _complain("stopped")
    sys.exit(code if isinstance(code, int) else 0)


def _complain(text: str) -> None:
    # Of the processes on a machine one speaks; a message is one line however long.
    if int(os.environ.get("LOCAL_RANK", "0")) <= 0:
        print(f"brodmann: {' '.join(text.split())}", file=sys.stderr)


@contextmanager
def _view(as_json: bool) -> Iterator[Any]:
    """The report function of a run: a live view, or nothing where a program reads or rank > 0."""
    if as_json or int(os.environ.get("RANK", "0")) != 0:
        yield lambda event, facts: None
        return
    from brodmann.console import LastingConsole, RunView

    view = RunView(LastingConsole())
    try:
        yield view
    finally:
        view.close()


def _loaded(config: Path, overrides: list[str] | None) -> Any:
    from brodmann.config import load_config

    return load_config(config, overrides)


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="print the version")] = False,
) -> None:
    if show:
        print(f"brodmann {__version__}")
        raise typer.Exit


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="where to write")] = Path(),
) -> None:
    """Write a commented starter configuration with small sample files.

    Example: brodmann init mine && brodmann run mine/brodmann.toml
    """
    from brodmann.pipeline.init import write_starter

    for path in write_starter(folder):
        print(f"wrote {path}")
    print(f"next: brodmann run {folder / 'brodmann.toml'}")


@app.command()
def run(config: ConfigPath, overrides: Overrides = None, as_json: Json = False) -> None:
    """The whole chain: train, evaluate, map heads, dissociate. Goes on with what is unfinished.

    Example: brodmann run brodmann.toml --set training.epochs=1
    """
    settings, base = _loaded(config, overrides)
    from brodmann.pipeline.run import run as run_all

    with _view(as_json) as report:
        result = run_all(settings, base, report)
    if as_json:
        print(json.dumps({"folder": str(settings.folder), **result}))


@app.command()
def train(config: ConfigPath, overrides: Overrides = None, as_json: Json = False) -> None:
    """Train only; also over several processes.

    Example: torchrun --nproc_per_node 2 -m brodmann train brodmann.toml
    """
    settings, base = _loaded(config, overrides)
    from brodmann.pipeline.train import train as train_all

    with _view(as_json) as report:
        folder = train_all(settings, base, report)
    if int(os.environ.get("RANK", "0")) == 0:
        text = f"model: {folder / 'model'}"
        print(
            json.dumps({"folder": str(folder), "model": str(folder / "model")}) if as_json else text
        )


@app.command()
def evaluate(config: RunPath, overrides: Overrides = None, as_json: Json = False) -> None:
    """Score a trained run on its validation and test splits.

    Example: brodmann evaluate brodmann.toml --json
    """
    settings, base = _loaded(config, overrides)
    from brodmann.pipeline.evaluate import evaluate as evaluate_all

    with _view(as_json) as report:
        result = evaluate_all(settings, base, report)
    if as_json:
        print(json.dumps(result))


@app.command("map")
def map_command(config: RunPath, overrides: Overrides = None, as_json: Json = False) -> None:
    """Which attention heads matter to which task, from a trained run.

    Example: brodmann map runs/demo --set map.estimator=leave_one_out
    """
    settings, base = _loaded(config, overrides)
    from brodmann.pipeline.map import FILE, map_heads

    with _view(as_json) as report:
        map_heads(settings, base, report)
    if as_json:
        print((settings.folder / FILE).read_text(encoding="utf-8"))


@app.command()
def dissociate(config: RunPath, overrides: Overrides = None, as_json: Json = False) -> None:
    """How far the tasks have separated: scores with each task's top heads off.

    Example: brodmann dissociate runs/demo --set dissociation.alpha=0.2
    """
    settings, base = _loaded(config, overrides)
    from brodmann.pipeline.dissociate import FILE
    from brodmann.pipeline.dissociate import dissociate as measure

    with _view(as_json) as report:
        measure(settings, base, report)
    if as_json:
        print((settings.folder / FILE).read_text(encoding="utf-8"))


@app.command()
def prune(
    config: RunPath,
    alpha: Annotated[float, typer.Option(help="share of the heads to remove")] = 0.3,
    order: Annotated[str, typer.Option(help="least, top (important) or random")] = "least",
    task: Annotated[str | None, typer.Option(help="by this task's map; otherwise all")] = None,
    to: Annotated[Path | None, typer.Option(help="folder of the smaller model")] = None,
    overrides: Overrides = None,
    as_json: Json = False,
) -> None:
    """Remove heads for good: a smaller model, with its size, speed and scores.

    Example: brodmann prune runs/demo --alpha 0.3 --order least
    """
    settings, base = _loaded(config, overrides)
    from brodmann.pipeline.prune import prune as make_smaller

    with _view(as_json) as report:
        result = make_smaller(settings, base, report, alpha=alpha, order=order, task=task, to=to)
    if as_json:
        print(json.dumps(result))


@app.command()
def export(
    model: Annotated[Path, typer.Argument(help="run or model folder", show_default=False)],
    task: Annotated[str, typer.Option(help="the task to take out", show_default=False)],
    form: Annotated[str, typer.Option("--to", help="transformers or onnx")] = "transformers",
    out: Annotated[Path | None, typer.Option(help="folder to write")] = None,
    zeroed: Annotated[bool, typer.Option(help="fill removed heads with zeros")] = False,
) -> None:
    """One task as an ordinary transformers checkpoint, or as ONNX.

    Example: brodmann export runs/demo --task sentiment --to onnx
    """
    _check_model_folder(model)
    from brodmann.pipeline.export import export as write

    folder, difference = write(model, task, form, out, zeroed=zeroed)
    print(f"wrote {folder}")
    if difference is not None:
        print(f"ONNX Runtime agrees with torch to {difference:.1g}")


@app.command()
def grid(config: ConfigPath, overrides: Overrides = None, as_json: Json = False) -> None:
    """Many runs from one configuration, in order; finished ones are skipped.

    Example: brodmann grid study.toml, where study.toml has [grid] vary = { seed = [0, 1, 2] }
    """
    settings, base = _loaded(config, overrides)
    from brodmann.grid import run_grid

    with _view(as_json) as report:
        summary = run_grid(settings, base, report)
    if as_json:
        print(json.dumps(summary))
    if summary["failed"]:
        raise RunError(f"{len(summary['failed'])} of {len(summary['cells'])} cells failed")


def _check_model_folder(model: Path) -> None:
    if not model.is_dir():
        raise InputError(f"{model}: no such folder, expected a run or a model folder")
    from brodmann.models.multitask import is_model_folder

    if not is_model_folder(model) and not is_model_folder(model / "model"):
        unfinished = (model / "checkpoints").is_dir()
        text = "the run is not finished, run it again" if unfinished else "no trained model there"
        raise InputError(f"{model}: {text}")


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="run or model folder", show_default=False)],
    file: Annotated[
        Path | None, typer.Argument(help="table or lines of text; stdin if left out")
    ] = None,
    task: Annotated[str | None, typer.Option(help="one task only; otherwise all that fit")] = None,
) -> None:
    """Answer for every line (a text, or JSON with the task's columns): JSON lines to stdout.

    Example: echo "A wonderful film." | brodmann predict runs/demo
    """
    from brodmann.pipeline.predict import answers, inputs_from_file, inputs_from_lines

    _check_model_folder(model)
    from brodmann.models.multitask import MultiTaskModel

    if file is None and isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="strict")
    inputs = inputs_from_lines(sys.stdin, "stdin") if file is None else inputs_from_file(file)
    loaded = MultiTaskModel.from_pretrained(model)
    if task is not None:
        loaded.spec(task)
    answered = 0
    for answer in answers(loaded, task, inputs):
        print(json.dumps(answer, ensure_ascii=False), flush=True)
        answered += 1
    if not answered:
        _complain("no input: nothing to answer")


@app.command()
def tasks(
    group: Annotated[str | None, typer.Option(help="only this group, e.g. pair")] = None,
    kind: Annotated[str | None, typer.Option(help="only this kind")] = None,
    language: Annotated[str | None, typer.Option(help="only this language")] = None,
    as_json: Json = False,
) -> None:
    """List the tasks that have a name.

    Example: brodmann tasks --kind classification --language es
    """
    from dataclasses import asdict

    from brodmann.data.catalogue import named_tasks

    listed = named_tasks()
    for option, value, known in (
        ("group", group, {task.group for task in listed} | {"builtin"}),
        ("kind", kind, {task.kind for task in listed}),
        ("language", language, {task.language for task in listed}),
    ):
        if value is not None and value not in known:
            raise InputError(
                f"--{option} {value}: no such task{did_you_mean(value, sorted(known))}"
            )
    chosen = [
        task
        for task in listed
        if (group is None or group in (task.group, task.name.partition("/")[0]))
        and (kind is None or task.kind == kind)
        and (language is None or task.language == language)
    ]
    if as_json:
        print(json.dumps([asdict(task) for task in chosen]))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(header_style="bold")
    for title in ("name", "kind", "group", "labels", "what"):
        table.add_column(title, overflow="fold", no_wrap=title == "name")
    for task in chosen:
        labels = ", ".join(task.labels) if task.labels else "–"
        table.add_row(task.name, task.kind, task.group, labels, task.description)
    Console().print(table)


@app.command()
def doctor(as_json: Json = False) -> None:
    """Look at the environment: versions, processor, what is installed, what is not.

    Example: brodmann doctor
    """
    from brodmann.pipeline.doctor import examine

    facts = examine()
    if as_json:
        print(json.dumps(facts))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for check in facts["checks"]:
        mark = "[green]ok[/green]" if check["ok"] else "[yellow]–[/yellow]"
        table.add_row(mark, check["name"], check["text"])
    Console().print(table)
