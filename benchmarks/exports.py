"""What the exports of a trained run keep and gain: scores, speed, size.

    python benchmarks/exports.py RUN [--alpha 0.3] [--rounds 16] [--threads 1] [--forms FOLDER]
        [--out FILE]

RUN is the folder of a run of one-text and two-text tasks, such as that of examples/glue_small.toml.
Written and compared, all with the tasks of the run:
- the whole model as a package in float32 and in int8 (with the usual tolerance);
- the model without a share of its heads (the least important ones), in both forms.
Scores come from up to 1,000 validation examples per task, the same for all forms, answered by the
rules of the run; losses are against the whole model in torch, in points. Latency is the time of
`predict` with 1 and with 32 validation texts, in float32; the forms take turns at every call.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch

import brodmann as bm
import brodmann.runtime
from brodmann.config import load_config
from brodmann.pipeline.train import tasks_of
from brodmann.provenance import provenance

BATCHES = (1, 32)
FORMS = ("float32", "int8", "pruned", "pruned int8")


def write_forms(run: Path, place: Path, alpha: float) -> dict[str, Any]:
    """Write each form to a folder of its name; return how many heads were removed."""
    tasks = tasks_of(*load_config(run))
    small = bm.MultiTaskModel.from_pretrained(run / "model", device="cpu")
    heads = bm.HeadScores.load(run / "importance.json").least(alpha)
    before = small.parameter_counts()["total"]
    bm.prune_heads(small, heads)
    bm.calibrate(small, tasks)  # the rules of the whole model end with the removal
    for name in FORMS:
        model = small if "pruned" in name else run
        bm.export(model, to="onnx", out=place / name, data=tasks, int8="int8" in name)
    return {
        "alpha": alpha,
        "heads": len(heads),
        "parameters": [before, small.parameter_counts()["total"]],
    }


def scores(places: dict[str, Path]) -> dict[str, Any]:
    """Each task's score in torch, and what each form loses of it."""
    parity = {name: json.loads((p / "parity.json").read_text()) for name, p in places.items()}
    found: dict[str, Any] = {}
    for task, whole in parity["float32"]["tasks"].items():
        found[task] = {"metric": whole["metric"], "torch": whole["torch"]}
        for name in FORMS:
            one = parity[name]["tasks"][task]
            assert one["examples"] == whole["examples"]
            found[task][name] = {
                "points_lost": 100 * (whole["torch"] - one["export"]),
                "against_its_own_model": {
                    key: one[key]
                    for key in ("points_lost", "interval", "changed", "largest_difference")
                },
            }
    kept = {name: parity[name].get("int8", {}).get("graphs") for name in FORMS}
    return {"tasks": found, "int8": {name: graphs for name, graphs in kept.items() if graphs}}


def asked(example: dict[str, Any]) -> Any:
    """An example as users ask about it."""
    if "tokens" in example:
        return example["tokens"]
    pair = example.get("text_pair")
    return example["text"] if pair is None else (example["text"], pair)


def latency(sides: dict[str, Any], texts: dict[str, Sequence[Any]], rounds: int) -> dict[str, Any]:
    """Median milliseconds of a call, per task, size of batch and side."""
    found: dict[str, Any] = {}
    for task, all_texts in texts.items():
        found[task] = {}
        for size in BATCHES:
            calls = rounds * (4 if size == 1 else 1)
            clocks: dict[str, list[float]] = {name: [] for name in sides}
            for number in range(calls + 1):
                begin = number * size % (len(all_texts) - size)
                for name, side in sides.items():
                    started = time.perf_counter()
                    side.predict(task, all_texts[begin : begin + size])
                    if number:  # the first call warms up
                        clocks[name].append(1000 * (time.perf_counter() - started))
            medians = {name: statistics.median(values) for name, values in clocks.items()}
            faster = {
                name: statistics.median(a / b for a, b in zip(clocks["torch"], values, strict=True))
                for name, values in clocks.items()
                if name != "torch"
            }
            found[task][str(size)] = {"ms": medians, "speed over torch": faster}
            print(task, size, json.dumps(found[task][str(size)]), flush=True)
    return found


def trust(run: Path) -> dict[str, Any]:
    """What abstaining refuses at 0.05: of a task's own texts, and of each other task's."""
    tasks = json.loads((run / "calibration.json").read_text())["tasks"]
    return {
        task: {
            "own": entry["own_texts"]["refused"],
            "others": {
                other: {key: one[key] for key in ("refused", "auroc")}
                for other, one in entry["other_tasks"].items()
            },
        }
        for task, entry in tasks.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--alpha", type=float, default=0.3)
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--forms", type=Path, help="folder to keep the forms in; used if there")
    parser.add_argument("--out", type=Path)
    settings = parser.parse_args()
    torch.set_num_threads(settings.threads)
    with tempfile.TemporaryDirectory() as scratch:
        kept = settings.forms or Path(scratch) / "forms"
        notes, places = kept / "removed.json", {name: kept / name for name in FORMS}
        if not notes.exists():
            kept.mkdir(parents=True)
            notes.write_text(json.dumps(write_forms(settings.run, kept, settings.alpha)))
        if settings.rounds == 0:
            return
        sides: dict[str, Any] = {
            "torch": bm.MultiTaskModel.from_pretrained(settings.run / "model", device="cpu")
        }
        sides |= {
            name: brodmann.runtime.load(place, threads=settings.threads)
            for name, place in places.items()
        }
        tasks = tasks_of(*load_config(settings.run))
        texts = {task.name: [asked(e) for e in task.splits["validation"]] for task in tasks}
        measured = latency(sides, texts, settings.rounds)
        sizes = {
            name: sum(path.stat().st_size for path in place.rglob("*") if path.is_file()) / 1e6
            for name, place in {"torch": settings.run / "model", **places}.items()
        }
        result = {
            "threads": settings.threads,
            "rounds": settings.rounds,
            **scores(places),
            "removed": json.loads(notes.read_text()),
            "latency": measured,
            "MB": sizes,
            "abstain 0.05": trust(settings.run),
            "provenance": {k: v for k, v in provenance().items() if k in ("versions", "processor")},
        }
    print(json.dumps(sizes))
    if settings.out:
        settings.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
