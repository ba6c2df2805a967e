"""Commands that use a trained model: prune, export, predict, submit to a benchmark."""

import io
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from brodmann.cli.options import (
    Device,
    Json,
    Overrides,
    RunPath,
    app,
    check_model_folder,
    complain,
    loaded,
    view,
)
from brodmann.errors import InputError, visible


@app.command()
def prune(
    config: RunPath,
    alpha: Annotated[float, typer.Option(help="share of the heads to remove")] = 0.3,
    order: Annotated[
        str, typer.Option(help="heads to remove: least or top (by importance), or random")
    ] = "least",
    task: Annotated[
        str | None, typer.Option(help="use this task's map; default: all tasks together")
    ] = None,
    to: Annotated[Path | None, typer.Option(help="folder of the smaller model")] = None,
    overrides: Overrides = None,
    as_json: Json = False,
) -> None:
    """Remove heads permanently: write a smaller model and report its size, speed and scores.

    Example: brodmann prune runs/demo --alpha 0.3 --order least
    """
    settings, base = loaded(config, overrides)
    from brodmann.pipeline.prune import prune as make_smaller

    with view(as_json) as report:
        result = make_smaller(settings, base, report, alpha=alpha, order=order, task=task, to=to)
    if as_json:
        print(json.dumps(result))


@app.command()
def export(
    model: Annotated[Path, typer.Argument(help="run or model folder", show_default=False)],
    task: Annotated[str, typer.Option(help="the task to export", show_default=False)],
    forms: Annotated[
        list[str] | None,
        typer.Option("--to", metavar="FORM", help="transformers (default) or onnx"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="folder to write")] = None,
    zeroed: Annotated[bool, typer.Option(help="fill removed heads with zeros")] = False,
) -> None:
    """Export one task as an ordinary transformers checkpoint or as ONNX.

    Example: brodmann export runs/demo --task sentiment --to onnx
    """
    check_model_folder(model)
    from brodmann.pipeline.export import export as write

    if forms and len(forms) > 1:
        raise InputError(f"--to is given {len(forms)} times: export one form at a time")
    form = forms[0] if forms else "transformers"
    folder, difference = write(model, task, form, out, zeroed=zeroed)
    print(f"wrote {folder}")
    if difference is not None:
        print(f"ONNX Runtime agrees with torch to {difference:.1g}")


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="run or model folder", show_default=False)],
    file: Annotated[
        Path | None, typer.Argument(help="table or lines of text; default: stdin")
    ] = None,
    task: Annotated[str | None, typer.Option(help="one task only; default: all that fit")] = None,
    to: Annotated[
        Path | None, typer.Option(help="write into this new file (.csv or .jsonl)")
    ] = None,
    form: Annotated[
        str | None, typer.Option("--format", help="jsonl or csv; default: by the suffix of --to")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="print every digit of the numbers")] = False,
    device: Device = "auto",
) -> None:
    """Answer every line of input (a text, or JSON with the task's columns): one answer per line.

    Example: echo "A wonderful film." | brodmann predict runs/demo (a file: runs/demo in.csv --to
    out.csv)
    """
    from brodmann.data.sources.readers import ENDINGS
    from brodmann.pipeline.predict import Answers, as_lines, inputs_from_file, inputs_from_lines
    from brodmann.pipeline.predict_table import as_table, check_target

    check_model_folder(model)
    chosen = check_target(to, form)
    if file is not None and not file.exists() and not str(file).lower().endswith(ENDINGS):
        raise InputError(
            f'{file}: no such file; to answer a text, use: echo "{file}" | brodmann predict {model}'
        )
    from brodmann.models.multitask import MultiTaskModel

    if file is None and isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="strict")
    inputs = inputs_from_lines(sys.stdin, "stdin") if file is None else inputs_from_file(file)
    loaded = MultiTaskModel.from_pretrained(model, device=device)
    specs = loaded.specs.values() if task is None else [loaded.spec(task)]
    answers = Answers(loaded, task, inputs, full=full)
    with _output(to) as write:
        if chosen == "csv":
            as_table(answers, {s.name: s for s in specs}, write, alone=task is not None)
        else:
            as_lines(answers, write, ascii_only=to is None and not _speaks_utf8(sys.stdout))
    for remark in answers.remarks():
        complain(f"note: {remark}")
    if not answers.count:
        complain("no input: nothing to answer")
    elif to is not None:
        print(f"wrote {to}: {answers.count:,} answers")


def _speaks_utf8(stream: Any) -> bool:
    return (stream.encoding or "").lower().replace("-", "") == "utf8"


@contextmanager
def _output(to: Path | None) -> Iterator[Callable[[str], Any]]:
    """Yield a function that writes answers: to a complete file or none, or to stdout at once."""
    if to is None:

        def tell(text: str) -> None:
            print(visible(text), end="", flush=True)

        yield tell
        return
    from brodmann.files import whole_file

    with whole_file(to) as temporary, open(temporary, "w", encoding="utf-8", newline="") as file:
        yield file.write


@app.command()
def submission(
    model: Annotated[Path, typer.Argument(help="run or model folder", show_default=False)],
    benchmark: Annotated[str, typer.Argument(help="glue or superglue", show_default=False)],
    to: Annotated[Path | None, typer.Option(help="the zip file; default: BENCHMARK.zip")] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="folder of datasets; default: the run's")
    ] = None,
    partial: Annotated[
        bool, typer.Option(help="include only the tasks that the model has")
    ] = False,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Answer a benchmark's unlabelled test sets and write the zip that its server accepts.

    Example: brodmann submission runs/glue glue --to glue.zip --data-dir data
    """
    check_model_folder(model)
    from brodmann.pipeline.submission import submission as write

    target = to or Path(f"{benchmark}.zip")
    if data_dir is None and (model / "config.toml").is_file():
        data_dir = Path(loaded(model, None)[0].data_dir)
    data_dir = (data_dir or Path()).expanduser()
    with view(as_json) as report:
        counts = write(
            model, benchmark, target, data_dir, partial=partial, report=report, device=device
        )
    print(json.dumps({"file": str(target), **counts}) if as_json else f"wrote {target}")
