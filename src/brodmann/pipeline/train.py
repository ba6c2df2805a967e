"""Stage 1: tasks and a backbone → a trained model in `model/`."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from brodmann.config import Config, OffSection
from brodmann.data.loading import load_tasks
from brodmann.data.task_cache import TaskCache
from brodmann.data.tasks import Task
from brodmann.errors import InputError
from brodmann.files import read_json
from brodmann.pipeline.finished import (
    forget_measurements,
    has_whole_model,
    save_finished,
    tidy,
)
from brodmann.pipeline.run_folder import (
    check_folder,
    check_output,
    opened,
    timed,
    trained_model,
)
from brodmann.results import HeadScores
from brodmann.training.events import Report, silent

OTHER_COMMANDS = ("distill", "transfer", "adapt", "meta", "study")  # whose sections `run` rejects
MANY_RUNS = ("grid", "compare")  # whose sections a single run rejects


def tasks_of(config: Config, base: Path, cache: TaskCache | None = None) -> list[Task]:
    """The configuration's tasks; those in `cache` are not read again."""
    load = load_tasks if cache is None else cache.load
    return load(config.given_tasks(), base=base, seed=config.data_seed)


def check_methods(config: Config, command: str = "run") -> None:
    """Check names and parameters of methods before any data or model is loaded.

    A table that the command does not read is rejected instead of silently ignored.
    """
    from brodmann.data.sampling.samplers import check_sampler
    from brodmann.models.backbone.devices import choose_device
    from brodmann.models.encoders import check_architecture
    from brodmann.training.methods.iat import check_trained_heads
    from brodmann.training.trackers import check_trackers

    for section in OTHER_COMMANDS:
        if getattr(config, section) is not None and section != command:
            raise InputError(f"[{section}]: this configuration is for `brodmann {section}`")
    if config.off is not None and command != "run":
        raise InputError(f"[off]: cannot be combined with `brodmann {command}`")
    check_sampler(config.training.sampling, config.training.sampling_parameters)
    check_architecture(config.model.architecture, config.model.parameters)
    if config.specialize is not None:
        model = config.model
        check_trained_heads(config.specialize, model.architecture, model.freeze, model.gates or "")
    check_trackers(config.trackers)
    choose_device(config.device)  # raises if it is not there
    _check_fitted(config, command)
    _check_combinations(config, command)
    check_output(config)


def _check_fitted(config: Config, command: str) -> None:
    """Raise InputError if anything besides the output heads would train while they are fitted."""
    if config.model.output_heads is None:
        return
    refused = {
        f"`brodmann {command}`": command != "run",
        "[specialize]": config.specialize is not None,
        "[off]": config.off is not None,
        'model.gates = "trained"': config.model.gates == "trained",
    }
    for what, wrong in refused.items():
        if wrong:
            raise InputError(f'model.output_heads = "fitted": cannot be combined with {what}')
    if config.model.freeze != "encoder":
        raise InputError(
            f'model.output_heads = "fitted": model.freeze is {config.model.freeze!r}, expected '
            "'encoder': nothing but the output heads may change"
        )


def _check_combinations(config: Config, command: str) -> None:
    """Raise InputError for ways of training that cannot be combined."""
    from brodmann.training.settings import check_training

    training, world = config.training, int(os.environ.get("WORLD_SIZE", "1"))
    check_training(training)
    if training.aggregation is not None:
        from brodmann.training.methods.aggregation import check_together, make_weighting

        special = config.specialize is not None
        check_together(world, training.accumulation, special, training.sampling)
        make_weighting(training.aggregation)  # raises if torchjd is missing
    if training.sharding is not None and not is_trained(config):
        from brodmann.training.sharding import check_sharding

        check_sharding(
            architecture=config.model.architecture,
            gates=bool(config.model.gates) or config.off is not None,
            specialized=config.specialize is not None,
            aggregation=training.aggregation,
            sampling=training.sampling,
            distillation=command == "distill",
            gradient_checkpointing=training.gradient_checkpointing,
            world=world,
        )


def is_trained(config: Config) -> bool:
    from brodmann.models.saving import model_damage

    return model_damage(config.folder / "model") is None


def train(config: Config, base: Path, report: Report, *, cache: TaskCache | None = None) -> Path:
    """Train, resume an interrupted training, or do nothing if the model exists."""
    from brodmann.training.processes import is_main, together

    tasks, model = prepare(config, base, report, cache)
    with together(config.device), opened(config, tasks, main=is_main()) as folder:
        train_in(folder, config, tasks, model, report)
    return folder


