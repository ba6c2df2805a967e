"""What a run will take before it runs, and afterwards how far off that was.

The plan goes to `output/name.plan.json`, beside the run folder.
"""

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from brodmann.analysis.iap import forward_passes
from brodmann.analysis.importance import passes
from brodmann.artifacts import provenance, read_json, read_lines, write_json
from brodmann.config import Config
from brodmann.data.tasks import Task
from brodmann.errors import InputError
from brodmann.pipeline.evaluate import judged_splits
from brodmann.pipeline.run import one_process
from brodmann.pipeline.train import build_model, check_methods, tasks_of


def plan_file(config: Config) -> Path:
    return config.folder.with_name(f"{config.folder.name}.plan.json")


def plan(
    config: Config, base: Path, report: Any, *, heads: bool = True, speed: float | None = None
) -> dict[str, Any]:
    """Take a few steps of the run and count the rest.

    `speed` gives operations a second of another machine, for its hours; without it they are this
    machine's.
    """
    one_process("plan")
    check_speed(speed)
    found = measured(config, base, report, heads=heads)
    file = None
    if speed is not None:  # another machine's hours: not to be held against a run on this one
        found["speed"] = speed
        found["seconds"] = {
            stage: operations / speed for stage, operations in found["operations"].items()
        }
    else:
        file = plan_file(config)
        write_json(file, {**found, "fingerprint": config.fingerprint()})
        found["took"] = took(config.folder)
    report("plan", {"plan": found, "file": file})
    return found


def check_speed(speed: float | None) -> None:
    if speed is not None and not 0 < speed < math.inf:
        raise InputError(f"speed = {speed}: expected operations a second, above 0")


def measured(config: Config, base: Path, report: Any, *, heads: bool) -> dict[str, Any]:
    """The plan of one run, from a calibration on this machine."""
    import torch

    from brodmann.models.families import FAMILIES, head_shape
    from brodmann.training.calibration import SAMPLES, calibrate, split_tokens
    from brodmann.training.iat import IAT
    from brodmann.training.loop import Loop
    from brodmann.training.options import checked_options

    if config.training.sharding is not None:
        report("note", {"text": "planned as one process: shares of a model need less memory each"})
        training = config.training.model_copy(update={"sharding": None})
        config = config.model_copy(update={"training": training})
    check_methods(config)
    report("stage", {"text": "reading tasks"})
    tasks = tasks_of(config, base)
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    report("stage", {"text": f"loading {config.model.backbone}"})
    model = build_model(config, tasks)
    counts = model.parameter_counts()
    left_out = {"gradient_checkpointing", "checkpoint_every", "checkpoints"}
    options = config.training.model_dump(exclude=left_out) | {"seed": config.seed}
    if config.specialize is not None:
        options["specialize"] = IAT(**config.specialize.model_dump())
    loop = Loop(model, tasks, checked_options(options), None, {}, None)
    batch_size = config.training.evaluation_batch_size
    report("measuring starts", {"what": "taking some steps", "examples": SAMPLES + 1})
    found = calibrate(loop, lambda items: report("measuring goes on", {"items": items}))

    def tokens(split: str) -> int:
        return sum(
            split_tokens(model.encode(task.spec, task.splits[split]), batch_size)
            for task in tasks
            if split in task.splits
        )

    validation = tokens("validation")
    evaluations = evaluations_of(config, found.steps, found.steps_an_epoch)
    read = {
        "training": evaluations * validation,
        "evaluation": sum(tokens(split) for split in judged_splits(tasks)),
    }
    mapped = 0
    family = model.config.model_type
    if heads and family in FAMILIES:
        layers, across = head_shape(model.bare_models()[0])
        read_once = sum(
            split_tokens(model.encode(task.spec, task.splits["train"]), batch_size)
            * _share_of_examples(config, task)
            for task in tasks
        )
        mapped = int(read_once) * passes(config.map.estimator, layers * across)
        if len(tasks) > 1:
            section = config.dissociation
            shares = len({section.alpha, *section.curve})
            read["dissociation"] = validation * forward_passes(len(tasks), shares, section.draws)
    seconds = {stage: size * found.seconds_a_token_read for stage, size in read.items()}
    seconds["training"] += found.seconds_of_training
    operations = {stage: size * found.operations_a_token_read for stage, size in read.items()}
    operations["training"] += found.operations_of_training
    if mapped:
        seconds["map of heads"] = mapped * found.seconds_a_token_mapped
        operations["map of heads"] = 2 * mapped * found.operations_a_token_read
    return {
        "name": config.name,
        "parameters": counts,
        "steps": found.steps,
        "evaluations": evaluations,
        "tokens": {"training": found.tokens, "read": sum(read.values()), "mapped": mapped},
        "operations": operations,
        "seconds": seconds,
        "memory": {
            "weights": found.bytes_of_weights,
            "activations": found.bytes_of_activations,
            "process": found.bytes_of_process,
        },
        "calibration": {**asdict(found), "threads": torch.get_num_threads()},
        "machine": provenance(),
    }


def evaluations_of(config: Config, steps: int, an_epoch: float) -> int:
    """During training: after every epoch (of so many steps), or every so many, and at the end."""
    every = config.training.evaluate_every or an_epoch
    return math.ceil(steps / every - 1e-9)


def _share_of_examples(config: Config, task: Task) -> float:
    wanted, size = config.map.examples, len(task.splits["train"])
    return 1.0 if wanted is None else min(size, wanted) / size


def took(folder: Path) -> dict[str, Any] | None:
    """Seconds a stage and the highest memory of a finished run, from its log."""
    if not (folder / "metrics.json").is_file():
        return None
    stages: dict[str, float] = {}
    memory = 0
    for entry in read_lines(folder / "log.jsonl"):
        if "stage" in entry and "seconds" in entry:
            stages[entry["stage"]] = stages.get(entry["stage"], 0.0) + entry["seconds"]
            memory = max(memory, entry.get("memory", 0))
    return {"seconds": stages, "memory": memory or None} if stages else None


def stored(config: Config) -> dict[str, Any] | None:
    """An earlier plan of this run, with what it then took."""
    path = plan_file(config)
    if not path.is_file() or read_json(path).get("fingerprint") != config.fingerprint():
        return None
    found: dict[str, Any] = {**read_json(path), "took": took(config.folder)}
    return found
