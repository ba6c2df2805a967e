"""What conditioning and sampling by uncertainty cost, as ratios in one run.

    python benchmarks/conditional.py

1. a training step of `ca_mtl` against one of `shared`, the same half of the layers frozen: 32 rows
   of four tasks, 128 tokens (and the tasks' own short texts). Most of it is inherent:
   conditional modules in the frozen layers need the backward pass through them, `shared` does not;
2. the attention bias of a batch (32 rows of four tasks, 128 tokens) against a loop over examples
   that builds each row's with `block_diag`, forward and backward;
3. an uncertainty step against its candidates' forward passes and a plain step on its batch.

MiniLM, built-in tasks, one thread; the sides take turns, and medians are reported.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import brodmann as bm
from brodmann.data.batches import Part, make_batch
from brodmann.models.encoders.conditional import ConditionalAttention
from brodmann.models.encoders.task_context import of_parts
from brodmann.models.item_entropy import item_entropies
from brodmann.provenance import provenance

ROUNDS = 9
BATCH = 32
TRAIN = 6 * BATCH  # examples per task: every batch of candidates is full
NAMES = ("sentiment", "paraphrase", "entailment", "acceptability")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--backbone", default="builtin:minilm")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    tasks = bm.load_tasks(
        [
            {"use": f"builtin/{name}", "limit": {"train": TRAIN, "validation": 20, "test": 20}}
            for name in NAMES
        ]
    )
    result = {
        "ca_mtl_step": step_ratio(arguments.backbone, tasks, 128),
        "ca_mtl_step_short_texts": step_ratio(arguments.backbone, tasks, None),
        "attention_bias": bias_ratio(),
        "uncertainty_step": uncertainty_ratio(arguments.backbone, tasks),
    }
    print(f"a ca_mtl step against a shared one: {result['ca_mtl_step']:.2f} x (limit 1.3)")
    print(f"    on short texts: {result['ca_mtl_step_short_texts']:.2f} x")
    print(
        f"the attention bias against a loop of block_diag: {result['attention_bias']:.1f} x faster"
    )
    print(f"an uncertainty step against its parts: {result['uncertainty_step']:.2f} x (limit 1.1)")
    if arguments.out is not None:
        about = provenance()
        machine = {key: about[key] for key in ("versions", "processor", "cores")}
        document = {**result, "backbone": arguments.backbone, "machine": machine}
        arguments.out.write_text(json.dumps(document, indent=1) + "\n")


def medians(*functions: Callable[[], None]) -> list[float]:
    seconds: list[list[float]] = [[] for _ in functions]
    for number in range(ROUNDS + 1):
        for place, function in enumerate(functions):
            began = time.perf_counter()
            function()
            if number:  # the first round warms up
                seconds[place].append(time.perf_counter() - began)
    return [statistics.median(values) for values in seconds]


def build(backbone: str, tasks: Any, architecture: str, **options: Any) -> Any:
    return bm.MultiTaskModel.from_pretrained(
        backbone, tasks, architecture=architecture, **options
    ).train()


def a_batch(model: Any, tasks: Any, items: int) -> Any:
    pieces = [
        (task.name, model.encode(task.spec, task.splits["train"]), np.arange(items))
        for task in tasks
    ]
    return make_batch(pieces, pad_id=int(model.tokenizer.pad_token_id))


def stepper(model: Any, batch: Any) -> Callable[[], None]:
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-5, fused=True)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        sum(values.mean() for values in model(batch).losses).backward()
        optimizer.step()

    return step


def step_ratio(backbone: str, tasks: Any, tokens: int | None) -> float:
    shared = build(backbone, tasks, "shared", freeze=0.5)
    conditioned = build(backbone, tasks, "ca_mtl")
    batch = a_batch(shared, tasks, 8)
    if tokens is not None:
        rows = len(batch.inputs["input_ids"])
        mask = torch.ones(rows, tokens, dtype=torch.long)
        mask[::4, -8:] = 0
        batch.inputs = {
            "input_ids": torch.randint(100, shared.config.vocab_size, (rows, tokens)),
            "attention_mask": mask,
            "token_type_ids": torch.zeros(rows, tokens, dtype=torch.long),
        }
    plain, other = medians(stepper(shared, batch), stepper(conditioned, batch))
    return other / plain


def bias_ratio() -> float:
    rows, tokens, size = 8, 128, 384
    module = ConditionalAttention(size, tokens, None)
    parts = [
        Part(name, slice(rows * n, rows * n + rows), np.arange(rows), {}, np.ones(rows, int), rows)
        for n, name in enumerate(NAMES)
    ]
    context = of_parts(parts, torch.device("cpu"))
    z = torch.randn(len(NAMES), size, requires_grad=True)

    def batched() -> None:
        module(z, context, tokens).sum().backward()

    def loop() -> None:
        found = []
        side = module.blocks.shape[1]
        for row in range(4 * rows):
            scale, shift = module.film(z[context.of_row[row]][None])
            blocks = []
            for number, block in enumerate(module.blocks):
                columns = slice(number * side, number * side + side)
                width = scale[0, columns].shape[0]
                blocks.append((1 + scale[0, columns]) * block[:, :width] + shift[0, columns])
            found.append(torch.block_diag(*blocks)[:tokens, :tokens])
        torch.stack(found).sum().backward()

    fast, slow = medians(batched, loop)
    return slow / fast


def uncertainty_ratio(backbone: str, tasks: Any) -> float:
    """The whole step as `fit` does it, against the same forwards and the same step by hand."""
    from brodmann.training.batching import BatchSource
    from brodmann.training.settings import checked_options

    model = build(backbone, tasks, "shared")
    options = checked_options({"batch_size": BATCH, "epochs": 50, "sampling": "uncertainty"})
    encoded = {task.name: model.encode(task.spec, task.splits["train"]) for task in tasks}
    source = BatchSource(model, [task.name for task in tasks], encoded, options, 0, 1)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-6, fused=True)
    last: dict[str, Any] = {}
    stream: Any = source.stream
    draw = stream.candidates

    def remembered() -> Any:
        last["candidates"] = draw()
        return last["candidates"]

    stream.candidates = remembered

    def train_on(batch: Any) -> None:
        optimizer.zero_grad(set_to_none=True)
        sum(values.mean() for values in model(batch).losses).backward()
        optimizer.step()

    def whole() -> None:
        (last["batch"],), _ = source.next(torch.device("cpu"))
        train_on(last["batch"])

    def parts() -> None:
        for task, items in zip(tasks, last["candidates"], strict=True):  # those of the step before
            item_entropies(model, task.name, encoded[task.name], items)
        train_on(last["batch"])

    one, other = medians(whole, parts)
    return one / other


if __name__ == "__main__":
    main()
