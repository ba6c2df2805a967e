"""Smaller models: what the search finds on five real tasks, beside simpler ways of cutting.

    python benchmarks/compress.py FOLDER --work WORK --out benchmarks/results/compress.jsonl

FOLDER holds sst2/, ag_news/, qqp/, qnli/ and mnli/. WORK gets the data, divided anew (4,000 rows to
train, 1,500 to search on, 2,000 that the search never sees), and one trained run per backbone.
Every way of cutting is measured on the 2,000 rows per task: points lost against the whole model,
and speed at 1 and 32 texts of 128 tokens, whole and small model in turn. Finished rows of --out are
not measured again.

Without repair or training: heads (least importance), magnitude (the smallest weights, equal shares
of every block), layers (every other layer gone), fisher (Kwon et al. 2022, for one task at a time:
diagonal Fisher information under a budget of time, rearranged by the block's Fisher information,
then one factor per unit by least squares), elimination (ours without repair). With repair: ours.
With training: distilled (every other layer, learning for as long as ours with recovery took), ours
with recovery. int8 is ONNX Runtime's dynamic quantisation alone, and of our smallest.
"""

import argparse
import copy
import gzip
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch

import brodmann as bm
from brodmann.analysis.mask_search import Choice
from brodmann.config import load_config
from brodmann.measuring.block_times import speed_ratio
from brodmann.measuring.points_lost import points_lost
from brodmann.models.backbone.anatomy import bare_models
from brodmann.models.smaller.elimination import Emptying
from brodmann.models.smaller.units import cut
from brodmann.pipeline.smaller.bisection import RUNG
from brodmann.pipeline.smaller.candidates import Conditions, make_judge, survey
from brodmann.pipeline.train import tasks_of
from brodmann.training.events import silent
from brodmann.training.methods.distillation import RECOVERY, Distillation

