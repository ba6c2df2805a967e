"""How far apart task embeddings should start, and how fast conditional modules should learn.

    python benchmarks/conditioning.py FOLDER --out benchmarks/results/conditioning.jsonl

CA-MTL on four small real tasks, 500 rows each, against the shared encoder and against one embedding
for all tasks. It also reports what swapping the tasks costs, which is what knowing the task
is worth. Finished runs are read from `--out` and not repeated.
"""

import argparse
import json
import os
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch

import brodmann as bm
from brodmann.models.controls import evaluate_exchanged, knows_tasks

TASKS = ("glue/sst2", "glue/mrpc", "glue/rte", "glue/cola")
ARMS: dict[str, dict[str, Any]] = {
    "shared, half frozen": {"architecture": "shared", "freeze": 0.5},
    "one embedding": {"parameters": {"embeddings": "one"}},
    "spread 0.02": {"parameters": {"spread": 0.02}},
    "spread 0.2": {"parameters": {"spread": 0.2}},
    "spread 1": {"parameters": {"spread": 1.0}},
    "spread 3": {"parameters": {"spread": 3.0}},
    "spread 1, conditional × 5": {"parameters": {"spread": 1.0}, "faster": 5.0},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", help="folder with sst2/, mrpc/, rte/ and cola/")
    parser.add_argument("--out", default="conditioning.jsonl")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    out = Path(chosen.out)
    results = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    known = {(r["arm"], r["seed"]) for r in results}
    for seed in range(chosen.seeds):
        for arm in ARMS:
            if (arm, seed) not in known:
                results.append(one_run(arm, seed, chosen))
                with out.open("a") as file:
                    file.write(json.dumps(results[-1]) + "\n")
                print(json.dumps(results[-1]), flush=True)
    print_table(results)


def one_run(arm: str, seed: int, chosen: argparse.Namespace) -> dict[str, Any]:
    settings = {"architecture": "ca_mtl", "parameters": {}, "freeze": 0.0} | ARMS[arm]
    faster = settings.pop("faster", 1.0)
    limit = {"train": chosen.rows, "validation": 500}
    tasks = bm.load_tasks(
        [{"use": use, "limit": limit} for use in TASKS], base=chosen.data, seed=seed
    )
    model = bm.MultiTaskModel.from_pretrained("builtin:minilm", tasks, seed=seed, **settings)
    rate = 2e-4
    bm.fit(
        model,
        tasks,
        epochs=chosen.epochs,
        learning_rate=rate,
        rates={"conditional": faster * rate} if faster != 1.0 else {},
        precision="auto",
        keep="last",
        evaluate_every=10**9,
        seed=seed,
    )

    def scores(found: dict[str, Any]) -> dict[str, float]:
        return {name: result.scores[model.spec(name).metric] for name, result in found.items()}

    own = scores(bm.evaluate(model, tasks, precision="auto"))
    exchanged = []
    if knows_tasks(model):
        turns = evaluate_exchanged(model, tasks, precision="auto")
        exchanged = [np.mean(list(scores(turn).values())) for turn in turns]
    return {
        "arm": arm,
        "seed": seed,
        "rows": chosen.rows,
        "epochs": chosen.epochs,
        "scores": own,
        "mean": float(np.mean(list(own.values()))),
        "exchanged": float(np.mean(exchanged)) if exchanged else None,
    }


def print_table(results: list[dict[str, Any]]) -> None:
    """Means in percent; differences to the shared encoder are paired by seed."""
    shared = {r["seed"]: r["mean"] for r in results if r["arm"] == next(iter(ARMS))}
    print("| arm | seeds | mean | minus shared, paired | lost by exchanging tasks |")
    print("|---|---|---|---|---|")
    for arm in ARMS:
        runs = [r for r in results if r["arm"] == arm]
        if not runs:
            continue
        gains = [100 * (r["mean"] - shared[r["seed"]]) for r in runs if r["seed"] in shared]
        lost = [100 * (r["mean"] - r["exchanged"]) for r in runs if r["exchanged"] is not None]
        cells = [in_words([100 * r["mean"] for r in runs]), in_words(gains), in_words(lost)]
        print(f"| {arm} | {len(runs)} | " + " | ".join(cells) + " |")


def in_words(values: list[float]) -> str:
    if not values:
        return "–"
    spread = f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
    return f"{np.mean(values):.1f}{spread}"


if __name__ == "__main__":
    main()
