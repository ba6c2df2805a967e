"""Relevance by words over many datasets, and what an HMNet step costs.

    python benchmarks/relations.py FOLDER

FOLDER holds <dataset>/train.jsonl.gz. Time and peak memory of the vocabulary relevance of all of
them (texts are read one after the other); an HMNet step against a shared one, one task a batch, as
a ratio of medians taking turns; the growth of resident memory by 13 tasks' paths against the
parameters' own size.
"""

import argparse
import gzip
import json
import multiprocessing
import resource
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
    result: dict[str, Any] = {}
    with multiprocessing.get_context("spawn").Pool(1) as pool:  # memory that nothing was freed into
        result["memory"] = pool.apply(memory_growth)
    began = time.perf_counter()
    by_dataset: dict[str, list[Path]] = {}
    for path in sorted(arguments.folder.glob("*/*.jsonl.gz")):
        by_dataset.setdefault(path.parent.name, []).append(path)
    first = [min(paths, key=lambda path: "train" not in path.name) for paths in by_dataset.values()]
    found = [vocabulary(texts(path)) for path in first]
    vocabulary_matrix(found)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    result |= {"datasets": len(found), "relevance_seconds": seconds, "relevance_peak_mb": peak}
    result["hmnet_step"] = step_ratio()
    print(f"{len(found)} datasets: {seconds:.1f} s, peak {peak:.0f} MB")
    print(f"an hmnet step against a shared one: {result['hmnet_step']:.3f} x (limit 1.03)")
    print(f"resident memory of 13 paths against their parameters: {result['memory']:.2f} x")
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")


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


def memory_growth() -> float:
    """Resident memory that a model of 13 paths adds, over the bytes of its parameters."""

    def resident() -> float:
        text = Path("/proc/self/statm").read_text(encoding="utf-8").split()
        return int(text[1]) * resource.getpagesize()

    def touched(model: Any) -> int:
        """Bytes of the parameters, each read once: what is mapped from a file is resident then."""
        return sum(4 * p.numel() for p in model.parameters() if float(p.detach().sum()) < 1e30)

    shared, _ = built("shared", 13)
    plain = touched(shared)
    before = resident()
    clusters = [[f"task{n}" for n in range(a, b)] for a, b in ((0, 4), (4, 9), (9, 13))]
    paths, _ = built("hmnet", 13, clusters=clusters)
    own = touched(paths)
    assert own > plain
    return (resident() - before) / own


if __name__ == "__main__":
    main()
