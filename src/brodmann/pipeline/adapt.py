"""New tasks for a trained model: every start scored before any training, then training from one.

The trained model keeps its tasks; what was learnt goes into a run folder of its own.
"""

import copy
from pathlib import Path
from typing import Any

from brodmann.artifacts import read_json, write_json
from brodmann.config import Config
from brodmann.errors import InputError
from brodmann.pipeline.evaluate import evaluate_in
from brodmann.pipeline.run import one_process
from brodmann.pipeline.run_folder import check_folder, opened, timed, trained_model
from brodmann.pipeline.train import check_methods, tasks_of

FILE = "adaptation.json"


def adapt(config: Config, base: Path, report: Any) -> dict[str, Any]:
    """Zero-shot scores of every start, then (unless asked not to) training from the chosen one."""
    from brodmann.models.stored import is_model_folder, weights_digest
    from brodmann.training.trainer import fit

    section = config.adapt
    if section is None:
        raise InputError('no [adapt] table: add one, for example start = "runs/trained"')
    one_process("adapt")
    check_methods(config, "adapt")
    model = trained_model(section.start)
    report("stage", {"text": "reading tasks"})
    tasks = tasks_of(config, base)
    report("tasks", {"tasks": tasks})
    fingerprint = weights_digest(model.state_dict())
    for task in tasks:
        if task.name in model.specs:
            raise InputError(
                f"{section.start}: already has a task '{task.name}': give the new one a name"
            )
    given = config.model.model_fields_set
    if given or config.specialize is not None:
        what = f"model.{min(given)}" if given else "specialize"
        raise InputError(f"[adapt]: {what}: a new task takes its model from the trained one")
    trial = copy.deepcopy(model)
    for task in tasks:  # what can be wrong with the start, before anything is measured
        trial.add_task(task, like=section.like, head=section.head)
    if section.frozen:
        trial.train_only(*(task.name for task in tasks))
        if not any(parameter.requires_grad for parameter in trial.parameters()):
            raise InputError(
                "[adapt]: frozen = true leaves nothing to train: the new tasks share their output "
                "heads with known ones: set frozen = false, or give them heads of their own"
            )
    del trial
    check_folder(config, tasks)
    with opened(config, tasks) as folder:
        known = read_json(folder / FILE) if (folder / FILE).is_file() else {}
        if known and known["start"] != fingerprint:
            raise InputError(f"{folder}: started from another model: set another name")
        result = known or _zero_shot(folder, model, tasks, fingerprint, section.head)
        write_json(folder / FILE, result)
        report("zero-shot", {"result": result})
        if section.train and not is_model_folder(folder / "model"):
            for task in tasks:
                model.add_task(task, like=section.like, head=section.head)
            if section.frozen:
                model.train_only(*(task.name for task in tasks))
            if config.training.gradient_checkpointing:
                model.enable_gradient_checkpointing()
            options = config.training.model_dump(exclude={"gradient_checkpointing"})
            fit(
                model,
                tasks,
                folder=folder,
                report=report,
                seed=config.seed,
                trackers=config.trackers,
                **options,
            )
            model.save_pretrained(folder / "model")
        if section.train and "scores" not in result:
            result = {**result, "scores": evaluate_in(folder, config, tasks, report)["splits"]}
            write_json(folder / FILE, result)
    return result


def _zero_shot(
    folder: Path, model: Any, tasks: list[Any], fingerprint: str, head: str
) -> dict[str, Any]:
    from brodmann.models.zero_shot import zero_shot

    with timed(folder, "zero-shot"):
        found = {task.name: zero_shot(model, task, head=head) for task in tasks}
    return {
        "start": fingerprint,
        "head": head,
        "metrics": {task.name: task.spec.metric for task in tasks},
        "zero_shot": found,
    }
