"""The runtime without torch: time to import and load, memory, and speed beside torch.

python benchmarks/runtime.py [RUN]    (default: builtin:minilm with three new output heads)

Every figure is the median of processes of their own, with one thread. Time is of the processor,
which other work on the machine hardly lengthens; memory is the peak after a first answer, as Linux
counts it. The file of the weights has been read before, as on a server that starts again.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
TASKS = ["builtin/sentiment", "builtin/similarity", "builtin/entities"]
LIMITS = {"start": 1.0, "MB": 300.0}  # seconds to import, load and open; memory with a first answer
PROCESSES = 5
TEXTS = 256
RUNTIME = "import brodmann.runtime; model = brodmann.runtime.load({place!r}, threads=1)"
TORCH = (
    "import brodmann as bm, torch; torch.set_num_threads(1); "
    "model = bm.MultiTaskModel.from_pretrained({place!r}, device='cpu')"
)
MEASURED = """
import json, re, time
begin = time.process_time()
{opening}
model.predict_all(["A wonderful film."])
start = time.process_time() - begin
# Not getrusage: its peak is that of the parent, from which this process was forked.
memory = int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]) / 1024
texts = ["Yesterday Susan Ashbury flew to Madrid " * (1 + n % 4) for n in range({texts})]
begin = time.process_time()
model.predict_all(texts)
speed = len(texts) / (time.process_time() - begin)
print(json.dumps({{"start": start, "MB": memory, "texts per second": speed}}))
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        source, data = _model(Path(scratch))
        places = {"torch": source}
        for name, int8 in (("float32", False), ("int8", True)):
            places[name] = _exported(source, Path(scratch) / name, data, int8)
        for name, place in places.items():
            opening = (TORCH if name == "torch" else RUNTIME).format(place=str(place))
            found = _measured(opening)
            size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file()) / 1e6
            figures = "  ".join(f"{key} {value:.2f}" for key, value in found.items())
            verdict = ""
            if name != "torch":
                kept = all(found[key] <= limit for key, limit in LIMITS.items())
                verdict = "ok" if kept else f"ABOVE {LIMITS}"
            print(f"{name:<8} {size:6.1f} MB on disk  {figures}  {verdict}", flush=True)


def _model(scratch: Path) -> tuple[Path, list]:
    import brodmann as bm

    if len(sys.argv) > 1:
        return Path(sys.argv[1]) / "model", []
    few = {"train": 64, "validation": 64, "test": 8}
    tasks = bm.load_tasks([{"use": name, "limit": few} for name in TASKS])
    bm.MultiTaskModel.from_pretrained("builtin:minilm", tasks).save_pretrained(scratch / "model")
    return scratch / "model", tasks


def _exported(source: Path, target: Path, data: list, int8: bool) -> Path:
    import brodmann as bm

    tolerance = 100.0 if int8 else None  # speed and size of all layers in int8
    return bm.export(source, to="onnx", out=target, data=data, int8=int8, tolerance=tolerance)


def _measured(opening: str) -> dict[str, float]:
    script = MEASURED.format(opening=opening, texts=TEXTS)
    found = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", script], check=True, capture_output=True, text=True
            ).stdout
        )
        for _ in range(PROCESSES)
    ]
    return {key: statistics.median(one[key] for one in found) for key in found[0]}


if __name__ == "__main__":
    main()
