"""Run folders as the stages leave them, made of random numbers: reports need no training."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from brodmann.analysis.dissociation import (
    dissociation_scores,
    heads_per_layer,
    overlap,
    verdicts,
)
from brodmann.config import to_toml
from brodmann.files import write_json, write_text
from brodmann.provenance import provenance
from brodmann.results import Dissociation, HeadScores


def write_run(
    folder: Path,
    tasks: list[str],
    *,
    layers: int = 4,
    heads: int = 6,
    seed: int = 0,
    alpha: float = 0.3,
    curve: tuple[float, ...] = (0.1, 0.5),
    removed: tuple[tuple[int, int], ...] = (),
) -> tuple[HeadScores, Dissociation | None]:
    """A trained, evaluated, mapped and dissociated run; its scores and dissociation."""
    random = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    settings = {
        "name": folder.name,
        "seed": seed,
        "tasks": [{"name": task} for task in tasks],
        "model": {"backbone": "builtin:tiny", "architecture": "shared"},
        "training": {"keep": "best"},
    }
    write_text(folder / "config.toml", to_toml(settings))
    write_json(
        folder / "provenance.json",
        {
            "seed": seed,
            "data_seed": 0,
            "fingerprint": "f" * 32,
            "data": {task: _data(place) for place, task in enumerate(tasks)},
            "sittings": [provenance()],
        },
    )
    write_text(folder / "log.jsonl", "".join(json.dumps(line) + "\n" for line in _log(tasks)))
    results = {task: _result(0.6 + 0.3 * random.random()) for task in tasks}
    write_json(
        folder / "metrics.json",
        {"splits": {"validation": results}, "parameters": {"total": 1000, "trainable": 900}},
    )
    values = random.random((len(tasks), layers, heads)) ** 2
    scores = HeadScores(tuple(tasks), values, {"estimator": "gradient"}, removed)
    scores.save(folder / "importance.json")
    if len(tasks) < 2:
        return scores, None
    result = _dissociation(scores, [r["score"] for r in results.values()], alpha, curve, random)
    result.save(folder / "dissociation.json")
    return scores, result


def _data(place: int) -> dict[str, Any]:
    return {
        "fingerprint": str(place),
        "sizes": {"train": 1000, "validation": 300},
        "source": "somewhere",
        "generated": place == 0,
        "notes": [],
    }


def _log(tasks: list[str]) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = [{"start": True, "step": 0, "tasks": {}}]
    for step in (10, 20, 30):
        lines.append(
            {
                "step": step,
                "loss": dict.fromkeys(tasks, 1 / step),
                "batches": dict.fromkeys(tasks, 1),
                "seconds": float(step),
            }
        )
        scores = {task: {"accuracy": 0.5 + step / 100} for task in tasks}
        lines.append({"evaluation": True, "step": step, "scores": scores})
    return [*lines, {"stage": "evaluation", "seconds": 2.5}]


def _result(score: float) -> dict[str, Any]:
    return {
        "metric": "accuracy",
        "score": score,
        "interval": [score - 0.05, score + 0.05],
        "trivial": 0.5,
        "examples": 300,
        "truncated": 0.0,
        "scores": {"accuracy": score},
    }


def _dissociation(
    scores: HeadScores, base: list[float], alpha: float, curve: tuple[float, ...], random: Any
) -> Dissociation:
    tasks = list(scores.tasks)
    count = len(tasks)
    points = []
    for share in sorted({alpha, *curve}):
        chosen = [scores.top(share, task) for task in tasks]
        matrix = np.array(base)[:, None] * (1 - share * random.random((count, count)))
        np.fill_diagonal(matrix, np.array(base) * (1 - share))
        found = dissociation_scores(matrix.tolist(), base)
        points.append((share, chosen, matrix.tolist(), found))
    _, chosen, matrix, found = next(point for point in points if point[0] == alpha)
    layers = heads_per_layer(chosen, scores.shape[0])

    def around(value: float | None) -> list[float] | None:
        return None if value is None else [value - 0.03, value + 0.03]

    return Dissociation(
        tasks=tasks,
        metrics=["accuracy"] * count,
        alpha=alpha,
        heads=chosen,
        base=base,
        trivial=[0.5] * count,
        performance=matrix,
        random=[[b * 0.9, b * 0.95] for b in base],
        per_task=found.per_task,
        mean=found.mean,
        pairwise=found.pairwise,
        verdicts=verdicts(found),
        intervals={
            "level": 0.95,
            "per_task": [around(d) for d in found.per_task],
            "mean": around(found.mean),
            "pairwise": [[around(d) for d in row] for row in found.pairwise],
        },
        p_values=[0.05] * count,
        overlap=overlap(chosen),
        heads_per_layer=layers,
        layer_spread=np.std(layers, axis=0).tolist(),
        undefined={},
        undertrained={},
        curve=[
            {
                "alpha": share,
                "performance": at,
                "per_task": d.per_task,
                "mean": d.mean,
                "overlap": overlap(heads),
            }
            for share, heads, at, d in points
        ],
        settings={"architecture": "shared", "split": "validation"},
    )
