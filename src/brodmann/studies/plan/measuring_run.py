"""Estimate what a run will take, and compare with what it took.

The plan goes to `output/name.<fingerprint>.plan.json`, beside the run folder.
"""

import math
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from brodmann.config import Config, load_config
from brodmann.data.sources.table import SPLITS
from brodmann.data.task_cache import TaskCache
from brodmann.data.tasks import Task
from brodmann.errors import HeadsNotFoundError, InputError
from brodmann.files import read_json, read_log, write_json
from brodmann.measuring.importance import passes
from brodmann.pipeline.dissociate import planned_passes
from brodmann.pipeline.evaluate import judged_splits
from brodmann.pipeline.run_folder import in_threads
from brodmann.pipeline.train import build_model, check_methods, tasks_of
from brodmann.provenance import provenance
from brodmann.reporting.task_tables import data_notes
from brodmann.training.events import Report

FINISHED = ("metrics.json", "transfer.json", "meta.json")


def plan_file(config: Config, fingerprint: str) -> Path:
    """Path of the plan, beside the run folder; each configuration has its own."""
    return config.folder.with_name(f"{config.folder.name}.{fingerprint[:8]}.plan.json")


def shown(
    config: Config, found: dict[str, Any], fingerprint: str, report: Report, speed: float | None
) -> dict[str, Any]:
    """Store and show a plan; one at another machine's speed is not compared with a run on this
    machine."""
    file = None
    if speed is not None:
        found["speed"] = speed
        found["seconds"] = {
            stage: operations / speed for stage, operations in found["operations"].items()
        }
    else:
        file = plan_file(config, fingerprint)
        write_json(file, {**found, "fingerprint": fingerprint})
        found["took"] = took(config)
    report("plan", {"plan": found, "file": file})
    return found


def check_speed(speed: float | None) -> None:
    if speed is not None and not 0 < speed < math.inf:
        raise InputError(f"speed = {speed}: expected operations per second, above 0")


def measured(
    config: Config,
    base: Path,
    report: Report,
    *,
    heads: bool,
    rules: bool = False,
    cache: TaskCache | None = None,
) -> dict[str, Any]:
    """Plan one run from a few of its steps on this machine."""
    if config.training.sharding is not None:
        report(
            "note",
            {"text": "planned as one process: with sharding, each process needs less memory"},
        )
        training = config.training.model_copy(update={"sharding": None})
        config = config.model_copy(update={"training": training})
    check_methods(config)
    report("stage", {"text": "reading tasks"})
    tasks = tasks_of(config, base, cache)
    for text in data_notes(tasks):
        report("note", {"text": text})
    report("stage", {"text": f"loading {config.model.backbone}"})
    model = build_model(config, tasks)
    return plan_of_run(config, model, tasks, report, heads=heads, rules=rules)


def costs_of(config: Config, model: Any, tasks: list[Task], report: Report, **changes: Any) -> Any:
    """Take some steps of training this model with [training], changed by `changes`."""
    from brodmann.training.loop import Loop
    from brodmann.training.settings import checked_options
    from brodmann.training.step_costs import SAMPLES, measure_costs

    options = config.training.model_dump(exclude={"log_entropy"})
    options |= {"seed": config.seed, "specialize": config.specialize, **changes}
    with in_threads(config.threads):
        loop = Loop(model, tasks, checked_options(options), None, {})
        report("measuring starts", {"what": "taking some steps", "examples": SAMPLES + 1})
        return measure_costs(loop, lambda items: report("measuring goes on", {"items": items}))


def _heads_of(model: Any) -> int:
    """Number of heads that `run` would map; 0 if it would say that they cannot be located."""
    from brodmann.models.backbone.anatomy import head_shape

    try:
        return math.prod(head_shape(model.bare_models()[0]))
    except HeadsNotFoundError:
        return 0


