"""Stage 3: a trained model → `model/rules.npz`, by which it answers, and how good these rules are.

`calibration.json` holds the report. The rules belong to the model, so a model that is trained again
loses them and is calibrated again.
"""

from pathlib import Path
from typing import Any

from brodmann.config import Config
from brodmann.data.task_cache import TaskCache
from brodmann.data.tasks import Task
from brodmann.errors import InputError
from brodmann.files import read_json, write_json
from brodmann.pipeline.run_folder import opened, timed, trained
from brodmann.pipeline.train import tasks_of
from brodmann.training.events import Report

FILE = "calibration.json"


def calibrate(
    config: Config, base: Path, report: Report, *, cache: TaskCache | None = None
) -> dict[str, Any]:
    from brodmann.training.processes import is_main, together

    trained(config)
    tasks = tasks_of(config, base, cache)
    if not any(task.splits.get("validation") for task in tasks):
        raise InputError(f"{config.folder}: no task has validation examples, which rules need")
    with together(config.device), opened(config, tasks, keep=True, main=is_main()) as folder:
        return calibrate_in(folder, config, tasks, report)


def calibrate_in(folder: Path, config: Config, tasks: list[Task], report: Report) -> dict[str, Any]:
    """Read the report that the configuration asks for or, if it is missing, fit the rules."""
    from brodmann.data.answering.rules_file import FILE as RULES
    from brodmann.training.processes import is_main

    request = config.calibrate.model_dump()
    document = read_json(folder / FILE) if (folder / FILE).is_file() else None
    kept = (folder / "model" / RULES).is_file()
    if document is None or not kept or document.get("request") != request:
        with timed(folder, "calibration"):
            document = {"request": request, "tasks": _fit(folder, config, tasks, report)}
        if is_main():
            write_json(folder / FILE, document)
    report("calibrated", {"result": document, "file": folder / FILE})
    return document


def _fit(folder: Path, config: Config, tasks: list[Task], report: Report) -> dict[str, Any]:
    from brodmann.measuring.fitting_rules import fit_rules, texts_read
    from brodmann.models.multitask import MultiTaskModel
    from brodmann.models.saving import store_rules
    from brodmann.training.processes import is_main

    model = MultiTaskModel.from_pretrained(folder / "model", device=config.device)
    examples = config.calibrate.examples
    total = texts_read(tasks, examples)
    report("measuring starts", {"what": "calibrating answers", "examples": total})
    found = fit_rules(
        model,
        tasks,
        examples=examples,
        batch_size=config.training.evaluation_batch_size,
        precision=config.training.precision,
        progress=lambda items: report("measuring goes on", {"items": items}),
    )
    if is_main():
        store_rules(folder / "model", model.rules)
    return found
