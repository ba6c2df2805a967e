"""Relevance by words over many datasets, and what an HMNet costs in time and memory.

    python benchmarks/relations.py FOLDER [--out benchmarks/results/relations.json]

FOLDER holds <dataset>/train.jsonl.gz. Time of the vocabulary relevance of all of them (texts are
read one after the other), with the peak resident memory of a process that does nothing else, torch
included, and by how much it lies above what was resident before the first text. An HMNet step
against a shared one, one task per batch, as a ratio of medians in turn. What 13 tasks' paths add
to resident memory, each model in a separate process: (growth of hmnet - growth of shared) over
the bytes of hmnet's additional parameters; a ratio outside 0.9 to 1.1 fails.
"""

import argparse
import gzip
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import brodmann as bm
from brodmann.analysis.relevance import vocabulary, vocabulary_matrix
from brodmann.data.batches import make_batch

ROUNDS = 9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    result: dict[str, Any] = {"memory": memory_of_paths()}
    result["relevance"] = alone(relevance_of_all, arguments.folder)
    result["hmnet_step"] = step_ratio()
    words, memory = result["relevance"], result["memory"]
    print(
        f"{words['datasets']} datasets, {words['text_mb']:.0f} MB of text: "
        f"{words['seconds']:.1f} s; "
        f"peak {words['peak_mb']:.0f} MB, {words['growth_mb']:.0f} MB of it for "
        f"{words['words']:,} words"
    )
    print(f"an hmnet step against a shared one: {result['hmnet_step']:.3f} x (limit 1.03)")
    print(
        f"hmnet of 13 tasks: {memory['overall'] / 1e6:.1f} M parameters, "
        f"{memory['activated'] / 1e6:.1f} M active for a task; resident memory grows "
        f"{memory['ratio']:.3f} x as its parameters do"
    )
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    assert 0.9 <= memory["ratio"] <= 1.1, memory


def alone(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run in a separate process, whose memory no earlier work has affected."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def status(key: str) -> int:
    """Bytes of VmRSS (resident now) or VmHWM (resident at most) of this process."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{key}:"):
            return 1024 * int(line.split()[1])
    raise KeyError(key)


def relevance_of_all(folder: Path) -> dict[str, Any]:
    by_dataset: dict[str, list[Path]] = {}
    for path in sorted(folder.glob("*/*.jsonl.gz")):
        by_dataset.setdefault(path.parent.name, []).append(path)
    first = [min(paths, key=lambda path: "train" not in path.name) for paths in by_dataset.values()]
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # the peak counts from here
    before, began, letters = status("VmRSS"), time.perf_counter(), [0]

    def counted(path: Path) -> Iterator[str]:
        for text in texts(path):
            letters[0] += len(text)
            yield text

    found = [vocabulary(counted(path)) for path in first]
    vocabulary_matrix(found)
    seconds, peak = time.perf_counter() - began, status("VmHWM")
    return {
        "datasets": len(found),
        "seconds": seconds,
        "text_mb": letters[0] / 1e6,
        "words": sum(map(len, found)),
        "peak_mb": peak / 1e6,
        "growth_mb": (peak - before) / 1e6,
    }


def texts(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            for value in json.loads(line).values():
                if isinstance(value, str):
                    yield value
                elif isinstance(value, list):
                    yield " ".join(str(one) for one in value)


def built(architecture: str, count: int, **parameters: Any) -> tuple[Any, list[Any]]:
    names = ("sentiment", "paraphrase", "entailment", "acceptability")
    tasks = bm.load_tasks(
        [
            {
                "use": f"builtin/{names[n % 4]}",
                "name": f"task{n}",
                "limit": {"train": 64, "validation": 8, "test": 8},
            }
            for n in range(count)
        ]
    )
    model = bm.MultiTaskModel.from_pretrained(
        "builtin:minilm", tasks, architecture=architecture, parameters=parameters
    )
    return model, tasks


def step_ratio() -> float:
    steps = []
    for architecture in ("shared", "hmnet"):
        model, tasks = built(architecture, 4)
        encoded = model.encode(tasks[1].spec, tasks[1].splits["train"])
        pad = int(model.tokenizer.pad_token_id)
        batch = make_batch([(tasks[1].name, encoded, np.arange(32))], pad_id=pad)
        steps.append(stepper(model.train(), batch))
    seconds: list[list[float]] = [[], []]
    for number in range(ROUNDS + 1):
        for place, step in enumerate(steps):
            began = time.perf_counter()
            step()
            if number:
                seconds[place].append(time.perf_counter() - began)
    return statistics.median(seconds[1]) / statistics.median(seconds[0])


def stepper(model: Any, batch: Any) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(batch).losses[0].mean().backward()
        optimizer.step()

    return step


def memory_of_paths() -> dict[str, Any]:
    """Resident memory that paths add to a shared encoder, over what their parameters take."""
    clusters = [[f"task{n}" for n in range(a, b)] for a, b in ((0, 4), (4, 9), (9, 13))]
    plain = alone(grown, "shared", {})
    paths = alone(grown, "hmnet", {"clusters": clusters})
    more = paths["bytes"] - plain["bytes"]
    return {
        "overall": paths["counts"]["total"],
        "activated": paths["counts"]["activated"],
        "shared": plain["counts"]["total"],
        "growth_shared_mb": plain["growth"] / 1e6,
        "growth_hmnet_mb": paths["growth"] / 1e6,
        "parameters_more_mb": more / 1e6,
        "ratio": (paths["growth"] - plain["growth"]) / more,
    }


def grown(architecture: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Growth of this process's resident memory by a model, after another one warmed it up."""
    first, _ = built("shared", 13)
    touched(first)
    before = status("VmRSS")
    model, _ = built(architecture, 13, **parameters)
    size = touched(model)
    growth = status("VmRSS") - before
    return {"growth": growth, "bytes": size, "counts": model.parameter_counts()}


def touched(model: Any) -> int:
    """Bytes of the parameters, each read once, so that pages mapped from a file are resident."""
    return sum(4 * p.numel() for p in model.parameters() if float(p.detach().sum()) < 1e30)


if __name__ == "__main__":
    main()
