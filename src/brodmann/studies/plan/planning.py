"""Plans of one run, of a grid or comparison of many, or of a study of short trainings, before
anything runs; and afterwards how far off they were."""

import copy
from pathlib import Path
from typing import Any

import numpy as np

from brodmann.config import Config, SpecializeSection
from brodmann.errors import InputError
from brodmann.files import digest, write_json
from brodmann.pipeline.run import one_process
from brodmann.pipeline.run_folder import trained_model
from brodmann.pipeline.train import build_model, check_methods, tasks_of
from brodmann.studies.adapt import with_tasks
from brodmann.studies.arms import FROM_THE_START, OFF, VARIANTS, arm_config
from brodmann.studies.cells import Cell, cells_of, shared_beginnings, specialized_share
from brodmann.studies.meta_learning import divided
from brodmann.studies.plan.estimate import Sized, few_shot, meta_learning, starts_scored
from brodmann.studies.plan.one_run import (
    calibrated,
    check_speed,
    measured,
    measured_with,
    plan_file,
    plan_of_run,
    shown,
    stored,
    took,
)
from brodmann.studies.transfer import start_of
from brodmann.training.few_shot import LARGEST_BATCH


def make_plan(
    config: Config, base: Path, report: Any, *, speed: float | None = None, heads: bool = True
) -> dict[str, Any]:
    """What the configuration's command will take; once it has run, what it took beside it.

    Of one run `heads` are its map and dissociation.
    `speed` gives operations a second of another machine, for its hours; without it they are this
    machine's.
    """
    one_process("plan")
    check_speed(speed)
    if config.distill is not None:
        raise InputError("[distill]: `plan` does not know `brodmann distill`")
    if config.grid is not None:
        cells = cells_of(config)
        if any(cell.command == "distill" for cell in cells):
            raise InputError("[distill]: `plan` does not know `brodmann distill`")
        shares = own_shares(cells)
        mapped = config.grid.heads
        runs = [(c.label, c.config, mapped, share) for c, share in zip(cells, shares, strict=True)]
        took_each = [took(cell.config) for cell in cells]
        branches = sum(len(branch.keep_at) for branch in shared_beginnings(cells).values())
        return _of_many(config, base, report, runs, took_each, speed, branches)
    if config.compare is not None:
        seeds = config.compare.seeds or [config.seed]
        arms = [arm_config(config, arm, seed) for seed in seeds for arm in config.compare.arms]
        ran = [took(arm) for arm in arms]
        going_on = "multi" in config.compare.arms and set(VARIANTS) & set(config.compare.arms)
        branches = len(seeds) if going_on else 0
        return _of_many(config, base, report, arms_of(config), ran, speed, branches)
    sections = (config.transfer, config.meta, config.adapt)
    fingerprint = digest(config.fingerprint(), *(s and s.model_dump() for s in sections))
    before = stored(config, fingerprint)
    if before is not None and speed is None and (found := took(config)) is not None:
        before["took"] = found
        report("plan", {"plan": before, "file": None})
        return before
    if config.transfer is not None or config.meta is not None:
        found = _of_trainings(config, base, report)
    elif config.adapt is not None:
        found = _of_adapted(config, base, report)
    else:
        found = measured(config, base, report, heads=heads)
    return shown(config, found, fingerprint, report, speed)


def _of_trainings(config: Config, base: Path, report: Any) -> dict[str, Any]:
    """[transfer] and [meta]: some steps of one of their trainings, and the tokens of all."""
    from brodmann.training.calibration import padded_tokens, split_tokens

    report("stage", {"text": "reading tasks"})
    tasks = tasks_of(config, base)
    if config.transfer is not None:
        check_methods(config, "transfer")
        name = next(iter(config.transfer.starts.values()))
        report("stage", {"text": f"loading {name}"})
        model = start_of(name, tasks, config).for_tasks(tasks, max_length=config.model.max_length)
        trained, batch = tasks, min(LARGEST_BATCH, max(config.transfer.examples, default=32))
    else:
        assert config.meta is not None
        check_methods(config, "meta")
        trained = divided(config.meta, {task.name: task for task in tasks})[0]
        report("stage", {"text": f"loading {config.model.backbone}"})
        model, batch = build_model(config, trained), config.meta.support
    from brodmann.training.meta.unseen import nearest

    whole = copy.deepcopy(model)
    for task in tasks:
        if task.name not in whole.specs:
            whole.add_task(task, like=nearest(whole, task))
    splits = ("train", "validation")
    encoded = {
        task.name: {split: whole.encode(task.spec, task.splits[split]) for split in splits}
        for task in tasks
    }

    def tokens(task: Sized, size: int) -> float:
        """Of an example, in batches drawn at random and padded to their longest."""
        texts = encoded[task.name]["train"]
        generator = np.random.default_rng(0)
        draws = [generator.choice(texts.items, min(size, texts.items), False) for _ in range(64)]
        return float(np.mean([padded_tokens(texts, items) / len(items) for items in draws]))

    evaluated = config.training.evaluation_batch_size
    sizes = []
    for task in tasks:
        own = encoded[task.name]
        judged = len(task.splits["validation"])
        read = split_tokens(own["validation"], evaluated) / max(judged, 1)
        spec, count = task.spec, len(task.splits["train"])
        sizes.append(Sized(task.name, spec.kind, spec.group or "", count, judged, read, False))
    trainings = (
        few_shot(config.transfer, sizes, tokens)
        if config.transfer is not None
        else meta_learning(config.meta, sizes, tokens)  # type: ignore[arg-type]
    )
    counts = model.parameter_counts()
    found = calibrated(config, model, trained, report, batch_size=batch)
    return {
        "name": config.name,
        "parameters": counts,
        "trainings": trainings.count,
        "tokens": {
            "training": sum(trainings.learnt.values()),
            "read": sum(trainings.read.values()),
        },
        "operations": trainings.cost(
            found.operations_of_training / found.tokens, found.operations_a_token_read
        ),
        "seconds": trainings.cost(
            found.seconds_of_training / found.tokens, found.seconds_a_token_read
        ),
        **measured_with(found),
    }


