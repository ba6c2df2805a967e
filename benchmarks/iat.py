"""What a masked step of IAT costs against a plain one: time as a ratio, memory in copies.

    python benchmarks/iat.py [--out benchmarks/results/iat.json]

MiniLM, two tasks of generated text, batches of 32; plain and masked steps take turns, medians of
the steps. Memory: what a masked step needs beyond a plain one, in copies of the frozen slices.
"""

import argparse
import json
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch

import brodmann as bm
from brodmann.data.batches import make_batch
from brodmann.training.method_settings import IAT
from brodmann.training.methods.iat import Specialization
from brodmann.training.optimizer import make_optimizer

STEPS = 24
ALPHA = 0.3


def prepared(tasks: list[Any], special: bool) -> tuple[Any, Any, Specialization]:
    model = bm.MultiTaskModel.from_pretrained("builtin:minilm", tasks).train()
    optimizer = make_optimizer(model, 1e-5, 0.01)
    masks = Specialization(model, IAT(alpha=ALPHA), steps=10)
    if special:
        masks.install(masks.choose(tasks, seed=0, batch_size=32, precision="float32"))
    return model, optimizer, masks


def one_step(model: Any, optimizer: Any, masks: Specialization, batch: Any) -> float:
    task = batch.parts[0].task
    began = time.perf_counter()
    optimizer.zero_grad(set_to_none=True)
    masks.task = task
    model(batch).losses[0].mean().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    with masks.step([task], optimizer):
        optimizer.step()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out
    limit = {"train": 400, "validation": 8, "test": 8}
    names = ("builtin/entailment", "builtin/question")
    tasks = bm.load_tasks([{"use": name, "limit": limit} for name in names])
    arms = {"plain": prepared(tasks, False), "masked": prepared(tasks, True)}
    model = arms["plain"][0]
    batches = []
    for place in range(STEPS + 2):
        task = tasks[place % 2]
        encoded = model.encode(task.spec, task.splits["train"])
        items = torch.arange(32).numpy() + 8 * place
        batches.append(make_batch([(task.name, encoded, items)], pad_id=0))
    times: dict[str, list[float]] = {name: [] for name in arms}
    for place, batch in enumerate(batches):
        # Alternate the order: the second side finds the batch in the processor's cache.
        for name in sorted(arms, reverse=bool(place // 2 % 2)):
            took = one_step(*arms[name], batch)
            if place >= 2:  # the first ones make the moments
                times[name].append(took)
    ratio = median(times["masked"]) / median(times["plain"])
    _, optimizer, masks = arms["masked"]
    kept = [part.keep([tasks[0].name], optimizer) for part in masks._parts]
    held = sum(v.numel() * v.element_size() for part in kept for _, _, v in part)
    frozen = sum(v.numel() * v.element_size() for part in kept for _, _, v in part[:1])
    print(f"a masked step against a plain one: {ratio:.3f} x ({median(times['plain']):.2f} s)")
    print(
        f"held during a masked step: {held / 1e6:.1f} MB, {held / frozen:.2f} x the frozen slices"
    )
    if out is not None:
        facts = {"ratio": ratio, "copies": held / frozen, "megabytes": held / 1e6}
        facts["threads"] = torch.get_num_threads()
        out.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
