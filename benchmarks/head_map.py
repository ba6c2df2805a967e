"""Head importance, dissociation and removal against what people use today, as ratios in one run.

    python benchmarks/head_map.py [--data FOLDER] [--rounds 7] [--out FILE]

Everything runs on `builtin:minilm` with the same examples, dtype and threads, in eval mode; the
results of the sides are compared before their times; sides take turns, and medians are reported.

- importance, equal batches: all sides get the same batches: captum's LayerGradientXActivation, a
  loop over examples with parameter gradients (transformers' old run_bertology.py, corrected to one
  loss per example), and the plain forward passes;
- importance, mixed text: as a user would call either on a file of texts of mixed lengths: ours
  sorts by length, the others read the file in batches of the same size;
- dissociation: the whole matrix against the plain forward passes that it needs;
- removal: inference at 128 tokens with 30 % and 50 % of the heads removed, beside the limit set by
  the saved operations.
With --data the texts are SST-2 and QNLI from FOLDER; without it, built-in ones.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
from torch.nn import functional
from training import mixed_rows

import brodmann as bm
from brodmann.data.batches import evaluation_order, make_batch
from brodmann.models.backbone.anatomy import head_slots
from brodmann.provenance import provenance

LENGTH, BATCH = 128, 32


def medians(sides: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median seconds of each side; the sides take turns after one round of warm-up."""
    clocks: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        for name, work in sides.items():
            began = time.perf_counter()
            work()
            if number:
                clocks[name].append(time.perf_counter() - began)
    return {name: statistics.median(values) for name, values in clocks.items()}


