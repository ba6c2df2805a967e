"""What meta-learning costs beyond the passes it must do, and whether memory grows with the pairs.

    python benchmarks/meta.py [--out benchmarks/results/meta.json]

A FOMAML outer step over two pairs (16 examples to adapt to in three steps, 16 to evaluate on) on
MiniLM with trained gates, against the same forward and backward passes of the same model on the
same batches without anything else; medians of rounds in turn. Memory: the highest resident size of
a process that makes outer steps with 2 pairs each, and of one with 8, over as many pairs in all.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

from brodmann.data.loading import load_tasks
from brodmann.models.multitask import MultiTaskModel
from brodmann.training.meta.meta_settings import Meta
from brodmann.training.meta.trainer import _MetaLoop, episode_batch

ROUNDS = 9
KINDS = ("sentiment", "topic", "acceptability", "opinion")


def loop_of(pairs: int) -> _MetaLoop:
    torch.set_num_threads(1)
    limit = {"train": 200, "validation": 20, "test": 20}
    tasks = load_tasks(
        [
            {"use": f"builtin/{kind}:{language}", "name": f"{kind}-{language}", "limit": limit}
            for kind in KINDS
            for language in ("en", "es")
        ]
    )
    model = MultiTaskModel.from_pretrained("builtin:minilm", tasks, gates="trained").train()
    return _MetaLoop(model, tasks, Meta(pairs=pairs), "float32", 0)


def passes(loop: _MetaLoop, step: int) -> None:
    """Only the forwards and backwards of a step: the support sets thrice, the query sets once."""
    for place, episode in loop.drawn(step):
        for examples, times in ((episode.support, loop.settings.inner_steps), (episode.query, 1)):
            for _ in range(times):
                encoded = loop.encoded[place]
                batch = episode_batch(loop.model, loop.tasks[place], encoded, examples)
                loop.model(batch).losses[0].mean().backward()
                loop.model.zero_grad(set_to_none=True)


def timed(action: Any, step: int) -> float:
    began = time.perf_counter()
    action(step)
    return time.perf_counter() - began


def peak(pairs: int) -> float:
    """Peak MB of a separate process after outer steps over 24 pairs in total."""
    code = (
        "import resource, sys; sys.path.insert(0, sys.argv[1]); import meta; "
        f"loop = meta.loop_of({pairs}); [loop.step(n) for n in range({24 // pairs})]; "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    )
    words = [sys.executable, "-c", code, str(Path(__file__).parent)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out
    loop = loop_of(2)
    timed(loop.step, 0), timed(lambda step: passes(loop, step), 0)
    ratios = []
    for number in range(1, ROUNDS + 1):
        both = [timed(loop.step, number), timed(lambda step: passes(loop, step), number)]
        ratios.append(both[0] / both[1])
    memory = {pairs: peak(pairs) for pairs in (2, 8)}
    result = {
        "fomaml step over its passes": round(statistics.median(ratios), 3),
        "rounds": [round(ratio, 3) for ratio in ratios],
        "memory of 8 pairs over 2": round(memory[8] / memory[2], 3),
        "memory (MB)": {str(pairs): round(size) for pairs, size in memory.items()},
        "torch": torch.__version__,
        "processor": platform.processor() or platform.machine(),
    }
    print(json.dumps(result, indent=2))
    if out is not None:
        out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