def prepare(
    config: Config, base: Path, report: Report, cache: TaskCache | None = None
) -> tuple[list[Task], Any]:
    """Load tasks, and the model unless it is trained: find errors before anything is written."""
    check_methods(config)
    for section in MANY_RUNS:  # a grid's cells and a comparison's arms have none of them
        if getattr(config, section) is not None:
            raise InputError(f"[{section}]: this configuration is for `brodmann {section}`")
    report("stage", {"text": "reading tasks"})
    tasks = tasks_of(config, base, cache)
    report("tasks", {"tasks": tasks})
    check_folder(config, tasks)
    if has_whole_model(config.folder, report):
        return tasks, None
    report("stage", {"text": f"loading {config.model.backbone}"})
    model = build_model(config, tasks)
    if config.off is not None:
        model = _with_heads_off(config.off, tasks, model, config)
    if config.specialize is not None:
        from brodmann.training.methods.iat import check_specialization

        check_specialization(model, config.specialize)
    if config.model.output_heads is not None:
        from brodmann.training.output_heads import check_only_heads_train

        check_only_heads_train(model)
    return tasks, model


def _with_heads_off(section: OffSection, tasks: list[Task], model: Any, config: Config) -> Any:
    """The model that [off] asks for: that run's model or a new one, with some heads off."""
    path = Path(section.by) / "importance.json"
    if not path.is_file():
        raise InputError(f"{section.by}: no map of heads in it: run `brodmann map` first")
    scores = HeadScores.load(path)
    if section.start:
        model = _as_asked(trained_model(section.by, config.device), model, tasks, section.by)
    least = section.order == "least"
    chosen = scores.least(section.alpha) if least else scores.random(section.alpha, config.seed)
    if not chosen:
        raise InputError(f"[off]: alpha = {section.alpha} of {scores.heads} heads is less than one")
    model.switch_off(chosen)
    return model


def _as_asked(trained: Any, asked: Any, tasks: list[Task], where: str) -> Any:
    """The trained model, if it is the one that this configuration would have built."""
    for key in ("architecture", "freeze", "max_length", "stride", "gates", "pooling"):
        ours, theirs = getattr(asked.settings, key), getattr(trained.settings, key)
        if ours != theirs:
            raise InputError(f"[off]: {where} has {key} = {theirs!r}, not {ours!r} as asked here")
    for task in tasks:
        known = trained.spec(task.name)
        if (known.kind, known.labels) != (task.spec.kind, task.spec.labels):
            raise InputError(f"[off]: {where}: its task '{task.name}' has another kind or labels")
    return trained


def build_model(config: Config, tasks: list[Task]) -> Any:
    from brodmann.models.multitask import MultiTaskModel

    section = config.model
    asked = section.model_dump(exclude={"backbone", "output_heads"})
    asked["parameters"] = _with_clusters(section.parameters)
    return MultiTaskModel.from_pretrained(
        section.backbone, tasks, seed=config.seed, device=config.device, **asked
    )


def _with_clusters(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters with clusters by name; `clusters` may be the file of a relevance result."""
    given = parameters.get("clusters")
    if not isinstance(given, str):
        return parameters
    found = read_json(Path(given)).get("clusters")
    if found is None:
        raise InputError(f"{given}: contains no clusters: `brodmann relate` writes such a file")
    return {**parameters, "clusters": found}


def train_in(
    folder: Path,
    config: Config,
    tasks: list[Task],
    model: Any,
    report: Report,
    *,
    branch_at: Sequence[float] = (),
    branch_from: Path | None = None,
) -> None:
    from brodmann.training.fit import fit
    from brodmann.training.processes import is_main, wait

    # Check again now that we hold the lock: another process may have trained it meanwhile.
    if model is None or has_whole_model(folder, silent):
        report("done", {"text": "already trained", "folder": folder})
        if is_main():
            tidy(folder, config)  # the last process was killed before this
        return
    if is_main():
        forget_measurements(folder)
    if config.off is not None and not config.off.train:
        save_finished(model, folder, config)
        return
    if config.model.output_heads is not None:
        _fit_heads_in(folder, config, tasks, model, report)
        return
    with timed(folder, "training"):
        progress = fit(
            model,
            tasks,
            folder=folder,
            report=report,
            branch_at=branch_at,
            branch_from=branch_from,
            trackers=config.trackers,
            seed=config.seed,
            specialize=config.specialize,
            **config.training.model_dump(),
        )
    wait()  # every process has read the best weights
    if is_main():
        kept = progress.best_step if config.training.keep == "best" else progress.evaluated_at
        scores = next((e["scores"] for e in progress.evaluations if e["step"] == kept), None)
        save_finished(model, folder, config, scores=scores)


def _fit_heads_in(
    folder: Path, config: Config, tasks: list[Task], model: Any, report: Report
) -> None:
    """Fit the output heads to convergence, if asked for instead of training."""
    from brodmann.training.output_heads import fit_output_heads
    from brodmann.training.processes import is_main

    report("stage", {"text": "fitting the output heads"})
    with timed(folder, "training"):
        found = fit_output_heads(
            model,
            tasks,
            seed=config.seed,
            batch_size=config.training.evaluation_batch_size,
            precision=config.training.precision,
        )
    for name, fitted in found.items():
        if not fitted.converged:
            text = f"output head '{name}': no optimum after {fitted.iterations} iterations"
            report("note", {"text": text})
    if is_main():
        save_finished(model, folder, config)
