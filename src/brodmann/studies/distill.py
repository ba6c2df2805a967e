"""Train a small student from a trained teacher, in a run folder of its own."""

from pathlib import Path
from typing import Any

from brodmann.config import Config
from brodmann.config.sections import DistillSection
from brodmann.data.task_cache import TaskCache
from brodmann.data.tasks import Task
from brodmann.errors import InputError
from brodmann.files import read_json, write_json
from brodmann.models.model_settings import ModelSettings
from brodmann.pipeline.evaluate import evaluate_in
from brodmann.pipeline.finished import has_whole_model, save_finished
from brodmann.pipeline.prune import beside
from brodmann.pipeline.run import measure_heads, one_process
from brodmann.pipeline.run_folder import check_folder, opened, trained_model
from brodmann.pipeline.train import check_methods, tasks_of
from brodmann.studies import Study
from brodmann.studies.plan.counting import Counted, count_runs
from brodmann.training.events import Report

FILE = "distillation.json"
CELLS = "cells"  # folder of a grid's runs, beside the grid's own


def distill(
    config: Config, base: Path, report: Report, *, cache: TaskCache | None = None
) -> dict[str, Any]:
    """Train or resume the student, score both models, and report what it costs and saves."""
    from brodmann.models.multitask import MultiTaskModel
    from brodmann.models.saving import weights_digest
    from brodmann.training.methods.distillation import PHASES
    from brodmann.training.methods.distillation import distill as train_student

    section = config.distill
    if section is None:
        raise InputError('no [distill] table: add one, for example teacher = "runs/large"')
    one_process("distill")
    check_methods(config, "distill")
    if config.training.gradient_checkpointing:
        raise InputError("[distill]: gradient_checkpointing: cannot be set for a student")
    report("stage", {"text": "reading tasks"})
    tasks = tasks_of(config, base, cache)
    report("tasks", {"tasks": tasks})
    source = teacher_folder(section.teacher, [task.name for task in tasks], config.seed)
    teacher = trained_model(source, config.device)
    _check_model(config, teacher)
    teacher = teacher.merged()
    _check_teacher(source, teacher, tasks)
    _check_asked(config, section, teacher)
    check_folder(config, tasks)
    with opened(config, tasks) as folder:
        if not has_whole_model(folder, report, phase=PHASES[-1]):
            options = config.training.model_dump(exclude={"epochs"})
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
                specialize=config.specialize,
                **options,
            )
            write_json(folder / FILE, {"teacher": weights_digest(teacher.state_dict())})
            save_finished(small, folder, config, phases=PHASES)
        small = MultiTaskModel.from_pretrained(folder / "model", device=config.device)
        _check_student(folder, small, teacher, section.student)
        evaluate_in(folder, config, tasks, report)
        result = {
            "folder": str(folder / "model"),
            "teacher": weights_digest(teacher.state_dict()),
            "student": section.student,
            **beside(teacher, small, tasks, config)[0],
        }
        write_json(folder / FILE, result)
    report("distilled", result)
    return result


def teacher_folder(name: str, tasks: list[str], seed: int) -> str:
    """The teacher's run: as named, or the cell of a grid that trained the same tasks (and, if the
    grid has several seeds, with this seed)."""
    path = Path(name.replace("{seed}", str(seed)))
    if not (path / "grid.json").is_file():
        return str(path)
    done = [cell for cell in read_json(path / "grid.json")["cells"] if cell["state"] == "done"]
    alike = [cell for cell in done if sorted(cell["splits"]["validation"]) == sorted(tasks)]
    same = [cell for cell in alike if cell["varied"].get("seed", seed) == seed]
    if len(same) != 1:
        raise InputError(
            f"{path}: {len(same)} finished runs of {', '.join(tasks)} with seed {seed} in it, "
            "expected one to be the teacher"
        )
    return str(path.parent / CELLS / same[0]["fingerprint"])


def _check_model(config: Config, teacher: Any) -> None:
    """Raise InputError for model settings other than the teacher's: they would be ignored."""
    usual = ModelSettings()
    for key in sorted(config.model.model_fields_set - {"backbone"}):
        asked = getattr(config.model, key)
        own = getattr(teacher.settings, key, None)
        if asked not in (own, getattr(usual, key)):
            raise InputError(
                f"[distill]: model.{key} = {asked!r}: a student takes its model from its teacher"
                + (f", which has {own!r}" if own is not None else "")
            )


def _check_asked(config: Config, section: DistillSection, teacher: Any) -> None:
    """Raise InputError for problems with the student, before anything is written."""
    from brodmann.training.methods.distillation import specialized_phase
    from brodmann.training.methods.iat import check_specialization
    from brodmann.training.methods.students import make_student

    special = config.specialize
    specialized_phase(special, section.layer_epochs, section.prediction_epochs)
    student = make_student(teacher, section.student)
    if special is not None:
        check_specialization(student, special)


def _check_teacher(source: str, teacher: Any, tasks: list[Task]) -> None:
    """Raise InputError unless the teacher answers the same tasks, all of them."""
    for task in tasks:
        known = teacher.spec(task.name)
        if (known.kind, known.labels) != (task.spec.kind, task.spec.labels):
            raise InputError(f"{source}: its task '{task.name}' has another kind or other labels")
    missing = [name for name in teacher.specs if name not in {task.name for task in tasks}]
    if missing:
        raise InputError(f"{source}: the teacher's task '{missing[0]}' is not among the tasks")


def _check_student(folder: Path, small: Any, teacher: Any, student: Any) -> None:
    """Raise InputError unless the folder holds the student asked for, from this very teacher."""
    from brodmann.models.saving import weights_digest

    path = folder / FILE
    known = read_json(path).get("teacher") if path.is_file() else None
    if known != weights_digest(teacher.state_dict()):
        raise InputError(f"{folder}: its model is not a student of this teacher: set another name")
    if isinstance(student, str):
        if small.settings.backbone != student:
            raise InputError(f"{folder}: its model started from {small.settings.backbone}")
        return
    for name, value in student.items():
        if getattr(small.config, name) != value:
            raise InputError(f"{folder}: its model has {name} = {getattr(small.config, name)}")


class Distill(Study):
    command = "distill"
    in_grids = True

    def count(self, config: Config, start: Config | None) -> Counted:
        return count_runs(config, [(config.name, config, False, 1.0)])

    def run(self, config: Config, base: Path, report: Report, **options: Any) -> dict[str, Any]:
        return distill(config, base, report, **options)

    def run_cell(
        self, config: Config, base: Path, report: Report, *, heads: bool, **options: Any
    ) -> dict[str, Any]:
        cache = options.get("cache") or TaskCache()
        distill(config, base, report, cache=cache)
        tasks = tasks_of(config, base, cache)
        with opened(config, tasks) as folder:
            document = read_json(folder / "metrics.json")
            return measure_heads(folder, config, tasks, report, document, heads)


STUDY = Distill()
