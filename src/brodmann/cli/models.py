"""Commands that use a trained model: export, push, predict, serve, submit to a benchmark."""

import io
import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from brodmann.cli.options import (
    USE,
    Device,
    Json,
    Overrides,
    RunPath,
    app,
    check_model_folder,
    complain,
    loaded,
    noted,
    view,
)
from brodmann.errors import InputError, visible


@app.command(rich_help_panel=USE)
def export(
    model: Annotated[Path, typer.Argument(help="run or model folder", show_default=False)],
    task: Annotated[
        str | None, typer.Option(help="the task to export; default, with --to onnx: all")
    ] = None,
    forms: Annotated[
        list[str] | None,
        typer.Option("--to", metavar="FORM", help="transformers (default), onnx or peft"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="folder to write")] = None,
    zeroed: Annotated[bool, typer.Option(help="fill removed heads with zeros")] = False,
    int8: Annotated[bool, typer.Option("--int8", help="8-bit layers (ONNX, all tasks)")] = False,
    tolerance: Annotated[
        float | None, typer.Option(help="points a task may lose by --int8; default: 1")
    ] = None,
) -> None:
    """Export one task (transformers, ONNX, peft), or all (ONNX).

    Example: brodmann export runs/demo --to onnx (one task: --task sentiment)
    """
    check_model_folder(model)
    from brodmann.pipeline.export import export as write

    if forms and len(forms) > 1:
        raise InputError(f"--to is given {len(forms)} times: export one form at a time")
    form = forms[0] if forms else "transformers"
    with noted(lambda text: complain(f"note: {text}")):
        found = write(model, task, form, out, zeroed=zeroed, int8=int8, tolerance=tolerance)
    print(f"wrote {found.folder}")
    if found.difference is not None:
        print(f"ONNX Runtime agrees with torch to {found.difference:.1g}")
    for line in found.lines():
        print(line)


@app.command(rich_help_panel=USE)
def push(
    model: Annotated[Path, typer.Argument(help="run or model folder", show_default=False)],
    repository: Annotated[
        str, typer.Argument(metavar="USER/NAME", help="repository of the hub", show_default=False)
    ],
    public: Annotated[
        bool, typer.Option("--public", help="create a public repository; default: a private one")
    ] = False,
    revision: Annotated[str | None, typer.Option(help="branch to write; default: main")] = None,
    message: Annotated[str | None, typer.Option(help="message of the commit")] = None,
    licence: Annotated[
        str | None, typer.Option(help="licence of the weights, as the hub writes it: apache-2.0")
    ] = None,
    as_json: Json = False,
) -> None:
    """Upload a run or model to the Hugging Face hub.

    Example: brodmann push runs/demo user/demo
    """
    check_model_folder(model)
    from brodmann.pipeline.push import push as upload

    with noted(lambda text: complain(f"note: {text}")):
        address = upload(
            model,
            repository,
            private=not public,
            revision=revision,
            message=message,
            licence=licence,
        )
    print(json.dumps({"commit": address}) if as_json else f"uploaded to {address}")


@app.command(rich_help_panel=USE)
def calibrate(
    config: RunPath,
    examples: Annotated[
        int | None, typer.Option(help="examples per task and split; default: 1000", min=1)
    ] = None,
    overrides: Overrides = None,
    as_json: Json = False,
) -> None:
    """Fit how a run answers: probabilities, thresholds, sets.

    `run` does this after the evaluation; models of `train` and `adapt` need it once.

    Example: brodmann calibrate runs/demo
    """
    from brodmann.verbs.calibrating import calibrate as fit

    with view(as_json) as report:
        found = fit(config, examples=examples, changes=overrides, report=report)
    if as_json:
        print(json.dumps(found.document))


