"""Add new tasks to a trained model: score every start before training, then train from one.

The trained model keeps its tasks, which are scored before and after; the adapted model gets its own
run folder. With `shares`, each share of the data is trained on, always from the start.
"""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

from brodmann.analysis.statistics import bootstrap_interval, never_empty, unseen_share
from brodmann.config import AdaptSection, Config, load_config
from brodmann.data.draws.shares import with_share
from brodmann.data.kinds import outcomes, resampled_scores
from brodmann.data.task_cache import TaskCache
from brodmann.data.tasks import Task, TaskSpec
from brodmann.errors import InputError
from brodmann.files import Array, read_json, write_json
from brodmann.pipeline.evaluate import RESAMPLES, evaluate_in
from brodmann.pipeline.finished import has_whole_model, save_finished
from brodmann.pipeline.run import one_process
from brodmann.pipeline.run_folder import check_folder, opened, timed, trained_model
from brodmann.pipeline.train import check_methods, tasks_of
from brodmann.studies import Study
from brodmann.studies.plan.counting import Counted
from brodmann.studies.plan.estimate import estimate_run, starts_scored
from brodmann.studies.plan.measuring_run import plan_of_run
from brodmann.studies.plan.planning import plan_once
from brodmann.text import percentage
from brodmann.training.events import Report, silent

FILE = "adaptation.json"


def adapt(
    config: Config, base: Path, report: Report, *, cache: TaskCache | None = None
) -> dict[str, Any]:
    """Score every start zero-shot, then (unless asked not to) train from the chosen one."""
    from brodmann.models.saving import weights_digest
    from brodmann.training.checkpoints.checkpoint import clear_checkpoints

    section = config.adapt
    if section is None:
        raise InputError('no [adapt] table: add one, for example start = "runs/trained"')
    one_process("adapt")
    check_methods(config, "adapt")
    model = trained_model(section.start, config.device)
    tasks, old = _read(config, base, model, report, cache or TaskCache())
    fingerprint = weights_digest(model.state_dict())
    _check_start(config, section, model, tasks)
    shares = _shares(section, tasks, config.data_seed)
    check_folder(config, tasks)
    with opened(config, tasks) as folder:
        result = _found_so_far(folder, fingerprint)

        def keep(**found: Any) -> dict[str, Any]:
            result.update(found)
            write_json(folder / FILE, result)
            return result

        if not result:
            keep(**_zero_shot(folder, model, tasks, fingerprint, section.head))
        report("zero-shot", {"result": result})
        if not section.train:
            return result
        *smaller, largest = shares
        for share in smaller:
            if percentage(share) not in result.get("shares", {}):
                report("stage", {"text": f"training with {percentage(share)} of the data"})
                place = folder / "shares" / f"{share:g}"
                with timed(folder, "smaller shares"):
                    learnt = _trained(model, shares[share], config, section, place, report)
                row = _row(shares[share], _primary(_judged(learnt, tasks, config), tasks))
                keep(shares={**result.get("shares", {}), percentage(share): row})
                clear_checkpoints(place)  # a share's training is never resumed
        if not has_whole_model(folder, report):
            with timed(folder, "training"):
                learnt = _trained(model, shares[largest], config, section, folder, report)
            save_finished(learnt, folder, config)
        if "scores" not in result:
            keep(scores=evaluate_in(folder, config, tasks, report)["splits"])
        if section.shares and percentage(largest) not in result.get("shares", {}):
            judged = result["scores"]["validation"]
            row = _row(shares[largest], {t.name: judged[t.name]["score"] for t in tasks})
            keep(shares={**result.get("shares", {}), percentage(largest): row})
        if old and not result.get("old", {}).get("after"):
            report("stage", {"text": "scoring the old tasks before and after"})
            keep(old=_before_and_after(model, folder, old, config))
        report("adapted", {"result": result})
    return result


def _read(
    config: Config, base: Path, model: Any, report: Report, cache: TaskCache
) -> tuple[list[Task], list[Task]]:
    """New and old tasks; a file that both read is read once. Old ones are needed for training."""
    assert config.adapt is not None
    report("stage", {"text": "reading tasks"})
    with cache.keeping_tables():
        tasks = tasks_of(config, base, cache)
        report("tasks", {"tasks": tasks})
        start = Path(config.adapt.start)
        old = _old_tasks(start, model, report, cache) if config.adapt.train else []
    return tasks, old


def _shares(section: AdaptSection, tasks: list[Task], seed: int) -> dict[float, list[Task]]:
    """The tasks with each share of their training data, smallest share first."""
    asked = sorted(section.shares or [1.0])
    return {share: [with_share(task, share, seed) for task in tasks] for share in asked}


