"""The verb that fits the rules by which a trained model answers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from brodmann.config import Changes
from brodmann.data.tasks import Task
from brodmann.errors import InputError
from brodmann.measuring.measuring_settings import CalibrationSettings
from brodmann.training.events import Report
from brodmann.verbs.asking import Asked, settle
from brodmann.verbs.following import followed
from brodmann.verbs.outcomes import Outcome, Run
from brodmann.verbs.rows import rows_of_calibration

if TYPE_CHECKING:
    from brodmann.models.multitask import MultiTaskModel


def calibrate(
    model: "Asked | Run | MultiTaskModel",
    tasks: Sequence[Task] | None = None,
    *,
    examples: int | None = None,
    changes: Changes | None = None,
    progress: bool | None = None,
    report: Report | None = None,
) -> Outcome:
    """Fit how a trained model answers: probabilities, thresholds, sets and its usual texts.

    `model` is a run, whose stored model gets the rules, or a model in memory with its `tasks`.
    Everything is fitted on validation examples, `examples` per task and split (default: 1,000);
    the usual texts are training texts. Training the model again ends its rules.
    """
    from brodmann.models.multitask import MultiTaskModel

    if isinstance(model, MultiTaskModel):
        if tasks is None:
            raise InputError("calibrate: a model in memory needs tasks=[...] to be fitted on")
        return _calibrate_model(model, tasks, examples, progress, report)
    if tasks is not None:
        raise InputError("calibrate: a run has its own tasks: leave tasks out")
    from brodmann.pipeline.calibrate import calibrate as calibrate_run

    settings, base = settle(model.folder if isinstance(model, Run) else model, changes)
    if examples is not None:
        wanted = CalibrationSettings(examples=examples)
        settings = settings.model_copy(update={"calibrate": wanted})
    with followed(progress, report) as shown:
        found = calibrate_run(settings, base, shown)
    rows = rows_of_calibration(found["tasks"])
    return Outcome("calibrate", found, rows, settings.folder, shown.blocks)


def _calibrate_model(
    model: "MultiTaskModel",
    tasks: Sequence[Task],
    examples: int | None,
    progress: bool | None,
    report: Report | None,
) -> Outcome:
    from brodmann.measuring.fitting_rules import fit_rules, texts_read

    settings = CalibrationSettings() if examples is None else CalibrationSettings(examples=examples)
    if not any(task.splits.get("validation") for task in tasks):
        raise InputError("calibrate: no task has validation examples, which rules need")
    with followed(progress, report) as shown:
        total = texts_read(tasks, settings.examples)
        shown("measuring starts", {"what": "calibrating answers", "examples": total})
        found = fit_rules(
            model,
            tasks,
            examples=settings.examples,
            progress=lambda items: shown("measuring goes on", {"items": items}),
        )
        shown("calibrated", {"result": {"tasks": found}, "file": None})
    return Outcome("calibrate", {"tasks": found}, rows_of_calibration(found), None, shown.blocks)
