"""Whether `advise` keeps its promises: five real tasks, one with shuffled labels, one copy.

    python benchmarks/advise.py FOLDER --seeds 3 --budget 10m

FOLDER holds real datasets (`sst2/train.jsonl.gz` and so on). For every seed, other rows are drawn,
columns get meaningless names, the labels of a sixth task are shuffled, and a seventh is a copy of
the first in another order, with other columns and label names. `outside` further rows per task,
which `advise` never sees, tell what the promised gains are worth. One line per seed is appended to
benchmarks/results/advise.jsonl.
"""

import argparse
import gzip
import json
import random
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

import brodmann as bm
from brodmann.advising.session import ADVICE, LOOKED
from brodmann.advising.tasks_file import FILE
from brodmann.data.kinds import lower_is_better
from brodmann.files import read_json
from brodmann.provenance import provenance

RESULTS = Path(__file__).parent / "results" / "advise.jsonl"
# task → what must be recognised: its kind, and the original names of its columns by role
ROWS = 500
REAL: dict[str, tuple[str, dict[str, str]]] = {
    "sst2": ("classification", {"text": "sentence", "label": "label"}),
    "ag_news": ("classification", {"text": "text", "label": "label"}),
    "scitail": (
        "classification",
        {"text": "premise", "text_pair": "hypothesis", "label": "label"},
    ),
    "stsb": (
        "regression",
        {"text": "sentence1", "text_pair": "sentence2", "label": "label"},
    ),
    "wikigold_en": ("tokens", {"tokens": "tokens", "tags": "ner_tags"}),
}
TAGS = [
    "O",
    *(f"{place}-{kind}" for kind in ("PER", "ORG", "LOC", "MISC") for place in "BI"),
]  # of wikigold_en, by number
HARMFUL, COPIED = "cola", "sst2"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--budget", default="10m")
    parser.add_argument("--backbone", default="builtin:minilm")
    parser.add_argument("--keep", type=Path, help="folder to resume from if it is interrupted")
    parser.add_argument("--outside", type=int, default=1000)
    asked = parser.parse_args()
    for seed in range(asked.first, asked.first + asked.seeds):
        with tempfile.TemporaryDirectory() as temporary:
            place = Path(temporary) if asked.keep is None else asked.keep / f"seed{seed}"
            found = one_seed(asked, seed, place)
        with open(RESULTS, "a", encoding="utf-8") as file:
            file.write(json.dumps(found) + "\n")
        print(json.dumps({k: v for k, v in found.items() if k != "machine"}, indent=1), flush=True)


def one_seed(asked: argparse.Namespace, seed: int, place: Path) -> dict[str, Any]:
    names, outside = write_files(asked.folder, place, seed, asked.outside)
    began = time.monotonic()
    advice = bm.advise(
        sorted((place / "files").iterdir()),
        budget=asked.budget,
        to=place / "advice",
        backbone=asked.backbone,
        seed=seed,
        progress=False,
    )
    assert advice is not None
    minutes = (time.monotonic() - began) / 60
    document = read_json(place / "advice" / ADVICE)
    shared = [task for group in document["choice"]["shared"] for task in group]
    return {
        "seed": seed,
        "budget": asked.budget,
        "minutes": round(minutes, 1),
        "backbone": asked.backbone,
        "rows": ROWS,
        "answer": str(advice),
        "recognised": recognised(place, names),
        "harmful_shared": "harmful" in shared,
        "copy_found": set(document["copies"].items()) == {("zz-copy", COPIED.replace("_", "-"))},
        "without_signal": document["without_signal"],
        "epochs": document["plan"]["epochs"],
        "model_seeds": document["choice"]["seeds"],
        "arrangement": document["choice"]["arrangement"],
        "trials": len(document["trials"]),
        "gains": gains_outside(place / "advice", document, outside),
        "machine": machine(),
    }