def _found_so_far(folder: Path, start: str) -> dict[str, Any]:
    result: dict[str, Any] = read_json(folder / FILE) if (folder / FILE).is_file() else {}
    if result and result["start"] != start:
        raise InputError(f"{folder}: started from another model: set another name")
    return result


def _check_start(config: Config, section: AdaptSection, model: Any, tasks: list[Task]) -> None:
    """Raise InputError for problems with the start, before any measurement."""
    for task in tasks:
        if task.name in model.specs:
            raise InputError(
                f"{section.start}: already has a task '{task.name}': give the new one a name"
            )
    given = config.model.model_fields_set
    if given or config.specialize is not None:
        what = f"model.{min(given)}" if given else "specialize"
        raise InputError(f"[adapt] takes {what} from the trained model: remove it here")
    with_tasks(model, tasks, section)


def with_tasks(model: Any, tasks: list[Task], section: AdaptSection) -> Any:
    """A copy of the trained model that has the new tasks and trains the parts asked for."""
    new = copy.deepcopy(model)
    for task in tasks:
        new.add_task(task, like=start_like(section.like, task.name), head=section.head)
    if section.free:
        if section.frozen:
            raise InputError("[adapt]: free = true trains everything, frozen = true nothing old")
        new.requires_grad_(True)
    if section.frozen:
        new.train_only(*(task.name for task in tasks))
        if not any(parameter.requires_grad for parameter in new.parameters()):
            raise InputError(
                "[adapt]: frozen = true leaves nothing to train: the new tasks share their output "
                "heads with known ones: set frozen = false, or give them their own heads"
            )
    return new


def start_like(like: str | dict[str, str], task: str) -> str:
    """The start of one new task: the same for all of them, or its own."""
    if isinstance(like, str):
        return like
    if task not in like:
        raise InputError(f"[adapt]: like: no start for the task '{task}': add one, or give a name")
    return like[task]


def _trained(
    model: Any,
    tasks: list[Task],
    config: Config,
    section: AdaptSection,
    folder: Path,
    report: Report,
) -> Any:
    from brodmann.training.fit import fit

    learner = with_tasks(model, tasks, section)
    options = config.training.model_dump()
    options |= {"seed": config.seed, "trackers": config.trackers}
    fit(learner, tasks, folder=folder, report=report, **options)
    return learner


def _zero_shot(
    folder: Path, model: Any, tasks: list[Task], fingerprint: str, head: str
) -> dict[str, Any]:
    from brodmann.measuring.zero_shot import starts_alike, zero_shot

    with timed(folder, "zero-shot"):
        found = {task.name: zero_shot(model, task, head=head) for task in tasks}
    return {
        "start": fingerprint,
        "backbone": model.settings.backbone,
        "architecture": model.settings.architecture,
        "head": head,
        "alike": starts_alike(model, head),  # every start is the same model
        "metrics": {task.name: task.spec.metric for task in tasks},
        "zero_shot": found,
    }


def _old_tasks(start: Path, model: Any, report: Report, cache: TaskCache) -> list[Task]:
    """The trained model's own tasks (without a model, all tasks of its run), as its run read them.

    A start that was itself adapted has the tasks of its own start as well. If the data of old tasks
    are unknown (a model without its run), a note says that they are not scored.
    """
    found: dict[str, Task] = {}
    if start.name == "model":
        start = start.parent
    if not (start / "config.toml").is_file():
        report(
            "note",
            {"text": f"old tasks are not scored: {start / 'config.toml'}: no such file, so the "
                     "location of their data is unknown"},
        )  # fmt: skip
    seen: set[Path] = set()
    while (start / "config.toml").is_file() and start.resolve() not in seen:
        seen.add(start.resolve())
        try:
            config, base = load_config(start)
            read = tasks_of(config, base, cache)
        except InputError as error:
            report("note", {"text": f"old tasks are not scored: {error}"})
            break
        found |= {task.name: task for task in read if model is None or task.name in model.specs}
        if config.adapt is None:
            break
        start = Path(config.adapt.start)
    return list(found.values())


def _before_and_after(start: Any, to: Path, tasks: list[Task], config: Config) -> dict[str, Any]:
    """Scores of the old tasks before and after, and paired bootstrap intervals of the change."""
    models = (start, trained_model(str(to), config.device))
    before, after = (_judged(model, tasks, config) for model in models)
    intervals = {}
    frozen = config.adapt is not None and config.adapt.frozen  # nothing old moves, to the bit
    for task in tasks:
        old, new = (
            outcomes(found[task.name].predictions, task.splits["validation"], task.spec)
            for found in (before, after)
        )
        intervals[task.name] = [0.0, 0.0] if frozen else change_interval(old, new, task.spec)
    return {
        "metrics": {task.name: task.spec.metric for task in tasks},
        "before": _primary(before, tasks),
        "after": _primary(after, tasks),
        "interval": intervals,
    }