class Sides:
    """One classification task and model; every side computes its (layer, head) scores."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.task = bm.load_task("t", kind="classification", train=rows, validation=rows)
        torch.manual_seed(0)
        self.model = bm.MultiTaskModel.from_pretrained(
            "builtin:minilm", [self.task], max_length=LENGTH
        ).eval()
        self.bare = self.model.bare_models()[0]
        self.outputs = [slot.output for slot in head_slots(self.bare)]
        self.encoded = self.model.encode(self.task.spec, self.task.splits["train"])
        every = np.arange(self.encoded.items)
        self.in_order = [every[i : i + BATCH] for i in range(0, len(every), BATCH)]
        self.by_length = evaluation_order(self.encoded, BATCH)

    def batch(self, items: Any) -> Any:
        pad = int(self.model.tokenizer.pad_token_id)
        return make_batch([("t", self.encoded, items)], pad_id=pad)

    def ours(self) -> Any:
        scores = bm.head_importance(self.model, [self.task], examples=None, batch_size=BATCH)
        return scores.of("t")

    def forwards(self, groups: list[Any]) -> None:
        with torch.no_grad():
            for items in groups:
                self.model(self.batch(items))

    def captum(self, groups: list[Any]) -> Any:
        from captum.attr import LayerGradientXActivation

        def losses(ids: Any, mask: Any, types: Any, labels: Any) -> Any:
            inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
            states = self.model.encoder.backbone(**inputs)
            head = self.model.heads["task:t"]
            return functional.cross_entropy(head(states, inputs), labels, reduction="none")

        method = LayerGradientXActivation(losses, self.outputs)
        total = np.zeros((6, 12))
        for parameter in self.model.parameters():
            parameter.requires_grad_(False)
        # captum needs a graph that reaches the layers: the embeddings' output asks for gradients.
        handle = self.bare.embeddings.register_forward_hook(lambda m, i, o: o.requires_grad_())
        for items in groups:
            batch = self.batch(items)
            inputs = [batch.inputs[k] for k in ("input_ids", "attention_mask", "token_type_ids")]
            found = method.attribute(
                inputs[0],
                additional_forward_args=(*inputs[1:], batch.parts[0].labels["label"]),
                attribute_to_layer_input=True,
            )
            for layer, values in enumerate(found):
                values = values[0] if isinstance(values, tuple) else values
                by_head = values.detach().unflatten(-1, (12, -1)).sum(dim=(1, 3))
                total[layer] += by_head.abs().sum(dim=0).numpy()
        handle.remove()
        for parameter in self.model.parameters():
            parameter.requires_grad_(True)
        return total / self.encoded.items

    def loop(self, groups: list[Any]) -> Any:
        """One example at a time, a mask that requires gradients, gradients for every weight."""
        total = np.zeros((6, 12))
        for items in groups:
            for item in items:
                batch = self.batch(np.array([item]))
                gates = torch.ones(6, 12, requires_grad=True)
                with bm.head_gates(self.model, gates):
                    self.model(batch).losses[0].sum().backward()
                total += gates.grad.abs().numpy()
                self.model.zero_grad()
        return total / self.encoded.items


def importance(rows: list[dict[str, Any]], rounds: int, *, bucketed: bool) -> dict[str, Any]:
    sides = Sides(rows)
    others = sides.by_length if bucketed else sides.in_order
    reference = sides.ours()
    agreement = {
        name: float(np.abs(found - reference).max() / reference.max())
        for name, found in (("captum", sides.captum(others)), ("loop", sides.loop(others)))
    }
    assert max(agreement.values()) < 1e-3, agreement
    seconds = medians(
        {
            "ours": sides.ours,
            "captum": lambda: sides.captum(others),
            "forward": lambda: sides.forwards(sides.by_length),
        },
        rounds,
    )
    seconds |= medians({"loop": lambda: sides.loop(others)}, 2)
    return {
        "examples": len(rows),
        "agreement": agreement,
        "seconds": seconds,
        "against captum": seconds["captum"] / seconds["ours"],
        "against the loop": seconds["loop"] / seconds["ours"],
        "cost in forward passes": seconds["ours"] / seconds["forward"],
    }


def dissociation(rows: list[dict[str, Any]], rounds: int) -> dict[str, Any]:
    half = len(rows) // 2
    tasks = [
        bm.load_task(name, kind="classification", train=part, validation=part)
        for name, part in (("a", rows[:half]), ("b", rows[half:]))
    ]
    model = bm.MultiTaskModel.from_pretrained("builtin:minilm", tasks, max_length=LENGTH).eval()
    scores = bm.head_importance(model, tasks, examples=64)
    options: dict[str, Any] = {"draws": 3, "batch_size": BATCH}
    passes = 1 + len(tasks) + options["draws"]
    pad = int(model.tokenizer.pad_token_id)
    encoded = {task.name: model.encode(task.spec, task.splits["validation"]) for task in tasks}

    def plain() -> None:
        with torch.inference_mode():
            for _ in range(passes):
                for name, part in encoded.items():
                    for items in evaluation_order(part, BATCH):
                        model(make_batch([(name, part, items)], pad_id=pad))

    seconds = medians(
        {"whole": lambda: bm.dissociation(model, tasks, scores, **options), "forward": plain},
        rounds,
    )
    return {
        "forward passes over the data": passes,
        "seconds": seconds,
        "cost in forward passes": seconds["whole"] / seconds["forward"],
    }


def removal(rounds: int) -> dict[str, Any]:
    """Inference at 128 tokens; the limit counts the multiplications that are left."""
    ids = torch.randint(1000, 20000, (16, LENGTH))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    task = bm.load_task(
        "t", kind="classification",
        train=[{"text": f"{i}", "label": i % 2} for i in range(4)],
        validation=[{"text": "a", "label": 0}],
    )  # fmt: skip

    def bare(share: float) -> Any:
        model = bm.MultiTaskModel.from_pretrained("builtin:minilm", [task]).eval()
        if share:
            values = np.random.default_rng(0).random((1, 6, 12))
            bm.prune_heads(model, bm.HeadScores(("t",), values).least(share))
        return model.bare_models()[0]

    models = {share: bare(share) for share in (0.0, 0.3, 0.5)}

    def read(model: Any) -> Callable[[], None]:
        def work() -> None:
            with torch.inference_mode():
                for _ in range(4):
                    model(**inputs)

        return work

    seconds = medians({str(share): read(model) for share, model in models.items()}, rounds)
    width, heads, inner = 384, 12, 1536
    kept = {share: 1 - share for share in models}

    def operations(share: float) -> float:
        left = round(heads * 6 * kept[share]) / 6 * (width / heads)
        return LENGTH * (4 * width * left + 2 * width * inner) + 2 * LENGTH * LENGTH * left

    return {
        f"{share:.0%} removed": {
            "speed": seconds["0.0"] / seconds[str(share)],
            "what the operations allow": operations(0.0) / operations(share),
        }
        for share in (0.3, 0.5)
    }


MEMORY = ("nothing", "ours", "captum", "loop", "forward", "dissociation", "forward, half the heads")


def peak_memory(data: Path | None, side: str) -> float:
    """Peak resident memory of a separate process, in MB."""
    command = [sys.executable, __file__, "--memory", side, *(["--data", str(data)] if data else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def measure_memory(rows: list[dict[str, Any]], side: str) -> None:
    sides = Sides(rows)
    work = {
        "nothing": lambda: None,
        "ours": sides.ours,
        "captum": lambda: sides.captum(sides.by_length),
        "loop": lambda: sides.loop(sides.by_length[:2]),
        "forward": lambda: sides.forwards(sides.by_length),
        "dissociation": lambda: dissociation(rows, 1),
        "forward, half the heads": lambda: (
            bm.prune_heads(sides.model, bm.HeadScores(("t",), np.ones((1, 6, 12))).least(0.5)),
            sides.forwards(sides.by_length),
        ),
    }
    work[side]()
    status = Path("/proc/self/status").read_text(encoding="utf-8")  # getrusage keeps the parent's
    print(int(status.partition("VmHWM:")[2].split()[0]) / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--examples", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--memory", choices=MEMORY)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    rows = mixed_rows(arguments.data, arguments.examples)
    if arguments.memory:
        measure_memory(rows, arguments.memory)
        return
    before = peak_memory(arguments.data, "nothing")
    result = {
        "importance, equal batches": importance(rows, arguments.rounds, bucketed=True),
        "importance, mixed text": importance(rows, arguments.rounds, bucketed=False),
        "dissociation": dissociation(rows, arguments.rounds),
        "removal": removal(arguments.rounds),
        "peak memory beyond the model, MB": {
            side: round(peak_memory(arguments.data, side) - before) for side in MEMORY[1:]
        },
        "threads": torch.get_num_threads(),
        "text": "SST-2 and QNLI" if arguments.data else "built-in",
        "provenance": {k: v for k, v in provenance().items() if k in ("versions", "processor")},
    }
    text = json.dumps(result, indent=1)
    print(text)
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
