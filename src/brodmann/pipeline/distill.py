"""A trained teacher → a small student in a run folder of its own, like any other run."""

from pathlib import Path
from typing import Any

from brodmann.artifacts import read_json, write_json
from brodmann.config import Config
from brodmann.errors import InputError
from brodmann.pipeline.evaluate import evaluate_in
from brodmann.pipeline.prune import beside
from brodmann.pipeline.run import one_process
from brodmann.pipeline.run_folder import check_folder, opened, trained_model
from brodmann.pipeline.train import check_methods, tasks_of

FILE = "distillation.json"


def distill(config: Config, base: Path, report: Any) -> dict[str, Any]:
    """Train the student (or go on with it), score both, say what it costs and saves."""
    from brodmann.models.multitask import MultiTaskModel
    from brodmann.models.stored import is_model_folder, weights_digest
    from brodmann.training.distillation import distill as train_student
    from brodmann.training.distillation import make_student

    section = config.distill
    if section is None:
        raise InputError('no [distill] table: add one, for example teacher = "runs/large"')
    one_process("distill")
    check_methods(config, "distill")
    given = config.model.model_fields_set - {"backbone"}
    if given or config.specialize is not None or config.training.gradient_checkpointing:
        what = f"model.{min(given)}" if given else "specialize or gradient_checkpointing"
        raise InputError(f"[distill]: {what}: a student takes its model from its teacher")
    teacher = trained_model(section.teacher)
    report("stage", {"text": "reading tasks"})
    tasks = tasks_of(config, base)
    report("tasks", {"tasks": tasks})
    for task in tasks:
        known = teacher.spec(task.name)
        if (known.kind, known.labels) != (task.spec.kind, task.spec.labels):
            raise InputError(
                f"{section.teacher}: its task '{task.name}' has another kind or other labels"
            )
    missing = [name for name in teacher.specs if name not in {task.name for task in tasks}]
    if missing:
        raise InputError(
            f"{section.teacher}: the teacher's task '{missing[0]}' is not among the tasks"
        )
    make_student(teacher, section.student)  # what can be wrong with it, before anything is written
    check_folder(config, tasks)
    with opened(config, tasks) as folder:
        if not is_model_folder(folder / "model"):
            options = config.training.model_dump(exclude={"gradient_checkpointing", "epochs"})
            small = train_student(
                teacher,
                tasks,
                section.student,
                layer_epochs=section.layer_epochs,
                prediction_epochs=section.prediction_epochs,
                temperature=section.temperature,
                seed=config.seed,
                folder=folder,
                report=report,
                trackers=config.trackers,
                **options,
            )
            small.save_pretrained(folder / "model")
            write_json(folder / FILE, {"teacher": weights_digest(teacher.state_dict())})
        small = MultiTaskModel.from_pretrained(folder / "model")
        _check_student(folder, small, teacher, dict(section.student))
        evaluate_in(folder, config, tasks, report)
        result = {
            "folder": str(folder / "model"),
            "teacher": weights_digest(teacher.state_dict()),
            "student": dict(section.student),
            **beside(teacher, small, tasks, config)[0],
        }
        write_json(folder / FILE, result)
    report("distilled", result)
    return result


def _check_student(folder: Path, small: Any, teacher: Any, sizes: dict[str, Any]) -> None:
    """What is in the folder is what was asked for, from this very teacher."""
    from brodmann.models.stored import weights_digest

    path = folder / FILE
    known = read_json(path).get("teacher") if path.is_file() else None
    if known != weights_digest(teacher.state_dict()):
        raise InputError(f"{folder}: its model is no student of this teacher: set another name")
    for name, value in sizes.items():
        if getattr(small.config, name) != value:
            raise InputError(f"{folder}: its model has {name} = {getattr(small.config, name)}")
