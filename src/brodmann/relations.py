"""Relevance by training: every pair of tasks together and every task alone, on the grid.

n(n-1)/2 joint runs and n single ones; what is finished is skipped, nothing is trained twice, an
interrupted study goes on. Each is an ordinary cell of a grid named `<name>-pairs`.

And advice: what the measurements propose, as a configuration one can run.
"""

import itertools
from pathlib import Path
from typing import Any

import numpy as np

from brodmann.analysis.relevance import improvement_matrix
from brodmann.artifacts import write_json, write_text
from brodmann.config import Config, to_toml
from brodmann.data.description import checked
from brodmann.errors import InputError, RunError
from brodmann.grid import run_grid, task_name
from brodmann.pipeline.relate import RELEVANCE, described
from brodmann.pipeline.run_folder import opened
from brodmann.pipeline.train import tasks_of

HEADER = "# clusters by "  # how advice begins


def relate_pairs(
    config: Config, base: Path, report: Any, *, clusters: int | None = None
) -> dict[str, Any]:
    """Train what is not trained yet; relevance by eq. 4, with clusters."""
    tasks = tasks_of(config, base)
    names = [task.name for task in tasks]
    if len(names) < 2:
        raise InputError("relations need at least two tasks")
    if config.model.architecture != "shared":
        raise InputError(
            f"--by pairs: architecture '{config.model.architecture}': what two tasks do to each "
            "other shows where they share an encoder: use 'shared'"
        )
    written = [task_name(task) for task in config.tasks]  # the grid goes by these
    values = config.resolved()
    values["tasks"] = [
        task if isinstance(task, str) else task.model_dump(exclude_unset=True)
        for task in config.tasks
    ]
    groups = [[name] for name in written] + [list(p) for p in itertools.combinations(written, 2)]
    values |= {"name": f"{config.name}-pairs", "grid": {"groups": groups, "heads": False}}
    summary = run_grid(checked(Config, values, "relate"), base, report)
    if summary["failed"]:
        raise RunError(f"{len(summary['failed'])} of {len(groups)} trainings failed: run it again")
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
    with opened(config, tasks, keep=True) as folder:
        result = {**described(matrix, names, "pairs", clusters, config.seed), "single": single}
        file = folder / RELEVANCE.format("pairs")
        write_json(file, result)
        report("relevance", {"result": result, "file": file})
    return result


def _depths_of(config: Config) -> dict[str, Any]:
    """Depths that were given for `hmnet` stay."""
    if config.model.architecture != "hmnet":
        return {}
    return {k: v for k, v in config.model.parameters.items() if k != "clusters"}


def check_target(target: Path) -> None:
    """Advice replaces older advice and nothing else."""
    if target.exists() and not (
        target.is_file() and target.read_text(encoding="utf-8", errors="replace").startswith(HEADER)
    ):
        raise InputError(f"{target}: is there already: name another file for the advice")


def advise(config: Config, result: dict[str, Any], target: Path) -> list[str]:
    """Write a configuration that follows from the relevance, with the reasons; the reasons."""
    names, clusters = result["tasks"], result["clusters"]
    reasons = [
        f"{HEADER[2:]}{result['by']}: " + "; ".join(", ".join(group) for group in clusters),
        f"{len(clusters)} clusters (the clearest number is {result['suggested']['clusters']}, "
        f"silhouette {result['suggested']['silhouette']:.2f})",
    ]
    apart: list[str] = []
    if result["by"] == "pairs":
        matrix = np.array(result["matrix"])
        for place, name in enumerate(names):
            others = np.delete(matrix[:, place], place)
            if others.max() < 0:
                apart.append(name)
                reasons.append(
                    f"{name} is left out: beside every other task it scored lower than alone "
                    f"({100 * others.max():+.1f} % at best)"
                )
    kept = [[name for name in group if name not in apart] for group in clusters]
    kept = [group for group in kept if group]
    if sum(len(group) for group in kept) < 2:
        raise InputError("nothing to share: every task did better alone")
    values = config.resolved()
    left = {name for group in kept for name in group}
    values["tasks"] = [
        task if isinstance(task, str) else task.model_dump(exclude_unset=True)
        for task, name in zip(config.tasks, names, strict=True)
        if name in left
    ]
    if len(kept) > 1:
        values["model"] = {
            **values.get("model", {}),
            "architecture": "hmnet",
            "parameters": {**_depths_of(config), "clusters": kept},
        }
    else:
        reasons.append("one cluster: all tasks share the whole encoder")
        values["model"] = {**values.get("model", {}), "architecture": "shared", "parameters": {}}
    values["name"] = target.stem
    text = "".join(f"# {reason}\n" for reason in reasons)
    write_text(target, text + "\n" + to_toml(values))
    return reasons
