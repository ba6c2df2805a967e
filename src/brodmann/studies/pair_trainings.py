"""Measure relevance by training every pair of tasks together and every task alone, as a grid.

There are n(n-1)/2 joint runs and n single ones; finished ones are skipped, nothing is trained
twice, and an interrupted study resumes. Each is an ordinary cell of a grid named `<name>-pairs`.
Part of the data shows which tasks help each other: by default a task trains on at most 1,000
examples.

Also writes advice: a runnable configuration that follows from the measurements.
"""

import itertools
from pathlib import Path
from typing import Any

import numpy as np

from brodmann.analysis.clusters import check_clusters
from brodmann.analysis.relevance import improvement_matrix
from brodmann.config import Config, to_toml
from brodmann.data.schema import checked
from brodmann.data.task_cache import TaskCache
from brodmann.data.tasks import Task
from brodmann.errors import InputError, RunError
from brodmann.files import write_json, write_text
from brodmann.models.encoders import ARCHITECTURES, names_with
from brodmann.pipeline.relate import RELEVANCE, described
from brodmann.pipeline.run_folder import check_folder, opened
from brodmann.pipeline.train import tasks_of
from brodmann.studies.cells import task_name
from brodmann.studies.grid import run_grid
from brodmann.training.events import Report

HEADER = "# clusters by "  # first words of an advice file
LIMIT = 1000  # training examples per task in pair trainings


def relate_pairs(
    config: Config,
    base: Path,
    report: Report,
    *,
    clusters: int | None = None,
    limit: int = LIMIT,
    cache: TaskCache | None = None,
) -> dict[str, Any]:
    """Train missing pairs; return relevance by eq. 4, with clusters. `limit` 0: all examples."""
    if limit < 0:
        raise InputError(f"limit = {limit}: expected a number of training examples, 0 for all")
    cache = cache or TaskCache()
    with cache.keeping_tables():
        tasks = tasks_of(config, base, cache)
        names = [task.name for task in tasks]
        _check_pairs(config, tasks, clusters)
        grid = pairs_grid(config, limited(config, tasks, limit))
        for task, entry in zip(tasks, grid.tasks, strict=True):
            if limit and task.sizes["train"] > limit and _is_file(entry):
                text = f"{task.name}: a task file is not limited: set a limit in the file"
                report("note", {"text": text})
        tasks_of(grid, base, cache)  # the limited tasks are drawn from the rows read above
    summary = run_grid(grid, base, report, cache=cache)
    if summary["failed"]:
        every = len(summary["cells"])
        raise RunError(f"{len(summary['failed'])} of {every} trainings failed: run it again")
    single: dict[str, float] = {}
    joint: dict[frozenset[str], dict[str, float]] = {}
    for cell in summary["cells"]:
        results = cell["splits"]["validation"]
        scores = {name: float(entry["score"]) for name, entry in results.items()}
        if len(scores) == 1:
            single |= scores
        else:
            joint[frozenset(scores)] = scores
    matrix = improvement_matrix(names, single, joint)
    result = {
        **described(matrix, names, "pairs", clusters, config.seed),
        "single": single,
        "left_out": {
            name: f"it scores {100 * score:.1f} alone: a ratio to that is not defined"
            for name, score in single.items()
            if not score > 0
        },
        "trained": {
            "limit": limit or None,
            "epochs": config.training.epochs,
            "backbone": config.model.backbone,
            "seed": config.seed,
        },
    }
    with opened(config, tasks, keep=True) as folder:
        file = folder / RELEVANCE.format("pairs")
        write_json(file, result)
        report("relevance", {"result": result, "file": file})
    return result


def _check_pairs(config: Config, tasks: list[Task], clusters: int | None) -> None:
    """Raise InputError for anything that can be wrong, before hours of training."""
    if len(tasks) < 2:
        raise InputError("relations need at least two tasks")
    check_clusters(clusters, len(tasks))
    if not ARCHITECTURES[config.model.architecture].is_shared:
        raise InputError(
            f"--by pairs: architecture '{config.model.architecture}': tasks can only affect each "
            f"other in a shared encoder: use {names_with('is_shared')}"
        )
    check_folder(config, tasks)