def _of_adapted(config: Config, base: Path, report: Any) -> dict[str, Any]:
    """[adapt]: every start scored, one training for every share of the data, and an evaluation."""
    section = config.adapt
    assert section is not None
    check_methods(config, "adapt")
    report("stage", {"text": "reading tasks"})
    tasks = tasks_of(config, base)
    report("stage", {"text": f"loading {section.start}"})
    from brodmann.measuring.zero_shot import starts_alike

    model = trained_model(section.start)
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


def arms_of(config: Config) -> list[tuple[str, Config, bool, float]]:
    """(label, configuration, whether heads are mapped, share of a whole training)."""
    assert config.compare is not None
    special = config.specialize or SpecializeSection.model_construct()
    found = []
    for seed in config.compare.seeds or [config.seed]:
        for arm in config.compare.arms:
            shared = arm in VARIANTS and "multi" in config.compare.arms
            only_off = arm in OFF and arm not in FROM_THE_START and not OFF[arm].get("train", True)
            share = special.delta if shared else 0.0 if only_off else 1.0
            settings = arm_config(config, arm, seed)
            settings = settings.model_copy(update={"off": None, "specialize": None})
            heads = arm != "single" and arm not in OFF
            found.append((f"{arm}, seed {seed}", settings, heads, share))
    return found


def _of_many(
    config: Config,
    base: Path,
    report: Any,
    runs: list[tuple[str, Config, bool, float]],
    took_each: list[dict[str, Any] | None],
    speed: float | None,
    branches: int,
) -> dict[str, Any]:
    """Runs that differ in the seed alone are measured once; `branches` are checkpoints that stay
    until all runs are finished."""
    fingerprint = digest([(run.fingerprint(), heads, share) for _, run, heads, share in runs])
    before = stored(config, fingerprint)
    if before is not None and speed is None and any(took_each):
        report("plan of many", {"plan": _with_times(before, took_each), "file": None})
        return before
    known: dict[str, dict[str, Any]] = {}
    cells = []
    for label, settings, heads, share in runs:
        kept = {k: v for k, v in settings.resolved().items() if k not in ("seed", "name", "output")}
        key = digest(kept, heads)
        if key not in known:
            known[key] = (
                measured(settings, base, report, heads=heads)
                if settings.adapt is None
                else _of_adapted(settings, base, report)
            )
        found = known[key]
        cell: dict[str, Any] = {
            "label": label,
            "parameters": found["parameters"]["total"],
            "steps": round(share * found["steps"]),
            "tokens": share * found["tokens"]["training"],
        }
        for kind in ("operations", "seconds"):
            cell[kind] = {k: v * (share if k == "training" else 1) for k, v in found[kind].items()}
        cell["disk"] = found["disk"]["afterwards"]
        if speed is not None:
            cell["seconds"] = {k: v / speed for k, v in cell["operations"].items()}
        cells.append(cell)
    result = {
        "name": config.name,
        "runs": len(cells),
        "calibrated": len(known),
        "cells": cells,
        "seconds": sum(sum(cell["seconds"].values()) for cell in cells),
        "operations": sum(sum(cell["operations"].values()) for cell in cells),
        "parameters": max(cell["parameters"] for cell in cells),
        "steps": sum(cell["steps"] for cell in cells),
        "tokens": sum(cell["tokens"] for cell in cells),
        "memory": max(found["memory"]["process"] for found in known.values()),
        "disk": _disk_of_many(cells, [found["disk"] for found in known.values()], branches),
    }
    file = None
    if speed is None:
        file = plan_file(config, fingerprint)
        write_json(file, {**result, "fingerprint": fingerprint})
        _with_times(result, took_each)
    report("plan of many", {"plan": result, "file": file})
    return result


def _disk_of_many(
    cells: list[dict[str, Any]], disks: list[dict[str, int]], branches: int
) -> dict[str, int]:
    """Of all runs, one after the other: what the finished ones keep, and one that trains."""
    kept = sum(cell["disk"] for cell in cells)
    largest = max(disks, key=lambda disk: disk["training"])
    return {
        "training": kept + largest["training"] + branches * largest["checkpoint"],
        "afterwards": kept,
        "free": largest["free"],
    }


def _with_times(plan: dict[str, Any], found: list[dict[str, Any] | None]) -> dict[str, Any]:
    """A plan of many with what each run took: of the stages that were planned and have run."""
    for cell, one in zip(plan["cells"], found, strict=True):
        there = {} if one is None else one["seconds"]
        cell["took"] = {k: there[k] for k in cell["seconds"] if k in there} or None
    reached = [one["memory"] for one in found if one is not None and one["memory"]]
    plan["reached"] = max(reached, default=None)
    return plan


def own_shares(cells: list[Cell]) -> list[float]:
    """Of its training, what each cell does itself: others may have taken its first steps."""
    branches = shared_beginnings(cells)
    return [
        specialized_share(cell)
        if (branch := branches.get(cell.fingerprint)) is not None and branch.start is not None
        else 1.0
        for cell in cells
    ]
