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
from brodmann.errors import BrodmannError, InputError, RunError, disk_error

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


@app.command()
def compare(
    paths: Annotated[
        list[Path], typer.Argument(help="a configuration with [compare], or run folders")
    ],
    baseline: Annotated[str | None, typer.Option(help="the arm to compare with")] = None,
    to: Annotated[Path | None, typer.Option(help="folder for comparison.json")] = None,
    overrides: Overrides = None,
    as_json: Json = False,
) -> None:
    """Ways of training side by side: scores over seeds, significance, dissociation.

    Example: brodmann compare study.toml; brodmann compare runs/plain runs/iat
    """
    if len(paths) == 1 and not (paths[0] / "config.toml").is_file():
        settings, base = _loaded(paths[0], overrides)
        from brodmann.arms import run_arms

        with _view(as_json) as report:
            result = run_arms(settings, base, report, baseline=baseline, to=to)
    else:
        from brodmann.pipeline.compare import compare_runs, grouped

        if overrides:
            raise InputError("--set is for a configuration: finished runs stay as they are")
        arms = grouped(paths)
        if baseline is not None and baseline not in arms:
            raise InputError(f"no arm '{baseline}': there are {', '.join(arms)}")
        with _view(as_json) as report:
            result = compare_runs(arms, report, baseline=baseline, to=to)
    if as_json:
        print(json.dumps(result))


@app.command()
def transfer(config: ConfigPath, overrides: Overrides = None, as_json: Json = False) -> None:
    """Few-shot transfer: trained models learn new tasks from a few examples, many times over.

    Example: brodmann transfer few.toml, where few.toml has [transfer] starts = { plain = "runs/a" }
    """
    settings, base = _loaded(config, overrides)
    from brodmann.pipeline.transfer import transfer as transfer_all

    with _view(as_json) as report:
        summary = transfer_all(settings, base, report)
    if as_json:
        print(json.dumps(summary))


@app.command()
def distill(config: ConfigPath, overrides: Overrides = None, as_json: Json = False) -> None:
    """A small student learns all tasks from a trained teacher: layers first, then answers.

    Example: brodmann distill small.toml, where [distill] names teacher and student
    """
    settings, base = _loaded(config, overrides)
    from brodmann.pipeline.distill import distill as make_student

    with _view(as_json) as report:
        result = make_student(settings, base, report)
    if as_json:
        print(json.dumps(result))


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
def submission(
    model: Annotated[Path, typer.Argument(help="run or model folder", show_default=False)],
    benchmark: Annotated[str, typer.Argument(help="glue or superglue", show_default=False)],
    to: Annotated[Path | None, typer.Option(help="the zip; BENCHMARK.zip if left out")] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="folder of datasets; the run's own if left out")
    ] = None,
    partial: Annotated[bool, typer.Option(help="only the tasks the model has")] = False,
    as_json: Json = False,
) -> None:
    """Answer a benchmark's unlabelled test sets: the zip that its server takes.

    Example: brodmann submission runs/glue glue --to glue.zip --data-dir data
    """
    _check_model_folder(model)
    from brodmann.pipeline.submission import submission as write

    target = to or Path(f"{benchmark}.zip")
    if data_dir is None and (model / "config.toml").is_file():
        data_dir = Path(_loaded(model, None)[0].data_dir)
    data_dir = (data_dir or Path()).expanduser()
    with _view(as_json) as report:
        counts = write(model, benchmark, target, data_dir, partial=partial, report=report)
    print(json.dumps({"file": str(target), **counts}) if as_json else f"wrote {target}")


@app.command()
def tasks(
    name: Annotated[
        str | None, typer.Argument(help="one task, in full", show_default=False)
    ] = None,
    group: Annotated[str | None, typer.Option(help="only this group, e.g. glue, sentiment")] = None,
    kind: Annotated[str | None, typer.Option(help="only this kind")] = None,
    language: Annotated[str | None, typer.Option(help="only with this language")] = None,
    fetch: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="write this dataset's files, repeatable"),
    ] = None,
    to: Annotated[Path | None, typer.Option(help="folder for --fetch, a later data_dir")] = None,
    as_json: Json = False,
) -> None:
    """List the tasks that have a name, or fetch their data from the hub for machines without it.

    Example: brodmann tasks --group glue; brodmann tasks --fetch glue/sst2 --to data
    """
    from brodmann.data import catalogue

    if fetch:
        if name is not None:
            raise InputError(f"tasks {name}: give it as --fetch {name}")
        _fetch(fetch, to, as_json)
        return
    if to is not None:
        raise InputError("--to is for --fetch: name what to fetch")
    if name is not None:
        entry, _ = catalogue.find(name)
        facts = catalogue.facts(entry)
        if as_json:
            print(json.dumps(facts))
            return
        from brodmann.console_tables import entry_table

        _print(entry_table(facts))
        return
    chosen = catalogue.chosen(group, kind, language)
    if as_json:
        print(json.dumps([catalogue.facts(entry) for entry in chosen]))
        return
    from brodmann.console_tables import catalogue_table

    _print(catalogue_table(chosen))


def _fetch(names: list[str], to: Path | None, as_json: bool) -> None:
    from brodmann.data import catalogue
    from brodmann.data.hub import fetch

    if to is None:
        raise InputError("--fetch needs --to DIR, the folder to write into")
    wanted = [(catalogue.find(name), name) for name in names]  # all known, before any is fetched
    say = (lambda text: None) if as_json else print
    written: dict[str, int] = {}

    def wrote(path: Path, rows: int) -> None:
        written[str(path)] = rows
        say(f"  wrote {path} ({rows:,} rows)")

    for (entry, languages), _ in wanted:
        for language in languages:
            say(f"{entry.named(language)} ({entry.licence or 'licence not stated'})")
            fetch(entry, language, to, wrote)
    if as_json:
        print(json.dumps(written))


def _print(table: Any) -> None:
    from rich.console import Console

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
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for check in facts["checks"]:
        mark = "[green]ok[/green]" if check["ok"] else "[yellow]–[/yellow]"
        table.add_row(mark, check["name"], check["text"])
    _print(table)
