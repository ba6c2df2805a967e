"""Stage 3: a trained model → `importance.json`, which heads matter to which task."""

from pathlib import Path
from typing import Any

from brodmann.config import Config
from brodmann.data.tasks import Task
from brodmann.files import write_json
from brodmann.measuring.importance import head_importance, passes
from brodmann.pipeline.run_folder import opened, timed, trained
from brodmann.pipeline.train import tasks_of
from brodmann.results import PARTS, Dissociation, HeadScores
from brodmann.training.events import Report

FILE = "importance.json"
DISSOCIATION = "dissociation.json"
OLD_D = "the stored D belongs to an earlier map"
EXPLAINED = "explained.json"  # one text per task, head by head


def map_heads(config: Config, base: Path, report: Report) -> HeadScores:
    from brodmann.training.processes import is_main, together

    trained(config)
    tasks = tasks_of(config, base)
    with together(config.device), opened(config, tasks, keep=True, main=is_main()) as folder:
        scores = map_in(folder, config, tasks, report)
    if (folder / DISSOCIATION).is_file() and not Dissociation.load(folder / DISSOCIATION).is_of(
        scores
    ):
        report("note", {"text": f"{OLD_D}: `brodmann dissociate` with the same --set measures it"})
    return scores


def map_in(folder: Path, config: Config, tasks: list[Task], report: Report) -> HeadScores:
    """Read the scores that the configuration asks for or, if missing, measure them."""
    from brodmann.measuring.explaining import explain_first
    from brodmann.models.backbone.anatomy import head_shape
    from brodmann.models.multitask import MultiTaskModel
    from brodmann.training.processes import is_main

    request = requested(config)
    scores = stored(folder / FILE, request)
    if scores is None:
        model = MultiTaskModel.from_pretrained(folder / "model", device=config.device)
        section = config.map
        layers, heads = head_shape(model.bare_models()[0])
        sizes = [len(task.splits["train"]) for task in tasks]
        read = sum(
            size if section.examples is None else min(size, section.examples) for size in sizes
        )
        total = read * passes(section.estimator, layers * heads)
        report("measuring starts", {"what": "mapping heads", "examples": total})
        with timed(folder, "map of heads"):
            scores = head_importance(
                model,
                tasks,
                **section.model_dump(),
                precision=config.training.precision,
                seed=config.seed,
                progress=lambda items: report("measuring goes on", {"items": items}),
            )
        scores.settings["request"] = request
        if is_main():
            explained = explain_first(model, tasks) if config.report.texts else {}
            write_json(folder / EXPLAINED, {"tasks": explained})
            scores.save(folder / FILE)
    report("map", {"scores": scores, "file": folder / FILE, "alpha": config.dissociation.alpha})
    return scores


def requested(config: Config) -> dict[str, Any]:
    """Settings that decide the scores, including the parts, so that older maps are redone."""
    parts = {} if config.map.estimator == "iterative" else {"parts": PARTS}
    return {**config.map.model_dump(), "precision": config.training.precision, **parts}


def stored(path: Path, request: dict[str, Any]) -> HeadScores | None:
    if not path.is_file():
        return None
    scores = HeadScores.load(path)
    return scores if scores.settings.get("request") == request else None