def write_files(
    folder: Path, place: Path, seed: int, count: int
) -> tuple[dict[str, dict[str, str]], dict[str, Path]]:
    """Files with renamed columns, and the rows that stay outside; original → new column names."""
    generator = random.Random(seed)
    (place / "files").mkdir(parents=True, exist_ok=True)
    names, outside = {}, {}
    for task in REAL:
        drawn = named_tags(rows_of(folder / task, generator))
        renamed = {key: f"v{n}" for n, key in enumerate(drawn[0])}
        names[task.replace("_", "-")] = renamed
        drawn = [{renamed[key]: value for key, value in row.items()} for row in drawn]
        write(place / "files" / f"{task}.jsonl", drawn[:ROWS])
        outside[task.replace("_", "-")] = place / f"{task}.jsonl"
        write(outside[task.replace("_", "-")], drawn[ROWS : ROWS + count])
        if task == COPIED:
            copy = [
                {"c0": ["down", "up"][row[renamed["label"]]], "c1": row[renamed["sentence"]]}
                for row in drawn[:ROWS]
            ]
            generator.shuffle(copy)
            write(place / "files" / "zz-copy.jsonl", copy)
    harmful = rows_of(folder / HARMFUL, generator)[:ROWS]
    labels = [row["label"] for row in harmful]
    generator.shuffle(labels)
    shuffled = [{"h1": r["sentence"], "h2": y} for r, y in zip(harmful, labels, strict=True)]
    write(place / "files" / "harmful.jsonl", shuffled)
    return names, outside


def named_tags(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Tags by name, as people write them."""
    for row in rows:
        if "ner_tags" in row:
            row["ner_tags"] = [TAGS[tag] for tag in row["ner_tags"]]
    return rows


def rows_of(folder: Path, generator: random.Random) -> list[dict[str, Any]]:
    found = []
    for path in sorted(folder.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            found += [json.loads(line) for line in file]
    found = [row for row in found if row.get("label", 0) != -1]
    generator.shuffle(found)
    return found


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def recognised(place: Path, names: dict[str, dict[str, str]]) -> dict[str, bool]:
    """Whether the kind and every column were recognised, by task."""
    beliefs = read_json(place / "advice" / LOOKED)["beliefs"]
    found = {}
    for task, (kind, columns) in REAL.items():
        name = task.replace("_", "-")
        expected = {role: names[name][column] for role, column in columns.items()}
        belief = beliefs[name]
        found[name] = (belief["kind"], belief["columns"]) == (kind, expected)
    found["harmful"] = beliefs["harmful"]["columns"] == {"text": "h1", "label": "h2"}
    found["zz-copy"] = beliefs["zz-copy"]["columns"] == {"text": "c1", "label": "c0"}
    return found


def gains_outside(
    folder: Path, document: dict[str, Any], outside: dict[str, Path]
) -> dict[str, Any]:
    """The promised gain of every shared task beside the one on rows that advise never saw."""
    found = {}
    for task, promised in document["verdict"]["gains"].items():
        cells = document["cells"][task]
        gains = [
            score(folder / "cells" / shared, task, folder, outside[task])
            - score(folder / "cells" / own, task, folder, outside[task])
            for shared, own in zip(cells["shared"], cells["alone"], strict=True)
        ]
        outer = float(np.mean(gains))
        found[task] = {
            "promised": promised["mean"],
            "interval": [promised["low"], promised["high"]],
            "verdict": promised["verdict"],
            "outside": outer,
            "held": bool(promised["low"] <= outer <= promised["high"]),
        }
    return found


def score(cell: Path, task: str, folder: Path, rows: Path) -> float:
    """The primary score of a cell's model on further rows of a task."""
    model = bm.Run(cell).load_model()
    spec = model.spec(task)
    described = tomllib.loads((folder / FILE).read_text(encoding="utf-8"))["tasks"]
    description = next(one for one in described if one["name"] == task)
    description |= {"train": str(rows), "validation": str(rows)}
    if spec.labels is not None:
        description["labels"] = list(spec.labels)
    loaded = bm.load_tasks([description])
    found = bm.evaluate(model, loaded)[task].scores[spec.metric]
    return -found if lower_is_better(spec.metric) else found


def machine() -> dict[str, Any]:
    """Versions and hardware, without the places of this machine."""
    return {key: value for key, value in provenance().items() if key != "command"}


if __name__ == "__main__":
    main()