def pairs_grid(config: Config, tasks: list[Any]) -> Config:
    """A grid of every task alone and every pair; `tasks` as the configuration would write them."""
    names = [task_name(task) for task in config.tasks]  # the grid uses these names
    groups = [[name] for name in names] + [list(p) for p in itertools.combinations(names, 2)]
    values = config.resolved() | {"name": f"{config.name}-pairs", "tasks": tasks}
    return checked(Config, {**values, "grid": {"groups": groups, "heads": False}}, "relate")


def limited(config: Config, tasks: list[Task], limit: int) -> list[Any]:
    """Descriptions of the tasks, limited to `limit` training examples if they have more.

    Others stay unchanged, so that their cells are shared with other studies.
    """
    found: list[Any] = []
    for plain, task in zip(config.given_tasks(), tasks, strict=True):
        if limit and task.sizes["train"] > limit and not _is_file(plain):
            plain = {"use": plain} if isinstance(plain, str) else plain
            before = plain.get("limit")
            others = before if isinstance(before, dict) else {}
            plain = {**plain, "limit": {**others, "train": limit}}
        found.append(plain)
    return found


def _is_file(entry: Any) -> bool:
    return isinstance(entry, str) and entry.endswith(".toml")


def check_target(target: Path) -> None:
    """Raise InputError unless the file is new or holds older advice."""
    if target.exists() and not (
        target.is_file() and target.read_text(encoding="utf-8", errors="replace").startswith(HEADER)
    ):
        raise InputError(f"{target}: already exists: name another file for the advice")


def advise(config: Config, result: dict[str, Any], target: Path) -> list[str]:
    """Write a configuration that follows from the relevance; return its reasons."""
    names, clusters = result["tasks"], result["clusters"]
    clear = result["suggested"]
    count = "1 cluster" if len(clusters) == 1 else f"{len(clusters)} clusters"
    reasons = [
        f"{HEADER[2:]}{result['by']}: " + "; ".join(", ".join(group) for group in clusters),
        f"{count} (the clearest number is {clear['clusters']}, "
        f"silhouette {clear['silhouette']:.2f})",
    ]
    apart = dict(result.get("left_out", {}))
    if result["by"] == "pairs":
        for name, best in _best_beside_others(result).items():
            if best < 0:
                apart[name] = (
                    f"beside every other task it scored lower than alone ({100 * best:+.1f} % at "
                    "best)"
                )
    reasons += [f"{name} is left out: {reason}" for name, reason in apart.items()]
    kept = [[name for name in group if name not in apart] for group in clusters]
    kept = [group for group in kept if group]
    if sum(len(group) for group in kept) < 2:
        why = "; ".join(f"{name}: {reason}" for name, reason in apart.items())
        raise InputError(f"no advice: fewer than two tasks are left to share an encoder ({why})")
    values = config.resolved()
    for table in ("grid", "compare", "recipe"):  # they would turn the advised run into many
        values.pop(table, None)
    left = {name for group in kept for name in group}
    given = zip(config.given_tasks(), names, strict=True)
    values["tasks"] = [task for task, name in given if name in left]
    if len(kept) > 1:
        values["model"] = {
            **values.get("model", {}),
            "architecture": "hmnet",
            "parameters": {**_depths_of(config), "clusters": kept},
        }
    else:
        reasons.append("one cluster: all tasks share the whole encoder")
        values["model"] = {**values.get("model", {}), "architecture": "shared", "parameters": {}}
    values["name"] = run_name(target.stem, config.name)
    text = "".join(f"# {reason}\n" for reason in reasons)
    write_text(target, text + "\n" + to_toml(values))
    return reasons


def run_name(stem: str, study: str) -> str:
    """A run name from the file's name, different from the study's own."""
    letters = "".join(c if c.isalnum() or c in "_-." else "-" for c in stem).strip(".-")
    return f"{study}-advised" if letters in ("", study) else letters


def _best_beside_others(result: dict[str, Any]) -> dict[str, float]:
    """Best effect of any source on each target, by target; undefined ones are left out."""
    matrix = np.array(result["matrix"], dtype=float)
    found = {}
    for place, name in enumerate(result["tasks"]):
        others = np.delete(matrix[:, place], place)
        if np.isfinite(others).all():
            found[name] = float(others.max())
    return found


def _depths_of(config: Config) -> dict[str, Any]:
    """The depths that were set for `hmnet`."""
    if not ARCHITECTURES[config.model.architecture].takes_clusters:
        return {}
    return {k: v for k, v in config.model.parameters.items() if k != "clusters"}
