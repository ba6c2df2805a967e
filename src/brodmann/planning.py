"""Plans of one run, or of a grid or comparison of many, before anything runs."""

from pathlib import Path
from typing import Any

from brodmann.arms import FROM_THE_START, OFF, VARIANTS, arm_config
from brodmann.artifacts import digest
from brodmann.config import Config, MetaSection, SpecializeSection
from brodmann.errors import InputError
from brodmann.grid import cells_of
from brodmann.pipeline.plan import measured, plan, stored


def make_plan(
    config: Config, base: Path, report: Any, *, speed: float | None = None
) -> dict[str, Any]:
    """What the configuration's command will take; of a finished run, what it took beside it."""
    if config.meta is not None:
        raise InputError(_no_plan_of(config.meta))
    if config.grid is not None:
        heads = config.grid.heads
        runs = [(cell.label, cell.config, heads, 1.0) for cell in cells_of(config)]
        return _of_many(config, base, report, runs, speed)
    if config.compare is not None:
        return _of_many(config, base, report, _arms(config), speed)
    before = stored(config)
    if before is not None and before["took"] is not None and speed is None:
        report("plan", {"plan": before, "file": None})
        return before
    return plan(config, base, report, speed=speed)


def _no_plan_of(section: MetaSection) -> str:
    training = section.steps * section.pairs
    training *= section.inner_steps * section.support + section.query
    twice = " and as many for plain training" if "multitask" in section.against else ""
    return (
        f"[meta]: `plan` does not know `brodmann meta`; each of its {section.seeds} seeds reads "
        f"{training:,} examples to meta-train{twice}"
    )


def _arms(config: Config) -> list[tuple[str, Config, bool, float]]:
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
    speed: float | None,
) -> dict[str, Any]:
    """Runs that differ in the seed alone are measured once."""
    known: dict[str, dict[str, Any]] = {}
    cells, total, operations = [], 0.0, 0.0
    for label, settings, heads, share in runs:
        kept = {k: v for k, v in settings.resolved().items() if k not in ("seed", "name", "output")}
        key = digest(kept)
        if key not in known:
            known[key] = measured(settings, base, report, heads=heads)
        found = known[key]
        count = sum(v * (share if k == "training" else 1) for k, v in found["operations"].items())
        seconds = sum(v * (share if k == "training" else 1) for k, v in found["seconds"].items())
        if speed is not None:
            seconds = count / speed
        total, operations = total + seconds, operations + count
        cells.append({"label": label, "seconds": seconds, "operations": count})
    result = {
        "name": config.name,
        "runs": len(cells),
        "calibrated": len(known),
        "cells": cells,
        "seconds": total,
        "operations": operations,
        "memory": max(found["memory"]["process"] for found in known.values()),
    }
    report("plan of many", {"plan": result})
    return result
