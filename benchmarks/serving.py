"""What serving costs: readings shared by requests and by tasks, and torch against ONNX Runtime.

    python benchmarks/serving.py [--backbone NAME] [--requests 400] [--rounds 3] [--out FILE]

Four comparisons of servers in processes of their own, asked on loopback; the sides take turns, and
results are ratios in one run:
- reading together: texts per second and latency (median, 99th percentile) at 1, 8 and 32 clients,
  with batches against one text per reading (`--batch 1`);
- waiting: readings that wait 0, 2 or 5 ms for more texts;
- many tasks: one model that answers N tasks from one reading against N models of one task each,
  which are all asked about every text;
- runtimes: torch against an export in ONNX Runtime, with the memory of both processes.
The models are not trained: the time of an answer does not depend on what was learned.
"""

import argparse
import asyncio
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import httpx
import numpy as np

import brodmann as bm
from brodmann.data import builtin

CLIENTS = (1, 8, 32)
WAITS = (0.0, 0.002, 0.005)
TASKS = 5


class Server:
    """`brodmann serve` in a process of its own."""

    def __init__(self, folder: Path, *options: object) -> None:
        words = [sys.executable, "-m", "brodmann", "serve", folder, "--port", 0, *options]
        self.process = subprocess.Popen(
            [str(word) for word in words], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        found = re.search(r"at (http://\S+)", self.process.stdout.readline())
        assert found is not None, "the server did not start"
        self.url = found[1]

    def memory(self) -> float:
        """Resident memory in MB."""
        text = httpx.get(f"{self.url}/metrics").text
        found = re.search(r"^process_resident_memory_bytes (\S+)$", text, re.MULTILINE)
        return float(found[1]) / 1e6 if found else float("nan")

    def stop(self) -> None:
        self.process.terminate()
        self.process.communicate()


@contextlib.contextmanager
def servers(*asked: Sequence[Any]) -> Iterator[list[Server]]:
    started = []
    try:
        for folder, *options in asked:
            started.append(Server(folder, *options))
        yield started
    finally:
        for server in started:
            server.stop()


def measure(urls: Sequence[str], texts: Sequence[str], clients: int) -> dict[str, float]:
    """Texts per second and latency; with several addresses, a text is answered by all of them."""
    latencies: list[float] = []

    async def run() -> float:
        left = iter(texts)
        bound = httpx.Limits(max_connections=clients * len(urls))
        async with httpx.AsyncClient(timeout=120, limits=bound) as asking:

            async def ask(url: str, text: str) -> None:
                response = await asking.post(f"{url}/predict", json={"input": text})
                response.raise_for_status()

            async def client() -> None:
                for text in left:
                    begin = time.perf_counter()
                    await asyncio.gather(*(ask(url, text) for url in urls))
                    latencies.append(time.perf_counter() - begin)

            begin = time.perf_counter()
            await asyncio.gather(*(client() for _ in range(clients)))
            return time.perf_counter() - begin

    seconds = asyncio.run(run())
    return {
        "texts_per_second": len(texts) / seconds,
        "median_ms": 1000 * statistics.median(latencies),
        "p99_ms": 1000 * float(np.quantile(latencies, 0.99)),
    }


def compare(
    sides: dict[str, Sequence[str]], texts: Sequence[str], clients: int, rounds: int
) -> dict[str, Any]:
    """Medians of rounds, the sides taking turns, and the first side's speed over each other's."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
    for urls in sides.values():
        measure(urls, texts[:clients], clients)  # the first readings are slower
    for _ in range(rounds):
        for name, urls in sides.items():
            found[name].append(measure(urls, texts, clients))
    medians = {
        name: {key: statistics.median(one[key] for one in several) for key in several[0]}
        for name, several in found.items()
    }
    first, *others = found
    ratios = {
        name: statistics.median(
            a["texts_per_second"] / b["texts_per_second"]
            for a, b in zip(found[first], found[name], strict=True)
        )
        for name in others
    }
    return {"clients": clients, "sides": medians, f"speed of {first} over": ratios}


def make_models(folder: Path, backbone: str) -> tuple[Path, list[Path]]:
    """One model of all tasks, and one model per task."""
    rows = builtin.generate("sentiment", sizes={"train": 40}, seed=0)["train"]
    tasks = [
        bm.load_task(
            f"task{n}",
            kind="classification",
            text="text",
            label="label",
            train=rows,
            validation=rows[:8],
        )
        for n in range(TASKS)
    ]
    places = []
    for name, some in [("all", tasks), *((task.name, [task]) for task in tasks)]:
        model = bm.MultiTaskModel.from_pretrained(backbone, some, device="cpu")
        model.save_pretrained(folder / name)
        places.append(folder / name)
    bm.export(places[0], to="onnx", out=folder / "onnx", data=tasks[:1])
    return places[0], places[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backbone", default="builtin:minilm")
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    settings = parser.parse_args()
    rows = builtin.generate("sentiment", sizes={"train": settings.requests}, seed=1)["train"]
    texts, results = [row["text"] for row in rows], []

    def add(name: str, sides: dict[str, Sequence[str]], clients: Sequence[int]) -> None:
        for count in clients:
            found = compare(sides, texts, count, settings.rounds)
            results.append({"comparison": name, **found})
            print(json.dumps(results[-1]), flush=True)

    with tempfile.TemporaryDirectory() as place:
        whole, single = make_models(Path(place), settings.backbone)
        export = Path(place) / "onnx"
        cpu = ("--device", "cpu")
        with servers((whole, *cpu), (whole, *cpu, "--batch", 1)) as (together, alone):
            add("reading together", {"together": [together.url], "alone": [alone.url]}, CLIENTS)
        with servers(*((whole, *cpu, "--wait", wait) for wait in WAITS)) as waiting:
            sides = {
                f"{1000 * wait:g} ms": [server.url]
                for wait, server in zip(WAITS, waiting, strict=True)
            }
            add("waiting", sides, CLIENTS)
        with servers((whole, *cpu), *((folder, *cpu) for folder in single)) as (one, *several):
            sides = {"one model": [one.url], "one per task": [server.url for server in several]}
            add("many tasks", sides, CLIENTS[:2])
            memory = {"one model": one.memory(), "one per task": sum(s.memory() for s in several)}
            results.append({"comparison": "memory of many tasks, MB", "tasks": TASKS, **memory})
        with servers((export,), (whole, *cpu)) as (onnx, torch):
            add("runtimes", {"onnxruntime": [onnx.url], "torch": [torch.url]}, CLIENTS)
            memory = {"onnxruntime": onnx.memory(), "torch": torch.memory()}
            results.append({"comparison": "memory of runtimes, MB", **memory})
    shown = {key: str(value) for key, value in vars(settings).items()}
    document = {"settings": shown, "cores": os.cpu_count(), "results": results}
    print(json.dumps(results[-1]))
    if settings.out is not None:
        settings.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
