"""Smaller models: what the search finds on five real tasks, beside simpler ways of cutting.

    python benchmarks/compress.py FOLDER --work WORK --out benchmarks/results/compress.jsonl

FOLDER holds sst2/, ag_news/, qqp/, qnli/ and mnli/. WORK gets the data, divided anew (4,000 rows to
train, 1,500 to search on, 2,000 that the search never sees), and one trained run per backbone.
"""

import argparse
import gzip
import json
import os
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np

import brodmann as bm

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
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    work = Path(chosen.work)
    divide(Path(chosen.data), work / "data")
    train(work, chosen.backbone, chosen.threads)


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


if __name__ == "__main__":
    main()