def change_interval(before: Array, after: Array, spec: TaskSpec) -> list[float]:
    """Interval of after minus before, both scored on the same resamples of the examples."""

    def change(weights: Array) -> Array:
        return resampled_scores(after, weights, spec) - resampled_scores(before, weights, spec)

    ends = bootstrap_interval(change, len(before), resamples=RESAMPLES, seed=0)
    return never_empty(ends, unseen_share(len(before)))


def _judged(model: Any, tasks: list[Task], config: Config) -> Any:
    """Evaluation of each task on its validation split."""
    from brodmann.models.evaluation import evaluate

    training = config.training
    size, precision = training.evaluation_batch_size, training.precision
    return evaluate(model, tasks, batch_size=size, precision=precision)


def _primary(found: Any, tasks: list[Task]) -> dict[str, float]:
    return {task.name: found[task.name].scores[task.spec.metric] for task in tasks}


def _row(tasks: list[Task], scores: dict[str, float]) -> dict[str, Any]:
    return {"examples": {t.name: len(t.splits["train"]) for t in tasks}, "scores": scores}


def _measured(
    config: Config, base: Path, report: Report, cache: TaskCache | None = None
) -> dict[str, Any]:
    """Plan [adapt]: score every start, train once per share of the data, and evaluate."""
    section = config.adapt
    assert section is not None
    check_methods(config, "adapt")
    report("stage", {"text": "reading tasks"})
    tasks = tasks_of(config, base, cache)
    report("stage", {"text": f"loading {section.start}"})
    from brodmann.measuring.zero_shot import starts_alike

    model = trained_model(section.start, config.device)
    starts = 1 if starts_alike(model, section.head) else starts_scored(len(model.specs))
    found = plan_of_run(config, with_tasks(model, tasks, section), tasks, report, heads=False)
    smaller = sum(sorted(section.shares or [1.0])[:-1])
    for kind in ("operations", "seconds"):
        stages = found[kind]
        if smaller:
            stages["smaller shares"] = smaller * stages["training"]
        stages["zero-shot"] = starts * stages["evaluation"]
        if not section.train:
            found[kind] = {"zero-shot": stages["zero-shot"]}
    return found


class Adapt(Study):
    command = "adapt"
    in_grids = True

    def run(self, config: Config, base: Path, report: Report, **options: Any) -> dict[str, Any]:
        return adapt(config, base, report, **options)

    def run_cell(
        self, config: Config, base: Path, report: Report, *, heads: bool, **options: Any
    ) -> dict[str, Any]:
        found = adapt(config, base, report, cache=options.get("cache"))
        kept = ("metrics", "head", "zero_shot", "shares", "old")
        return {
            "splits": found.get("scores", {"validation": {}}),
            "adaptation": {key: found[key] for key in kept if key in found},
        }

    def read_ahead(self, config: Config, cache: TaskCache) -> None:
        assert config.adapt is not None
        if config.adapt.train:
            _old_tasks(Path(config.adapt.start), None, silent, cache)

    def move_starts(self, values: dict[str, Any], moved: Callable[[str], str]) -> None:
        values["adapt"]["start"] = moved(values["adapt"]["start"])

    def measure(
        self, config: Config, base: Path, report: Report, *, heads: bool, cache: TaskCache
    ) -> dict[str, Any]:
        return _measured(config, base, report, cache)

    def plan(
        self, config: Config, base: Path, report: Report, *, speed: float | None, heads: bool
    ) -> dict[str, Any]:
        return plan_once(config, report, speed, lambda: _measured(config, base, report))

    def count(self, config: Config, start: Config | None) -> Counted:
        """Count scoring from every start (the known tasks, random, xavier), then one training with
        all of the data and one for every smaller share of it."""
        assert config.adapt is not None and start is not None
        whole = config.model_copy(update={"model": start.model})
        smaller = sorted(config.adapt.shares or [1.0])[:-1]
        run = estimate_run(config.name, whole, heads=False)
        again = sum(share * run.operations["training"] for share in smaller)
        scored = starts_scored(len(start.tasks)) * run.operations["evaluation"]
        return Counted(whole, [run], len(smaller), again + scored, sum(smaller) * run.tokens)


STUDY = Adapt()
