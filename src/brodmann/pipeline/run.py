"""Run all stages; a stage whose result exists is skipped."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from brodmann.config import Config
from brodmann.data.task_cache import TaskCache
from brodmann.data.tasks import Task
from brodmann.errors import HeadsNotFoundError, InputError
from brodmann.files import read_json
from brodmann.pipeline.calibrate import calibrate_in
from brodmann.pipeline.dissociate import dissociate_in
from brodmann.pipeline.evaluate import OUTCOMES, evaluate_in
from brodmann.pipeline.keep_mistakes import forget_texts
from brodmann.pipeline.map import map_in
from brodmann.pipeline.run_folder import opened
from brodmann.pipeline.train import prepare, train_in
from brodmann.training.events import Report


def one_process(command: str, *, trains: bool = False) -> None:
    """Raise InputError under torchrun; with `trains`, do not advise to use `train` instead."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        way = f"under torchrun use `train`, then `{command}` alone"
        if trains:
            way = "start it without torchrun"
        raise InputError(f"{command} runs in one process only: {way}")


def run(
    config: Config,
    base: Path,
    report: Report,
    *,
    branch_at: Sequence[float] = (),
    branch_from: Path | None = None,
    heads: bool = True,
    rules: bool = True,
    cache: TaskCache | None = None,
) -> dict[str, Any]:
    """Train, evaluate, calibrate, map heads and measure dissociation; return the results.

    `branch_at` and `branch_from` let runs share their first steps: see `fit`. Without `heads`, no
    heads are measured; without `rules`, answers are not calibrated (studies that only compare
    scores). Runs that share a `cache` read their tasks once.
    """
    from brodmann.training.processes import is_main, together, wait

    tasks, model = prepare(config, base, report, cache)
    with together(config.device), opened(config, tasks, main=is_main()) as folder:
        train_in(folder, config, tasks, model, report, branch_at=branch_at, branch_from=branch_from)
        del model  # the stages below read the saved one
        wait()
        if (folder / "metrics.json").is_file() and (folder / OUTCOMES).is_file():
            forget_texts(folder, config)
            document = read_json(folder / "metrics.json", splits=dict)
            report("scores", {"tasks": tasks, "splits": document["splits"], "folder": folder})
        else:
            document = evaluate_in(folder, config, tasks, report)
        if rules and any(task.splits.get("validation") for task in tasks):
            document["calibration"] = calibrate_in(folder, config, tasks, report)["tasks"]
        return measure_heads(folder, config, tasks, report, document, heads)


def measure_heads(
    folder: Path,
    config: Config,
    tasks: list[Task],
    report: Report,
    document: dict[str, Any],
    heads: bool,
) -> dict[str, Any]:
    """Map heads and measure dissociation of a trained model, if asked for; scores and findings."""
    if not heads:
        return document
    try:
        scores = map_in(folder, config, tasks, report)
    except HeadsNotFoundError as error:
        report("note", {"text": f"no map of heads: {error}"})
        return document
    if len(tasks) > 1:
        result = dissociate_in(folder, config, tasks, report, scores)
        document["dissociation"] = result.summary()
    return document
