"""Shared parts of the commands: the application, common options, messages and views."""

import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from brodmann import __version__
from brodmann.errors import InputError, did_you_mean, visible
from brodmann.training.events import Report, silent

if TYPE_CHECKING:
    from brodmann.reporting.blocks import Block

# The groups of commands in the help.
START = "Start"
RUNS = "Train and measure"
USE = "Use a trained model"
STUDIES = "Many runs"
PAPERS = "Tasks and papers"

app = typer.Typer(
    name="brodmann",
    help="One Transformer encoder for many language tasks.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

ConfigPath = Annotated[Path, typer.Argument(help="configuration (TOML)", show_default=False)]
RunPath = Annotated[
    Path, typer.Argument(help="run folder or its configuration", show_default=False)
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="change a setting (repeatable)"),
]
EngineName = Annotated[str, typer.Option(help="order (one cell after the other) or ray")]
Address = Annotated[str | None, typer.Option(help="address of a running Ray cluster, or auto")]
Workers = Annotated[
    int | None, typer.Option(help="cells that run at once on this machine, with ray")
]
Cpus = Annotated[float, typer.Option(help="cores per cell, with ray")]
Gpus = Annotated[float, typer.Option(help="GPUs per cell, with ray")]
Retries = Annotated[int, typer.Option(help="how often to retry a failed cell", min=0)]
Device = Annotated[
    str, typer.Option(help="where the model runs: auto (the best here), cpu, cuda, mps or xpu")
]
Json = Annotated[bool, typer.Option("--json", help="print JSON for a program to read")]


def complain(text: str) -> None:
    # Only one process per machine prints; a message is one line however long it is.
    if int(os.environ.get("LOCAL_RANK", "0")) <= 0:
        print(f"brodmann: {visible(' '.join(text.split()))}", file=sys.stderr)


@contextmanager
def view(as_json: bool) -> Iterator[Report]:
    """Yield a run's report function: a live view, or none under --json and in ranks above 0."""
    if int(os.environ.get("RANK", "0")) != 0:
        with noted(lambda text: None):
            yield silent
        return
    if as_json:
        with noted(lambda text: complain(f"note: {text}")):
            yield silent
        return
    from brodmann.terminal.view import RunView
    from brodmann.terminal.width import LastingConsole

    view = RunView(LastingConsole())
    try:
        with noted(lambda text: view("note", {"text": text})):
            yield view
    finally:
        view.close()


@contextmanager
def noted(say: Callable[[str], None]) -> Iterator[None]:
    """Pass every `errors.note` on to `say` inside the block."""

    class Notes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            say(record.getMessage())

    logger, handler = logging.getLogger("brodmann"), Notes()
    before = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False  # print it once, even if a library configured the root logger
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


def is_main_process() -> bool:
    """Whether this process prints and writes: only the first of several does."""
    return int(os.environ.get("RANK", "0")) == 0


def loaded(config: Path, overrides: list[str] | None) -> Any:
    from brodmann.config import load_config

    return load_config(config, overrides)


def grid_engine(
    name: str,
    *,
    address: str | None,
    workers: int | None,
    cpus: float,
    gpus: float,
) -> Any:
    """The engine that executes grid cells."""
    if name not in ("order", "ray"):
        raise InputError(f"--engine {name}{did_you_mean(name, ('order', 'ray'))}")
    if name == "order" and (address is not None or workers is not None):
        raise InputError("--address and --workers need --engine ray")
    if name == "order" and (cpus != 1 or gpus != 0):
        raise InputError("--cpus and --gpus need --engine ray")
    if name == "order":
        return None
    from brodmann.studies.ray_engine import ray_engine

    return ray_engine(address=address, workers=workers, cpus=cpus, gpus=gpus)


def check_model_folder(model: Path) -> None:
    if not model.is_dir():
        raise InputError(f"{model}: no such folder, expected a run or a model folder")
    from brodmann.models.saving import is_model_folder, refuse_export

    if not is_model_folder(model) and not is_model_folder(model / "model"):
        refuse_export(model)
        if not (model / "checkpoints").is_dir():
            raise InputError(f"{model}: no trained model in it")
        from brodmann.config import load_config
        from brodmann.studies import study_of

        place = model / "config.toml"
        command = study_of(load_config(place)[0]).command
        raise InputError(
            f"{model}: its training is not finished: `brodmann {command} {place}` resumes it"
        )


def print_blocks(blocks: "Sequence[Block]") -> None:
    from brodmann.terminal.drawing import drawn_blocks
    from brodmann.terminal.width import LastingConsole

    console = LastingConsole()
    for part in drawn_blocks(blocks):
        console.print(part, highlight=False)


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="print the version")] = False,
) -> None:
    if show:
        print(f"brodmann {__version__}")
        raise typer.Exit
