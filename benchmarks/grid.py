"""Twelve small runs in order and on a Ray cluster of two workers, one thread per run.

    python benchmarks/grid.py --out benchmarks/results/grid.json

Efficiency is the time in order over twice that on two workers, with and without the start of the
cluster. Both must give the same numbers before times are compared.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from brodmann.config import load_config
from brodmann.provenance import provenance
from brodmann.studies.grid import run_grid
from brodmann.studies.ray_engine import ray_engine

CONFIG = """
name = "study"
output = "{folder}/runs"
threads = 1
tasks = [
  {{ use = "builtin/sentiment", limit = {{ train = 150, validation = 50, test = 20 }} }},
  {{ use = "builtin/similarity", limit = {{ train = 150, validation = 50, test = 20 }} }},
]
[model]
backbone = "{backbone}"
[training]
epochs = {epochs}
learning_rate = 1e-4
[grid]
heads = false
vary = {{ seed = [0, 1, 2, 3], "training.weight_decay" = [0.0, 0.1, 0.2] }}
"""


def timed(folder: Path, backbone: str, epochs: int, engine: Any) -> tuple[float, dict[str, Any]]:
    folder.mkdir()
    path = folder / "study.toml"
    path.write_text(CONFIG.format(folder=folder, backbone=backbone, epochs=epochs))
    config, base = load_config(path)
    began = time.perf_counter()
    summary = run_grid(config, base, lambda event, facts: None, engine=engine)
    seconds = time.perf_counter() - began
    return seconds, {c["label"]: c["splits"]["validation"] for c in summary["cells"]}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--backbone", default="builtin:minilm")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        given = (arguments.backbone, arguments.epochs)
        first, alone = timed(Path(folder) / "order", *given, None)
        second, both = timed(Path(folder) / "ray", *given, ray_engine(workers=2, cpus=1))
        start = seconds_to_start()
    if alone != both:
        raise SystemExit("the two engines do not agree")
    found = {
        "cells": len(alone),
        "backbone": arguments.backbone,
        "seconds in order": first,
        "seconds on two workers": second,
        "seconds to start cluster and workers": start,
        "speed-up": first / second,
        "efficiency": first / (2 * second),
        "efficiency without the start": first / (2 * (second - start)),
        **{k: v for k, v in provenance().items() if k in ("versions", "processor", "cores")},
    }
    print(json.dumps(found, indent=1))
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def seconds_to_start() -> float:
    """Start a cluster and one worker that imports torch, and stop."""
    import ray

    began = time.perf_counter()
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    task = ray.remote(num_cpus=1)(_imports)
    ray.get([task.remote(), task.remote()])
    ray.shutdown()
    return time.perf_counter() - began


def _imports() -> str:
    import brodmann.training.fit

    return brodmann.training.fit.__name__


if __name__ == "__main__":
    main()
