"""What serving costs: shared readings, torch against ONNX Runtime, and smaller models.

    python benchmarks/serving.py [--backbone NAME] [--requests 400] [--rounds 3] [--only NAME]
        [--out FILE]

Five comparisons of servers in processes of their own, asked on loopback; the sides take turns, and
results are ratios in one run:
- reading together: texts per second and latency (median, 99th percentile) at 1, 8 and 32 clients,
  with batches against one text per reading (`--batch 1`);
- waiting: readings that wait 0, 2 or 5 ms for more texts;
- many tasks: one model that answers N tasks from one reading against N models of one task each,
  which are all asked about every text;
- runtimes: torch against an export in ONNX Runtime, with the memory of both processes;
- forms: exports in float32, in int8, without half of the heads, and both, with their memory and
  size on disk.
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
FORMS = ("pruned int8", "pruned", "int8", "float32")
COMPARISONS = ("reading together", "waiting", "many tasks", "runtimes", "forms")


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
    """Medians of rounds, the sides taking turns, and each side's speed over the last one's."""
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
    *others, last = found
    ratios = {
        name: statistics.median(
            a["texts_per_second"] / b["texts_per_second"]
            for a, b in zip(found[name], found[last], strict=True)
        )
        for name in others
    }
    return {"clients": clients, "sides": medians, f"speed over {last}": ratios}


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
    write_forms(folder, places[0], tasks)
    return places[0], places[1:]


def write_forms(folder: Path, whole: Path, data: Any) -> None:
    """Exports of the model, smallest first: `FORMS` in `folder`."""
    pruned = bm.MultiTaskModel.from_pretrained(whole, device="cpu")
    heads = pruned.config.num_attention_heads
    half = [(n, head) for n in range(pruned.config.num_hidden_layers) for head in range(heads // 2)]
    bm.prune_heads(pruned, half)
    for name in FORMS:
        model = pruned if "pruned" in name else whole
        small = {"int8": True, "tolerance": 100.0} if "int8" in name else {}
        bm.export(model, to="onnx", out=folder / name, data=data, **small)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backbone", default="builtin:minilm")
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", choices=COMPARISONS)
    parser.add_argument("--out", type=Path)
    settings = parser.parse_args()
    rows = builtin.generate("sentiment", sizes={"train": settings.requests}, seed=1)["train"]
    texts, results = [row["text"] for row in rows], []

    def add(name: str, sides: dict[str, Sequence[str]], clients: Sequence[int] = CLIENTS) -> None:
        for count in clients:
            found = compare(sides, texts, count, settings.rounds)
            note({"comparison": name, **found})

    def note(found: dict[str, Any]) -> None:
        results.append(found)
        print(json.dumps(found), flush=True)

    with tempfile.TemporaryDirectory() as place:
        whole, single = make_models(Path(place), settings.backbone)
        for name in settings.only or COMPARISONS:
            COMPARE[name](Path(place), whole, single, add, note)
    shown = {key: str(value) for key, value in vars(settings).items()}
    document = {"settings": shown, "cores": os.cpu_count(), "results": results}
    document["load average of the last 15 minutes"] = os.getloadavg()[2]  # other work included
    if settings.out is not None:
        settings.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


CPU = ("--device", "cpu")


def reading_together(place: Path, whole: Path, single: Any, add: Any, note: Any) -> None:
    with servers((whole, *CPU), (whole, *CPU, "--batch", 1)) as (together, alone):
        add("reading together", {"together": [together.url], "alone": [alone.url]})


def waiting(place: Path, whole: Path, single: Any, add: Any, note: Any) -> None:
    with servers(*((whole, *CPU, "--wait", wait) for wait in WAITS)) as started:
        names = [f"{1000 * wait:g} ms" for wait in WAITS]
        sides = {name: [server.url] for name, server in zip(names, started, strict=True)}
        add("waiting", dict(reversed(sides.items())))


def many_tasks(place: Path, whole: Path, single: Sequence[Path], add: Any, note: Any) -> None:
    with servers((whole, *CPU), *((folder, *CPU) for folder in single)) as (one, *several):
        sides = {"one model": [one.url], "one per task": [server.url for server in several]}
        add("many tasks", sides, CLIENTS[:2])
        memory = {"one model": one.memory(), "one per task": sum(s.memory() for s in several)}
        note({"comparison": "memory of many tasks, MB", "tasks": TASKS, **memory})


def runtimes(place: Path, whole: Path, single: Any, add: Any, note: Any) -> None:
    with servers((place / "float32",), (whole, *CPU)) as (onnx, torch):
        add("runtimes", {"onnxruntime": [onnx.url], "torch": [torch.url]})
        memory = {"onnxruntime": onnx.memory(), "torch": torch.memory()}
        note({"comparison": "memory of runtimes, MB", **memory})


def forms(place: Path, whole: Path, single: Any, add: Any, note: Any) -> None:
    with servers(*((place / name,) for name in FORMS)) as started:
        by_name = dict(zip(FORMS, started, strict=True))
        add("forms", {name: [server.url] for name, server in by_name.items()})
        memory = {name: server.memory() for name, server in by_name.items()}
        note({"comparison": "memory of forms, MB", **memory})
    sizes = {name: sum(f.stat().st_size for f in (place / name).iterdir()) for name in FORMS}
    note({"comparison": "forms on disk, MB", **{k: v / 1e6 for k, v in sizes.items()}})


COMPARE = dict(
    zip(COMPARISONS, (reading_together, waiting, many_tasks, runtimes, forms), strict=True)
)


if __name__ == "__main__":
    main()
