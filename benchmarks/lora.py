"""How fast LoRA should learn, what it reaches, and what it saves against training all weights.

    python benchmarks/lora.py FOLDER --out benchmarks/results/lora.jsonl
    python benchmarks/lora.py FOLDER --speed

The first trains `builtin:minilm` on SST-2 and MRPC, 300 rows each, at several rates of the part
`lora` (multiples of the common rate) and with all weights. The second compares seconds per step,
the sides taking turns, and the bytes of weights, gradients and moments. Finished runs are read from
`--out` and not repeated.
"""

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch

import brodmann as bm
from brodmann.data.batches import make_batch
from brodmann.training.defaults import RATE

TASKS = ("glue/sst2", "glue/mrpc")
ARMS: dict[str, tuple[str, float]] = {  # architecture, multiple of the common rate
    "all weights": ("shared", 1.0),
    "lora × 1": ("lora", 1.0),
    "lora × 5": ("lora", 5.0),
    "lora × 10": ("lora", 10.0),
    "lora × 20": ("lora", 20.0),
    "task_lora × 10": ("task_lora", 10.0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", help="folder with sst2/ and mrpc/")
    parser.add_argument("--out", default="lora.jsonl")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--arms", nargs="*", default=list(ARMS))
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--speed", action="store_true")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    if chosen.speed:
        print(json.dumps(speed(chosen)))
        return
    out = Path(chosen.out)
    results = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    known = {(r["arm"], r["seed"]) for r in results}
    for seed in range(chosen.seeds):
        for arm in chosen.arms:
            if (arm, seed) not in known:
                results.append(one_run(arm, seed, chosen))
                with out.open("a") as file:
                    file.write(json.dumps(results[-1]) + "\n")
                print(json.dumps(results[-1]), flush=True)
    for arm in chosen.arms:
        of_arm = [r for r in results if r["arm"] == arm]
        scores = [f"{statistics.mean(r['scores'][t] for r in of_arm):.3f}" for t in TASKS]
        print(f"| {arm} | {of_arm[0]['trainable']:,} | " + " | ".join(scores) + " |")


def tasks_of(chosen: argparse.Namespace, seed: int) -> list[Any]:
    limit = {"train": chosen.rows, "validation": 300}
    described = [{"use": name, "limit": limit} for name in TASKS]
    return bm.load_tasks(described, base=chosen.data, seed=seed)


def one_run(arm: str, seed: int, chosen: argparse.Namespace) -> dict[str, Any]:
    architecture, faster = ARMS[arm]
    tasks = tasks_of(chosen, seed)
    model = bm.MultiTaskModel.from_pretrained(
        "builtin:minilm",
        tasks,
        architecture=architecture,
        max_length=chosen.max_length,
        seed=seed,
    )
    rates = {"lora": faster * RATE} if "lora" in architecture else {}
    began = time.perf_counter()
    options: dict[str, Any] = {"keep": "last", "evaluate_every": 10**6, "precision": "float32"}
    bm.fit(model, tasks, epochs=chosen.epochs, seed=seed, rates=rates, **options)
    seconds = time.perf_counter() - began
    found = bm.evaluate(model, tasks, precision="float32")
    return {
        "arm": arm,
        "seed": seed,
        "rows": chosen.rows,
        "trainable": model.parameter_counts()["trainable"],
        "scores": {task.name: found[task.name].scores[task.spec.metric] for task in tasks},
        "seconds": seconds,
    }


def speed(chosen: argparse.Namespace, rounds: int = 12) -> dict[str, Any]:
    """Seconds per step and bytes, as ratios to training all weights."""
    tasks = tasks_of(chosen, 0)
    models = {
        name: bm.MultiTaskModel.from_pretrained("builtin:minilm", tasks, architecture=name)
        for name in ("shared", "lora", "task_lora")
    }
    seconds: dict[str, list[float]] = {name: [] for name in models}
    optimizers = {
        name: torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], fused=True)
        for name, model in models.items()
    }
    for number in range(rounds):
        for name, model in models.items():
            task = tasks[number % len(tasks)]
            encoded = model.encode(task.spec, task.splits["train"])
            batch = make_batch([(task.name, encoded, np.arange(32))], pad_id=0)
            began = time.perf_counter()
            model.train()(batch).losses[0].mean().backward()
            optimizers[name].step()
            optimizers[name].zero_grad()
            if number > 1:
                seconds[name].append(time.perf_counter() - began)
    counts = {name: model.parameter_counts() for name, model in models.items()}
    held = {name: 4 * (count["total"] + 3 * count["trainable"]) for name, count in counts.items()}
    typical = {name: statistics.median(values) for name, values in seconds.items()}
    return {
        "seconds": {name: value / typical["shared"] for name, value in typical.items()},
        "bytes": {name: value / held["shared"] for name, value in held.items()},
        "trainable": {name: count["trainable"] for name, count in counts.items()},
    }


if __name__ == "__main__":
    main()