@app.command(rich_help_panel=USE)
def predict(
    model: Annotated[Path, typer.Argument(help="run or model folder", show_default=False)],
    file: Annotated[
        Path | None, typer.Argument(help="table or lines of text; default: stdin")
    ] = None,
    task: Annotated[str | None, typer.Option(help="one task only; default: all that fit")] = None,
    out: Annotated[
        Path | None, typer.Option(help="write into this new file (.jsonl, .csv or .parquet)")
    ] = None,
    form: Annotated[
        str | None,
        typer.Option("--format", help="jsonl, csv or parquet; default: by the suffix of --out"),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="print every digit of the numbers")] = False,
    abstain: Annotated[
        float | None, typer.Option(help="no answer to texts more unusual than this, e.g. 0.05")
    ] = None,
    coverage: Annotated[
        float | None,
        typer.Option(help="add the set or interval that is right this often, e.g. 0.9"),
    ] = None,
    batch_size: Annotated[int, typer.Option(help="texts per batch", min=1)] = 32,
    device: Device = "auto",
) -> None:
    """Answer texts or the rows of a table, one answer each.

    An input is a text, or JSON with the task's columns.

    Example: echo "A wonderful film." | brodmann predict runs/demo (a file: runs/demo in.csv --out
    out.csv)
    """
    from brodmann.data.sources.readers import ENDINGS
    from brodmann.pipeline.predict import Answers, inputs_from_file, inputs_from_lines
    from brodmann.pipeline.predict_table import Columns, check_target, write_answers

    check_model_folder(model)
    chosen = check_target(out, form)
    if file is not None and not file.exists() and not str(file).lower().endswith(ENDINGS):
        raise InputError(
            f'{file}: no such file; to answer a text, use: echo "{file}" | brodmann predict {model}'
        )
    from brodmann.data.answering.answer_texts import cells_of_tasks, request_of
    from brodmann.data.answering.rules import Wishes
    from brodmann.models.multitask import MultiTaskModel
    from brodmann.models.predicting import TorchReader

    if file is None and isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="strict")
    inputs = inputs_from_lines(sys.stdin, "stdin") if file is None else inputs_from_file(file)
    reader = TorchReader(MultiTaskModel.from_pretrained(model, device=device))
    alone, wishes = task is not None, Wishes(abstain, coverage)
    request = request_of(reader, [task] if task else None, wishes, batch_size)
    columns = Columns(reader.specs, cells_of_tasks(reader, request), alone=alone)
    answers = Answers(reader, request, inputs, alone=alone, full=full)
    if file is None and sys.stdin.isatty():  # nobody piped anything in
        complain("type one text per line; end with Ctrl-D (Windows: Ctrl-Z)")
    if out is None:
        ascii_only = not _speaks_utf8(sys.stdout)
        write_answers(answers, columns, chosen, _tell, ascii_only=ascii_only)
    else:
        from brodmann.files import whole_file

        with whole_file(out) as temporary, view(as_json=not isinstance(inputs, list)) as report:
            watched = answers.reported(report, len(inputs)) if isinstance(inputs, list) else answers
            write_answers(watched, columns, chosen, temporary)
    for remark in answers.remarks():
        complain(f"note: {remark}")
    if not answers.count:
        complain("no input: nothing to answer")
    elif out is not None:
        print(f"wrote {out}: {answers.count:,} answers")


def _tell(text: str) -> None:
    print(visible(text), end="", flush=True)


def _speaks_utf8(stream: Any) -> bool:
    return (stream.encoding or "").lower().replace("-", "") == "utf8"


@app.command(rich_help_panel=USE)
def serve(
    model: Annotated[Path, typer.Argument(help="run, model or export folder", show_default=False)],
    host: Annotated[str, typer.Option(help="address to listen at")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="port; 0 for any that is free")] = 8000,
    batch: Annotated[int, typer.Option(help="texts that are read together", min=1)] = 32,
    wait: Annotated[
        float,
        typer.Option(help="seconds to wait for as many texts as were read before", min=0, max=1),
    ] = 0.002,
    timeout: Annotated[float, typer.Option(help="seconds until a request is given up")] = 30.0,
    max_texts: Annotated[int, typer.Option(help="texts per request", min=1)] = 256,
    max_length: Annotated[int, typer.Option(help="characters per text", min=1)] = 20_000,
    max_body: Annotated[int, typer.Option(help="bytes per request", min=1)] = 1_000_000,
    max_requests: Annotated[int, typer.Option(help="requests under way at once", min=1)] = 256,
    device: Device = "auto",
) -> None:
    """Answer over HTTP, with a page to try the model on.

    Set BRODMANN_API_KEY to require a key.

    Example: brodmann serve runs/demo --port 8000
    """
    from brodmann.serving.opening import is_export
    from brodmann.serving.server import serve as serve_model

    if not is_export(model):
        with suppress(ModuleNotFoundError):  # without torch, opening it says what is missing
            check_model_folder(model)
    with noted(lambda text: complain(f"note: {text}")):
        serve_model(
            model,
            host=host,
            port=port,
            device=device,
            batch=batch,
            wait=wait,
            timeout=timeout,
            max_texts=max_texts,
            max_length=max_length,
            max_body=max_body,
            max_requests=max_requests,
            say=lambda text: print(text, flush=True),
        )


@app.command(rich_help_panel=USE)
def submission(
    model: Annotated[Path, typer.Argument(help="run or model folder", show_default=False)],
    benchmark: Annotated[str, typer.Argument(help="glue or superglue", show_default=False)],
    out: Annotated[Path | None, typer.Option(help="the zip file; default: BENCHMARK.zip")] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="folder of datasets; default: the run's")
    ] = None,
    partial: Annotated[
        bool, typer.Option(help="include only the tasks that the model has")
    ] = False,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Write the zip that the GLUE or SuperGLUE server takes.

    Answers the benchmark's unlabelled test sets.

    Example: brodmann submission runs/glue glue --out glue.zip --data-dir data
    """
    check_model_folder(model)
    from brodmann.pipeline.submission import submission as write

    target = out or Path(f"{benchmark}.zip")
    if data_dir is None and (model / "config.toml").is_file():
        data_dir = Path(loaded(model, None)[0].data_dir)
    data_dir = (data_dir or Path()).expanduser()
    with view(as_json) as report:
        counts = write(
            model, benchmark, target, data_dir, partial=partial, report=report, device=device
        )
    print(json.dumps({"file": str(target), **counts}) if as_json else f"wrote {target}")
