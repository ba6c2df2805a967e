"""Stage 1: tasks and a backbone → a trained model in `model/`."""

from pathlib import Path
from typing import Any

from brodmann.config import Config
from brodmann.data.loading import load_tasks
from brodmann.data.tasks import Task
from brodmann.pipeline.run_folder import opened


def tasks_of(config: Config, base: Path) -> list[Task]:
    given = [
        task if isinstance(task, str) else task.model_dump(exclude_unset=True)
        for task in config.tasks
    ]
    return load_tasks(given, base=base, seed=config.data_seed)


def check_methods(config: Config) -> None:
    """Names and parameters of methods, before any data or model is loaded."""
    from brodmann.data.samplers import check_sampler
    from brodmann.models.multitask import check_architecture
    from brodmann.training.processes import check_trackers

    check_sampler(config.training.sampling, config.training.sampling_parameters)
    check_architecture(config.model.architecture)
    check_trackers(config.trackers)


def train(config: Config, base: Path, report: Any) -> tuple[Path, list[Task]]:
    """Train, or go on with what was stopped, or do nothing when the model is there."""
    from brodmann.training.processes import is_main

    check_methods(config)
    report("stage", {"text": "reading tasks"})
    tasks = tasks_of(config, base)
    report("tasks", {"tasks": tasks})
    with opened(config, tasks, main=is_main()) as folder:
        train_in(folder, config, tasks, report)
    return folder, tasks


def train_in(folder: Path, config: Config, tasks: list[Task], report: Any) -> None:
    import torch

    from brodmann.models.multitask import MultiTaskModel, is_model_folder
    from brodmann.training.processes import is_main
    from brodmann.training.trainer import fit

    if is_model_folder(folder / "model"):
        report("done", {"text": "already trained", "folder": folder})
        return
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    report("stage", {"text": f"loading {config.model.backbone}"})
    section = config.model
    model = MultiTaskModel.from_pretrained(
        section.backbone,
        tasks,
        architecture=section.architecture,
        parameters=section.parameters,
        freeze=section.freeze,
        max_length=section.max_length,
        stride=section.stride,
        dropout=section.dropout,
        attention=section.attention,
        seed=config.seed,
    )
    options = config.training.model_dump()
    if options.pop("gradient_checkpointing"):
        model.enable_gradient_checkpointing()
    progress = fit(
        model,
        tasks,
        folder=folder,
        trackers=config.trackers,
        report=report,
        seed=config.seed,
        **options,
    )
    if is_main():
        kept = [e for e in progress.evaluations if e["step"] == progress.best_step]
        if config.training.keep == "last":
            kept = progress.evaluations[-1:]
        model.save_pretrained(folder / "model", scores=kept[0]["scores"] if kept else None)
