"""Plan a study of many runs: those that differ only in the seed are measured once."""

from pathlib import Path
from typing import Any

from brodmann.config import Config
from brodmann.data.task_cache import TaskCache
from brodmann.files import digest, write_json
from brodmann.studies import study_of
from brodmann.studies.plan.counting import Run
from brodmann.studies.plan.measuring_run import plan_file, stored, took
from brodmann.training.events import Report


def plan_many(
    config: Config,
    base: Path,
    report: Report,
    runs: list[Run],
    configs: list[Config],
    *,
    speed: float | None,
    branches: int,
) -> dict[str, Any]:
    """Plan `runs`, which will have `configs`; `branches` is the number of checkpoints that stay
    until all runs are finished."""
    took_each = [took(one) for one in configs]
    fingerprint = digest([(run.fingerprint(), heads, share) for _, run, heads, share in runs])
    before = stored(config, fingerprint)
    if before is not None and speed is None and any(took_each):
        report("plan of many", {"plan": _with_times(before, took_each), "file": None})
        return before
    known: dict[str, dict[str, Any]] = {}
    cells, cache = [], TaskCache()
    for label, settings, heads, share in runs:
        kept = {k: v for k, v in settings.resolved().items() if k not in ("seed", "name", "output")}
        key = digest(kept, heads)
        if key not in known:
            study = study_of(settings)
            known[key] = study.measure(settings, base, report, heads=heads, cache=cache)
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
    """Disk space of all runs, one after the other: what finished ones keep, and one that trains."""
    kept = sum(cell["disk"] for cell in cells)
    largest = max(disks, key=lambda disk: disk["training"])
    return {
        "training": kept + largest["training"] + branches * largest["checkpoint"],
        "afterwards": kept,
        "free": largest["free"],
    }


def _with_times(plan: dict[str, Any], found: list[dict[str, Any] | None]) -> dict[str, Any]:
    """A plan of many runs with the time each took, for planned stages that have run."""
    for cell, one in zip(plan["cells"], found, strict=True):
        there = {} if one is None else one["seconds"]
        cell["took"] = {k: there[k] for k in cell["seconds"] if k in there} or None
    reached = [one["memory"] for one in found if one is not None and one["memory"]]
    plan["reached"] = max(reached, default=None)
    return plan