ROWS = {"train": 4000, "validation": 1500, "test": 2000}
# Task → columns, and the files that rows are drawn from: for training, and for the other two.
TASKS: dict[str, tuple[list[str], str, str]] = {
    "sst2": (["sentence"], "train", "train"),
    "ag_news": (["text"], "train", "test"),
    "qqp": (["question1", "question2"], "train", "validation"),
    "qnli": (["question", "sentence"], "train", "validation"),
    "mnli": (["premise", "hypothesis"], "train", "validation_matched"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", help="folder with the five datasets")
    parser.add_argument("--work", default="compress-work", help="folder for data and trained runs")
    parser.add_argument("--backbone", default="builtin:minilm")
    parser.add_argument("--out", default="compress.jsonl")
    parser.add_argument("--way", action="append", choices=list(WAYS))
    parser.add_argument("--promise", action="store_true", help="how often promises are right")
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    work, out = Path(chosen.work), Path(chosen.out)
    divide(Path(chosen.data), work / "data")
    run = train(work, chosen.backbone, chosen.threads)
    lines = out.read_text().splitlines() if out.exists() else []
    done = {(row["run"], row["way"], row["at"]) for row in map(json.loads, lines)}
    subject = Subject(run)
    if chosen.promise:
        out.with_name(f"{out.stem}_promise.json").write_text(
            json.dumps(promise(subject), indent=1) + "\n"
        )
        return
    for way in chosen.way or WAYS:
        for at, make in WAYS[way](subject):
            if (run.name, way, at) in done:
                continue
            began = time.perf_counter()
            row = {"run": run.name, "way": way, "at": at} | subject.measured(make())
            row["seconds"] = round(time.perf_counter() - began, 1)
            with out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)


def divide(source: Path, target: Path) -> None:
    """Write three files per task; a row is in one of them only."""
    target.mkdir(parents=True, exist_ok=True)
    for task, (columns, train, other) in TASKS.items():
        taken: set[int] = set()
        for split, count in ROWS.items():
            file = target / f"{task}-{split}.jsonl"
            rows = read(source / task / f"{train if split == 'train' else other}.jsonl.gz")
            places = np.random.default_rng(0).permutation(len(rows))
            if split != "train" and train != other:
                places = places[: sum(ROWS.values()) - ROWS["train"]]
                places = places[: ROWS["validation"]] if split == "validation" else places[-count:]
            else:
                places = [p for p in places if int(p) not in taken][:count]
                taken |= set(map(int, places))
            names = ["text", "text_pair"]
            kept = [
                {**{n: rows[p][c] for n, c in zip(names, columns, strict=False)},
                 "label": str(rows[p]["label"])}
                for p in places
            ]  # fmt: skip
            if not file.exists():
                file.write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")


def read(file: Path) -> list[dict[str, Any]]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def train(work: Path, backbone: str, threads: int) -> Path:
    """A run of the five tasks together; a finished one is kept."""
    name = f"five-{Path(backbone.replace(':', '-')).name}"
    tasks = [
        {"name": task, "kind": "classification"}
        | {split: str((work / "data" / f"{task}-{split}.jsonl").resolve()) for split in ROWS}
        | ({"text_pair": "text_pair"} if len(columns) == 2 else {})
        for task, (columns, _, _) in TASKS.items()
    ]
    configuration = {
        "name": name,
        "output": str(work.resolve()),
        "threads": threads,
        "tasks": tasks,
        "model": {"backbone": backbone},
        "training": {"epochs": 3, "learning_rate": 1e-4, "precision": "auto"},
    }
    bm.train(configuration)
    return work / name


class Subject:
    """A trained run: its model, what is known of its units, and rows to judge on."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.model = bm.Run(run).load_model()
        self.tasks = tasks_of(*load_config(run, None))
        self.names = [task.name for task in self.tasks]
        conditions = Conditions(silent, 64, "auto", 0, None)
        self.known = survey(self.model, self.tasks, conditions)
        test = {task.name: task.splits["test"] for task in self.tasks}
        self.judge = make_judge(self.model, self.tasks, test, conditions)

    def measured(self, small: Any) -> dict[str, Any]:
        if isinstance(small, dict):  # a package: its own outcomes and speeds
            return {"lost": self.lost(small["outcomes"]), **small["facts"]}
        return {
            "lost": self.lost(self.judge.outcomes(small)),
            "speed": {
                f"{texts} x 128": round(speed_ratio(self.model, small, texts, 128), 3)
                for texts in (1, 32)
            },
            "parameters": small.parameter_counts()["total"] / self.known.parameters,
        }

    def lost(self, outcomes: Any) -> dict[str, list[float]]:
        found = self.judge.losses(outcomes)
        return {task: [round(x, 3) for x in (o.points, *o.interval)] for task, o in found.items()}

    def sized(self, speed: float, paths: Any = None, only: int | None = None) -> Choice:
        """Sizes for this speed by the measured times."""
        matters = np.ones(len(self.names)) if only is None else np.eye(len(self.names))[only]
        known = self.known if paths is None else replace(self.known, paths=paths)
        found = known.choose("latency", 1.0 / speed, matters)
        assert found is not None
        return found

    def without(self, kept: list[Any], model: Any = None) -> Any:
        small = copy.deepcopy(model or self.model)
        cut(small, self.known.blocks, kept)
        return small


Ways = Iterator[tuple[str, Callable[[], Any]]]
SPEEDS = (1.5, 1.8, 2.2, 2.7)


def ours(subject: Subject) -> Ways:
    for speed in SPEEDS:
        yield f"{speed}", lambda speed=speed: subject.known.make(subject.sized(speed))


def elimination(subject: Subject) -> Ways:
    for speed in SPEEDS:
        places = subject.sized(speed).places
        kept = [p.kept[k] for p, k in zip(subject.known.paths, places, strict=True)]
        yield f"{speed}", lambda kept=kept: subject.without(kept)


def heads(subject: Subject) -> Ways:
    scores = bm.head_importance(subject.model, subject.tasks, examples=512)
    for share in (0.3, 0.5, 0.7, 0.9):
        yield (
            f"{share:.0%} of heads",
            lambda share=share: bm.prune_heads(copy.deepcopy(subject.model), scores.least(share)),
        )


def magnitude(subject: Subject) -> Ways:
    bare = bare_models(subject.model)[0]
    norms = [
        bare.get_submodule(block.output).weight.detach().square().sum(0)
        .reshape(block.units, -1).sum(1).numpy()
        for block in subject.known.blocks
    ]  # fmt: skip
    for share in (0.25, 0.5, 0.75):
        kept = [norm >= np.quantile(norm, share) for norm in norms]
        yield f"{share:.0%} of every block", lambda kept=kept: subject.without(kept)


def layers(subject: Subject) -> Ways:
    count = len(bare_models(subject.model)[0].encoder.layer)
    for left in (count * 2 // 3, count // 2, count // 3):
        yield f"{left} of {count} layers", lambda left=left: fewer_layers(subject.model, left)


def fewer_layers(model: Any, left: int) -> Any:
    """Layers at even distances, the first and the last among them (BERT only)."""
    small = copy.deepcopy(model)
    encoder = bare_models(small)[0].encoder
    places = np.linspace(0, len(encoder.layer) - 1, left).round().astype(int)
    encoder.layer = torch.nn.ModuleList([encoder.layer[place] for place in places])
    return small


def fisher(subject: Subject) -> Ways:
    """One model per task, so that a row has as many models as tasks."""
    for speed in (1.5, 1.8):
        yield f"{speed}, a model per task", lambda speed=speed: per_task(subject, speed)


def per_task(subject: Subject, speed: float) -> dict[str, Any]:
    outcomes, speeds = {}, []
    for number, task in enumerate(subject.names):
        paths, masks = kwon_paths(subject, task)
        choice = subject.sized(speed, paths, only=number)
        kept = [
            rearranged(gradients, mask[place])
            for gradients, mask, place in zip(
                by_block(subject, task), masks, choice.places, strict=True
            )
        ]
        small = copy.deepcopy(subject.model)
        tune(subject, small, task, kept)
        small = subject.without(kept, small)
        outcomes[task] = subject.judge.outcomes(small)[task]
        speeds.append(speed_ratio(subject.model, small, 1, 128))
    return {"outcomes": outcomes, "facts": {"speed": {"1 x 128": round(min(speeds), 3)}}}


def by_block(subject: Subject, task: str) -> list[Any]:
    ends = np.cumsum([block.units for block in subject.known.blocks])
    return np.split(subject.known.sensitivity.gradients[task].astype(np.float64), ends[:-1], axis=1)


def kwon_paths(subject: Subject, task: str) -> tuple[list[Emptying], list[Any]]:
    """Units by the diagonal of the Fisher information, for the budget's dynamic programme."""
    paths, masks = [], []
    for gradients, sizes in zip(by_block(subject, task), subject.known.times.options, strict=True):
        diagonal = np.square(gradients).mean(axis=0) / 2
        order = np.argsort(diagonal, kind="stable")
        gone = np.concatenate([[0.0], np.cumsum(diagonal[order])])
        mask = np.ones((len(sizes), len(diagonal)), dtype=bool)
        for place, size in enumerate(sizes):
            mask[place, order[: len(order) - size]] = False
        losses = gone[len(order) - sizes]
        paths.append(Emptying(mask, np.tile(losses, (len(subject.names), 1))))
        masks.append(mask)
    return paths, masks


def rearranged(gradients: Any, kept: Any) -> Any:
    """Which units of a block stay, chosen anew one by one with the block's Fisher information."""
    information = gradients.T @ gradients / len(gradients)
    left, size = np.ones(len(kept), dtype=bool), int(kept.sum())
    terms, cross = np.diag(information), np.zeros(len(kept))
    while left.sum() > size:
        unit = int(np.argmin(np.where(left, terms + 2 * cross, np.inf)))
        left[unit] = False
        cross += information[unit]
    return left


def tune(subject: Subject, small: Any, task: str, kept: list[Any]) -> None:
    """One factor per unit that stays, by least squares on the block's output."""
    bare = bare_models(small)[0]
    moments = subject.known.sensitivity.moments[task][0]
    for block, mask, moment in zip(subject.known.blocks, kept, moments, strict=True):
        if mask.all() or not mask.any():
            continue
        weight = bare.get_submodule(block.output).weight.detach().double()
        products = (weight.T @ weight) * moment[:-1, :-1].double()
        size = block.units
        products = products.reshape(size, block.width, size, block.width).sum(dim=(1, 3))
        stays = torch.as_tensor(mask)
        here = products[stays][:, stays]
        here = here + 1e-3 * float(here.diagonal().mean()) * torch.eye(len(here))
        factors = torch.linalg.solve(here, products[stays].sum(dim=1)).clamp(-10, 10)
        scale = torch.ones(size, dtype=torch.double)
        scale[stays] = factors
        with torch.no_grad():
            by_input = scale.repeat_interleave(block.width)
            bare.get_submodule(block.output).weight.copy_(weight * by_input)


def recovered(subject: Subject) -> Ways:
    for speed in (2.2, 2.7, 3.3):
        yield (
            f"{speed}",
            lambda speed=speed: taught(subject, subject.known.make(subject.sized(speed)), 1),
        )


def distilled(subject: Subject) -> Ways:
    half = len(bare_models(subject.model)[0].encoder.layer) // 2
    yield "half of the layers", lambda: taught(subject, fewer_layers(subject.model, half), 1, False)


def taught(subject: Subject, student: Any, epochs: int, layers: bool = True) -> Any:
    phase = RECOVERY if layers else "prediction"
    with Distillation(subject.model, student, phase) as objective:
        bm.fit(
            student,
            subject.tasks,
            methods=[objective],
            epochs=epochs,
            learning_rate=1e-4,
            precision="auto",
            evaluate_every=10**9,
            keep="last",
        )
    return student


def int8(subject: Subject) -> Ways:
    yield "whole", lambda: packed(subject, subject.model)
    yield "ours at 1.8", lambda: packed(subject, subject.known.make(subject.sized(1.8)))


def packed(subject: Subject, model: Any) -> dict[str, Any]:
    """An 8-bit package: its answers, and its speed beside the whole model's float32 package."""
    with tempfile.TemporaryDirectory() as folder:
        bm.export(model, to="onnx", out=Path(folder) / "small", data=subject.tasks, int8=True)
        bm.export(subject.model, to="onnx", out=Path(folder) / "whole", data=subject.tasks)
        packages = [bm.runtime.load(Path(folder) / name) for name in ("whole", "small")]
        outcomes = {}
        for task in subject.tasks:
            examples = subject.judge.examples[task.name]
            answers = packages[1].predict(task.name, [dict(row) for row in examples])
            outcomes[task.name] = np.array(
                [[float(a["label"] == e["label"])] for a, e in zip(answers, examples, strict=True)]
            )
        text = " ".join(["word"] * 126)
        speed = {}
        for texts in (1, 32):
            clocks: list[list[float]] = [[], []]
            for _ in range(20):
                for clock, package in zip(clocks, packages, strict=True):
                    began = time.perf_counter()
                    package.predict("sst2", [text] * texts)
                    clock.append(time.perf_counter() - began)
            speed[f"{texts} x 128"] = round(float(np.median(clocks[0]) / np.median(clocks[1])), 3)
    return {"outcomes": outcomes, "facts": {"speed": speed}}


RUNGS = (2, 4, 5, 6, 7, 8, 9)
DIVISIONS = 20
POOL = 1000  # rows per task from each of the two splits


def promise(subject: Subject) -> dict[str, Any]:
    """Divide the held-out rows 20 times: one half chooses the speed, the other judges it.

    The candidates are the ladder's first tries, before the tasks' weights move.
    """
    rows = {
        task.name: [*task.splits["validation"][:POOL], *task.splits["test"][:POOL]]
        for task in subject.tasks
    }
    whole = make_judge(subject.model, subject.tasks, rows, subject.judge.conditions)
    after = {}
    for rung in RUNGS:
        after[rung] = whole.outcomes(subject.known.make(subject.sized(RUNG**rung)))
        print(rung, flush=True)
    found: dict[str, Any] = {"run": subject.run.name, "rows": 2 * POOL, "rungs": list(RUNGS)}
    for lose in (1.0, 2.0, 3.0):
        divisions = []
        for seed in range(DIVISIONS):
            order = np.random.default_rng(seed).permutation(2 * POOL)
            chosen, judged = None, None
            for rung in RUNGS:
                halves = [
                    {
                        task.name: points_lost(
                            task.spec,
                            whole.before[task.name][half],
                            after[rung][task.name][half],
                        )
                        for task in subject.tasks
                    }
                    for half in (order[:POOL], order[POOL:])
                ]
                if all(loss.bound <= lose for loss in halves[0].values()):
                    chosen, judged = rung, max(loss.points for loss in halves[1].values())
            divisions.append({"speed": None if chosen is None else RUNG**chosen, "worst": judged})
        kept = [one for one in divisions if one["speed"] is not None]
        found[f"lose {lose:g}"] = {
            "divisions": divisions,
            "promised": len(kept),
            "right": sum(one["worst"] <= lose for one in kept),
        }
    return found


WAYS: dict[str, Callable[[Subject], Ways]] = {
    "heads": heads,
    "magnitude": magnitude,
    "layers": layers,
    "fisher": fisher,
    "elimination": elimination,
    "ours": ours,
    "distilled": distilled,
    "recovered": recovered,
    "int8": int8,
}

if __name__ == "__main__":
    main()
