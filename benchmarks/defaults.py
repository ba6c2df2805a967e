"""How the defaults were chosen: pooling, learning rate and epochs on small data.

    python benchmarks/defaults.py FOLDER --out benchmarks/results/defaults.jsonl [--study pooling …]

Real tasks of three kinds, 200 to 5,000 rows each, trained together; scores on 300 validation rows
per task, mean over tasks. Finished runs are read from `--out` and not repeated; without `--study`
every study runs.
"""

import argparse
import itertools
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch

import brodmann as bm

TASKS = ("glue/sst2", "ag_news", "glue/mrpc")
USUAL: dict[str, Any] = {"backbone": "builtin:minilm", "rows": 200, "rate": 2e-4, "epochs": 8}
USUAL |= {"pooling": "first", "bucketing": True, "heads": 1.0}
STUDIES: dict[str, dict[str, list[Any]]] = {
    "pooling": {"pooling": ["first", "mean", "pooler"]},
    "pooling by rate": {"pooling": ["pooler", "first", "mean"], "rate": [5e-5, 1e-4, 5e-4]},
    "steps": {"rows": [200], "epochs": [3, 8, 16, 24]},
    "rate": {"rows": [1000], "epochs": [3], "rate": [5e-5, 1e-4, 2e-4, 5e-4]},
    "more rows": {"rows": [5000], "epochs": [3], "rate": [1e-4, 2e-4, 5e-4]},
    "bucketing": {"bucketing": [True, False]},
    "output heads": {"heads": [1.0, 5.0, 20.0]},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", help="folder with sst2/, ag_news/ and mrpc/")
    parser.add_argument("--out", default="defaults.jsonl")
    parser.add_argument("--study", action="append", choices=list(STUDIES))
    parser.add_argument("--backbone", help="instead of builtin:minilm, e.g. a folder")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    out = Path(chosen.out)
    results = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    own = {} if chosen.backbone is None else {"backbone": chosen.backbone}
    for seed in range(chosen.seeds):
        for study in chosen.study or STUDIES:
            for settings in cases(STUDIES[study], own):
                if any(same(r, settings, seed) for r in results):
                    continue
                results.append(one_run(settings, seed, chosen.data))
                with out.open("a") as file:
                    file.write(json.dumps(results[-1]) + "\n")
                print(json.dumps(results[-1]), flush=True)
    for study in chosen.study or STUDIES:
        print_table(study, results, own)


def cases(varied: dict[str, list[Any]], own: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for values in itertools.product(*varied.values()):
        yield USUAL | own | dict(zip(varied, values, strict=True))


def same(result: dict[str, Any], settings: dict[str, Any], seed: int) -> bool:
    told = settings | {"backbone": Path(settings["backbone"]).name}
    return result["settings"] == told and result["seed"] == seed


def one_run(settings: dict[str, Any], seed: int, data: str) -> dict[str, Any]:
    started = time.perf_counter()
    limit = {"train": settings["rows"], "validation": 300}
    tasks = bm.load_tasks([{"use": use, "limit": limit} for use in TASKS], base=data, seed=seed)
    model = bm.MultiTaskModel.from_pretrained(
        settings["backbone"], tasks, pooling=settings["pooling"], seed=seed
    )
    bm.fit(
        model,
        tasks,
        epochs=settings["epochs"],
        learning_rate=settings["rate"],
        rates={"heads": settings["rate"] * settings["heads"]},
        bucketing=settings["bucketing"],
        precision="auto",
        keep="last",
        evaluate_every=10**9,
        seed=seed,
    )
    found = bm.evaluate(model, tasks, precision="auto")
    scores = {name: result.scores[model.spec(name).metric] for name, result in found.items()}
    return {
        "settings": settings | {"backbone": Path(settings["backbone"]).name},
        "seed": seed,
        "scores": scores,
        "mean": sum(scores.values()) / len(scores),
        "seconds": round(time.perf_counter() - started, 1),
    }


def print_table(study: str, results: list[dict[str, Any]], own: dict[str, Any]) -> None:
    """Mean score in percent over tasks, ± over seeds, for each case of a study."""
    print(f"\n{study}: " + ", ".join(f"{k} {v}" for k, v in (USUAL | own).items()))
    for settings in cases(STUDIES[study], own):
        told = settings | {"backbone": Path(settings["backbone"]).name}
        values = [100 * r["mean"] for r in results if r["settings"] == told]
        if values:
            spread = f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
            varied = ", ".join(f"{key} {settings[key]}" for key in STUDIES[study])
            print(f"| {varied} | {np.mean(values):.1f}{spread} | {len(values)} |")


if __name__ == "__main__":
    main()
