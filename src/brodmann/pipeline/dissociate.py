"""Stage 4: the map of heads → `dissociation.json`, how far the tasks have separated."""

from pathlib import Path
from typing import Any

from brodmann.config import Config
from brodmann.data.tasks import Task
from brodmann.errors import InputError
from brodmann.measuring.iap import dissociation, forward_passes
from brodmann.pipeline import map as mapping
from brodmann.pipeline.run_folder import opened, timed, trained
from brodmann.pipeline.train import tasks_of
from brodmann.pipeline.training_loss import training_losses
from brodmann.results import Dissociation, HeadScores
from brodmann.training.events import Report

FILE = "dissociation.json"


def dissociate(config: Config, base: Path, report: Report) -> Dissociation:
    from brodmann.training.processes import is_main, together

    trained(config)
    tasks = tasks_of(config, base)
    if len(tasks) < 2:
        raise InputError(f"{config.folder}: dissociation needs at least two tasks")
    with together(config.device), opened(config, tasks, keep=True, main=is_main()) as folder:
        return dissociate_in(folder, config, tasks, report)


def dissociate_in(
    folder: Path,
    config: Config,
    tasks: list[Task],
    report: Report,
    scores: HeadScores | None = None,
) -> Dissociation:
    """Read the dissociation that the configuration asks for or, if missing, measure it."""
    from brodmann.models.multitask import MultiTaskModel
    from brodmann.training.processes import is_main

    request = requested(config)
    result = stored(folder / FILE, request)
    if result is None:
        scores = scores or mapping.map_in(folder, config, tasks, report)
        section = config.dissociation
        examples = sum(len(task.splits["validation"]) for task in tasks)
        total = examples * planned_passes(config, len(tasks))
        report("measuring starts", {"what": "switching heads off", "examples": total})
        with timed(folder, "dissociation"):
            result = dissociation(
                MultiTaskModel.from_pretrained(folder / "model", device=config.device),
                tasks,
                scores,
                **section.model_dump(),
                seed=config.seed,
                batch_size=config.training.evaluation_batch_size,
                precision=config.training.precision,
                progress=lambda items: report("measuring goes on", {"items": items}),
                outcomes_file=folder / "outcomes.npz" if is_main() else None,
                training_losses=training_losses(folder, config, tasks),
            )
        result.settings["request"] = request
        if is_main():
            result.save(folder / FILE)
    report("dissociation", {"result": result, "file": folder / FILE})
    return result


def planned_passes(config: Config, tasks: int) -> int:
    """How often the validation examples will be read with heads off."""
    section = config.dissociation
    return forward_passes(
        tasks,
        shares=len({section.alpha, *section.curve}),
        draws=section.draws,
        redraws=section.redraws,
        exchanges=section.exchanges,
        sums=config.map.estimator != "iterative",
    )


def requested(config: Config) -> dict[str, Any]:
    return {**config.dissociation.model_dump(), "map": mapping.requested(config)}


def stored(path: Path, request: dict[str, Any]) -> Dissociation | None:
    if not path.is_file():
        return None
    result = Dissociation.load(path)
    return result if result.settings.get("request") == request else None
