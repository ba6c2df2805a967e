"""Why does D differ between runs? One difference at a time, several seeds each.

    python benchmarks/dissociation_gap.py FOLDER --out gap.jsonl [--arm plain …] [--seeds 5]

SST-2 and QNLI, 2,000 training and 600 validation rows each, MiniLM, 3 epochs, α = 0.3. `loop` is a
training loop written by hand with torch alone, on the same rows and from the same weights as
`fit`; the other arms change one thing in it. Every trained model is measured several times: with
importance from all training rows, from both halves, and from fifths of 400 rows, in float32 and
in bfloat16 (if the processor has it). Finished (arm, seed) pairs are read from `--out` and not
repeated.
"""

import argparse
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch
from torch import nn

import brodmann as bm

# What a script of 100 lines does: torch's defaults, and both tasks in turn.
BARE: dict[str, Any] = {"buckets": False, "clip": None, "decay": 0.01, "order": "turn"}
BARE |= {"schedule": "constant", "start": "torch"}
ARMS: dict[str, dict[str, Any]] = {
    "fit": {"loop": False},
    "loop": {},
    "bare loop": BARE,
    "loop, constant rate": {"schedule": "constant"},
    "loop, torch's own start of heads": {"start": "torch"},
    "loop, no clipping, weight decay 0.01": {"clip": None, "decay": 0.01},
    "loop, tasks in turn": {"order": "turn"},
    "loop, batches of any length": {"buckets": False},
    "fit, batches of any length": {"loop": False, "buckets": False},
    "loop, first token": {"pooling": "first"},
    "fit, first token": {"loop": False, "pooling": "first"},
    "fit, mean": {"loop": False, "pooling": "mean"},
    "fit, rate 1e-4": {"loop": False, "rate": 1e-4},
}
PLAIN: dict[str, Any] = {"loop": True, "buckets": True, "clip": 1.0, "decay": 0.0}
PLAIN |= {"order": "shuffled", "rate": 5e-5, "pooling": "pooler", "epochs": 3, "batch": 32}
PLAIN |= {"schedule": "linear", "start": "own"}
PARTS = 10  # of a task's training rows; a draw of importance examples is some of the parts
MEASURES: dict[str, tuple[str, range]] = {
    "all": ("float32", range(PARTS)),
    "1,000": ("float32", range(5)),
    "the other 1,000": ("float32", range(5, 10)),
    "1,000 in bf16": ("bf16", range(5)),
    "400": ("float32", range(2)),
    "another 400": ("float32", range(2, 4)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", help="folder with sst2/ and qnli/")
    parser.add_argument("--out", default="gap.jsonl")
    parser.add_argument("--arm", action="append", choices=list(ARMS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    out = Path(chosen.out)
    results = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    known = {(r["arm"], r["seed"]) for r in results}
    for seed in range(chosen.seeds):
        for arm in chosen.arm or ARMS:
            if (arm, seed) in known:
                continue
            result = one_run(arm, seed, chosen.data, chosen.precision)
            with out.open("a") as file:
                file.write(json.dumps(result) + "\n")
            results.append(result)
            print(arm, seed, [f"{100 * m['D']:.1f}" for m in result["measures"]], flush=True)
    print_table(results)


def one_run(arm: str, seed: int, data: str, precision: str) -> dict[str, Any]:
    settings = PLAIN | ARMS[arm]
    rows = {"train": 2000, "validation": 600}
    tasks = bm.load_tasks(
        [{"use": f"glue/{n}", "limit": rows} for n in ("sst2", "qnli")], base=data
    )
    model = bm.MultiTaskModel.from_pretrained(
        "builtin:minilm", tasks, seed=seed, pooling=settings["pooling"]
    )
    if settings["loop"]:
        train_by_hand(model, tasks, settings, seed, precision)
    else:
        bm.fit(
            model,
            tasks,
            epochs=settings["epochs"],
            batch_size=settings["batch"],
            learning_rate=settings["rate"],
            weight_decay=settings["decay"],
            clip=settings["clip"],
            bucketing=settings["buckets"],
            precision=precision,
            keep="last",
            evaluate_every=10**9,
            seed=seed,
        )
    model.eval()
    counts = {"float32": PARTS} | ({"bf16": 5} if model_is_fast_in_bf16() else {})
    parts = {
        how: [importance(model, tasks, part, how) for part in range(count)]
        for how, count in counts.items()
    }
    measures = []
    for name, (how, chosen) in MEASURES.items():
        if how not in counts:
            continue
        values = np.mean([parts[how][part].values for part in chosen], axis=0)
        scores = replace(parts[how][0], values=values)
        found = bm.dissociation(model, tasks, scores, draws=0, resamples=0, precision=precision)
        measures.append(
            {
                "importance": name,
                "base": found.base,
                "performance": found.performance,
                "per_task": found.per_task,
                "D": found.mean,
                "overlap": found.overlap[0][1],
                "heads": found.heads,
            }
        )
    return {"arm": arm, "seed": seed, "settings": settings, "measures": measures}


def importance(model: Any, tasks: list[Any], part: int, precision: str) -> Any:
    """Head scores from one tenth of the training rows."""
    rows = range(part, len(tasks[0].splits["train"]), PARTS)
    return bm.head_importance(model, tasks, examples=list(rows), precision=precision)


def train_by_hand(
    model: Any, tasks: list[Any], settings: dict[str, Any], seed: int, precision: str
) -> None:
    """Train without Brodmann: with its own batches, loss, optimizer and schedule."""
    bert, batch = model.encoder.backbone, settings["batch"]
    heads = {task.name: model.head_of(task.name).stock.classifier for task in tasks}
    rows = {task.name: encoded_rows(model, task) for task in tasks}
    generator = np.random.default_rng(seed + 100)
    torch.manual_seed(seed)
    if settings["start"] == "torch":
        for head in heads.values():
            head.reset_parameters()
    trained = [*bert.parameters(), *(p for head in heads.values() for p in head.parameters())]
    optimizer = torch.optim.AdamW(trained, lr=settings["rate"], weight_decay=settings["decay"])
    plan: list[tuple[str, Any]] = []
    for _ in range(settings["epochs"]):
        walks = {name: batches(own, batch, settings, generator) for name, own in rows.items()}
        if settings["order"] == "turn":
            plan += [(n, walk[k]) for k in range(len(walks["sst2"])) for n, walk in walks.items()]
        else:
            epoch = [(name, one) for name, walk in walks.items() for one in walk]
            plan += [epoch[place] for place in generator.permutation(len(epoch))]
    rising = len(plan) // 10
    low = precision == "bf16" or (precision == "auto" and model_is_fast_in_bf16())
    model.train()
    for step, (name, items) in enumerate(plan):
        left = (len(plan) - step) / (len(plan) - rising)
        for group in optimizer.param_groups:
            share = (step + 1) / rising if step < rising else left
            group["lr"] = settings["rate"] * (1.0 if settings["schedule"] == "constant" else share)
        inputs, labels = padded([rows[name][item] for item in items])
        with torch.autocast("cpu", torch.bfloat16, enabled=low):
            states = bert(**inputs)
            first = states.last_hidden_state[:, 0]
            vector = states.pooler_output if settings["pooling"] == "pooler" else first
            logits = heads[name](nn.functional.dropout(vector, 0.1))
        optimizer.zero_grad()
        nn.functional.cross_entropy(logits.float(), labels).backward()
        if settings["clip"] is not None:
            nn.utils.clip_grad_norm_(trained, settings["clip"])
        optimizer.step()


def model_is_fast_in_bf16() -> bool:
    from brodmann.models.backbone.precision import fast_bf16

    return fast_bf16(torch.device("cpu"))


def encoded_rows(model: Any, task: Any) -> list[tuple[Any, Any, int]]:
    """(token ids, token types, label) of every training row."""
    encoded = model.encode(task.spec, task.splits["train"])
    labels = next(iter(encoded.labels.values()))
    spans = zip(encoded.starts[:-1], encoded.starts[1:], strict=True)
    return [
        (encoded.ids[a:b], encoded.types[a:b], int(y))
        for (a, b), y in zip(spans, labels, strict=True)
    ]


def batches(rows: list[Any], size: int, settings: dict[str, Any], generator: Any) -> list[Any]:
    order = generator.permutation(len(rows))
    if settings["buckets"]:
        lengths = np.array([len(ids) for ids, _, _ in rows])
        for start in range(0, len(order), 15 * size):
            part = order[start : start + 15 * size]
            order[start : start + 15 * size] = part[np.argsort(lengths[part], kind="stable")]
    cut = [order[start : start + size] for start in range(0, len(order), size)]
    return [cut[place] for place in generator.permutation(len(cut))]


def padded(rows: list[Any]) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    width = max(len(ids) for ids, _, _ in rows)
    found = {
        name: torch.zeros(len(rows), width, dtype=torch.long)
        for name in ("input_ids", "token_type_ids", "attention_mask")
    }
    for place, (ids, types, _) in enumerate(rows):
        found["input_ids"][place, : len(ids)] = torch.from_numpy(ids.astype(np.int64))
        found["token_type_ids"][place, : len(ids)] = torch.from_numpy(types.astype(np.int64))
        found["attention_mask"][place, : len(ids)] = 1
    return found, torch.tensor([label for _, _, label in rows])


def print_table(results: list[dict[str, Any]]) -> None:
    """D in percent, mean ± standard deviation over seeds, by arm and measurement."""
    print("| arm | seeds | " + " | ".join(MEASURES) + " |")
    print("|---|---|" + "---|" * len(MEASURES))
    for arm in ARMS:
        runs = [r for r in results if r["arm"] == arm]
        cells = []
        for name in MEASURES:
            found = [m for run in runs for m in run["measures"] if m["importance"] == name]
            values = [100 * one["D"] for one in found]
            spread = f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
            cells.append(f"{np.mean(values):.1f}{spread}" if values else "–")
        if runs:
            print(f"| {arm} | {len(runs)} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