def plan_of_run(
    config: Config,
    model: Any,
    tasks: list[Task],
    report: Report,
    *,
    heads: bool,
    rules: bool = False,
) -> dict[str, Any]:
    """Plan a model that is built; the steps change it, so discard it afterwards."""
    from brodmann.training.step_costs import split_tokens

    counts, disk = model.parameter_counts(), disk_of(model, config)
    batch_size = config.training.evaluation_batch_size
    found = costs_of(config, model, tasks, report)

    def tokens(split: str) -> int:
        return sum(
            split_tokens(model.encode(task.spec, task.splits[split]), batch_size)
            for task in tasks
            if split in task.splits
        )

    validation = tokens("validation")
    evaluations = evaluations_of(config, found.steps, found.steps_per_epoch)
    read = {
        "training": evaluations * validation,
        "evaluation": sum(tokens(split) for split in judged_splits(tasks)),
    }
    if rules:
        read["calibration"] = round(
            sum(tokens(split) * _share_read(config, tasks, split) for split in SPLITS)
        )
    mapped = 0
    heads_to_map = _heads_of(model) if heads else 0
    if heads_to_map:
        mapped = _mapped_once(config, model, tasks) * passes(config.map.estimator, heads_to_map)
        if len(tasks) > 1:
            read["dissociation"] = validation * planned_passes(config, len(tasks))
    seconds = {stage: size * found.seconds_per_token_read for stage, size in read.items()}
    seconds["training"] += found.seconds_of_training
    operations = {stage: size * found.operations_per_token_read for stage, size in read.items()}
    operations["training"] += found.operations_of_training
    if mapped:
        seconds["map of heads"] = mapped * found.seconds_per_token_mapped
        operations["map of heads"] = 2 * mapped * found.operations_per_token_read
    return {
        "name": config.name,
        "parameters": counts,
        "steps": found.steps,
        "evaluations": evaluations,
        "tokens": {"training": found.tokens, "read": sum(read.values()), "mapped": mapped},
        "operations": operations,
        "seconds": seconds,
        "disk": disk,
        **measured_with(found),
    }


def _mapped_once(config: Config, model: Any, tasks: list[Task]) -> int:
    """The tokens that the map of heads is measured on."""
    from brodmann.training.step_costs import split_tokens

    found = 0.0
    for task in tasks:
        encoded = model.encode(task.spec, task.splits["train"])
        tokens = split_tokens(encoded, config.training.evaluation_batch_size)
        found += tokens * _share_of_examples(config, task)
    return int(found)


def _share_read(config: Config, tasks: list[Task], split: str) -> float:
    """The share of a split that the rules are fitted on."""
    sizes = [task.sizes.get(split, 0) for task in tasks]
    return sum(min(size, config.calibrate.examples) for size in sizes) / (sum(sizes) or 1)


def disk_of(model: Any, config: Config) -> dict[str, int]:
    """Bytes on disk: during training, afterwards, per checkpoint, and free."""
    from brodmann.training.checkpoints.checkpoint import disk_space

    found = disk_space(model, config.training.checkpoints)
    kept = config.training.checkpoints * found.checkpoint + found.model
    return {
        "training": found.peak,
        "afterwards": found.model + (kept if config.keep_checkpoints else 0),
        "checkpoint": found.checkpoint,
        "free": free_space(config.folder),
    }


def free_space(folder: Path) -> int:
    """Free bytes on the disk of a folder that exists or will exist."""
    place = folder.absolute()
    return shutil.disk_usage(next(p for p in (place, *place.parents) if p.is_dir())).free


def measured_with(found: Any) -> dict[str, Any]:
    """Memory measured by these steps, and how it was measured."""
    return {
        "memory": {
            "weights": found.bytes_of_weights,
            "activations": found.bytes_of_activations,
            "process": found.bytes_of_process,
        },
        "calibration": asdict(found),
        "machine": provenance(),
    }


def evaluations_of(config: Config, steps: int, an_epoch: float) -> int:
    """Number of evaluations during training: after every epoch (of `an_epoch` steps) or every so
    many steps, and at the end."""
    every = config.training.evaluate_every or an_epoch
    return math.ceil(steps / every - 1e-9)


def _share_of_examples(config: Config, task: Task) -> float:
    wanted, size = config.map.examples, len(task.splits["train"])
    return 1.0 if wanted is None else min(size, wanted) / size


def took(config: Config) -> dict[str, Any] | None:
    """Seconds per stage and peak memory of a finished run or study, from its log; None if it was
    run with other settings."""
    folder = config.folder
    if not any((folder / name).is_file() for name in FINISHED):
        return None
    stored = folder / "config.toml"
    if not stored.is_file() or load_config(stored)[0].fingerprint() != config.fingerprint():
        return None
    stages: dict[str, float] = {}
    memory = 0
    for entry in read_log(folder / "log.jsonl"):
        if "stage" in entry:
            stage = entry["stage"].rpartition(": ")[2]  # the same stage of several seeds is summed
            stages[stage] = stages.get(stage, 0.0) + entry["seconds"]
            memory = max(memory, entry.get("memory", 0))
    return {"seconds": stages, "memory": memory or None} if stages else None


def stored(config: Config, fingerprint: str) -> dict[str, Any] | None:
    """An earlier plan of the same configuration."""
    path = plan_file(config, fingerprint)
    found: dict[str, Any] | None = read_json(path) if path.is_file() else None
    return found if found is not None and found.get("fingerprint") == fingerprint else None
