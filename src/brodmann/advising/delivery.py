"""The chosen models as run folders, what they cost to serve, and which heads their tasks share."""

import shutil
import time
import uuid
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from brodmann.advising.arrangements import CellKey
from brodmann.advising.cell_runs import Bench
from brodmann.advising.choosing import Choice
from brodmann.advising.data_parts import CHOOSING
from brodmann.advising.trying import score_of
from brodmann.config import load_config, to_toml
from brodmann.data.kinds import KINDS
from brodmann.errors import HeadsNotFoundError
from brodmann.files import write_text
from brodmann.measuring.finding_mistakes import mistakes
from brodmann.pipeline.map import map_heads
from brodmann.pipeline.run import run
from brodmann.results.of_mistakes import MISTAKES
from brodmann.training.events import Report, silent

MODELS = "models"
RECOMMENDED = "recommended.toml"
ASKED = 32  # texts by which serving is timed
TOP = 0.3  # share of the heads that are compared between tasks


def deliver(bench: Bench, choice: Choice, names: Sequence[str], report: Report) -> dict[str, Any]:
    """Copy the chosen runs into `models/`, complete them, and measure what they cost."""
    shared = [task for group in choice.shared for task in group]
    alone = [name for name in names if name not in shared]
    models: list[dict[str, Any]] = []
    place = bench.folder / MODELS
    wanted = set()
    for number, group in enumerate(choice.shared, start=1):
        name = "shared" if len(choice.shared) == 1 else f"shared-{number}"
        cells = [choice.cell_of(group[0], seed) for seed in range(choice.seeds)]
        models.append(_copied(bench, cells, group, place / name))
        wanted.add(name)
    for task in alone:
        name = task.replace("/", "-").replace(":", "-")
        models.append(_copied(bench, [CellKey((task,))], (task,), place / name))
        wanted.add(name)
    for old in place.iterdir() if place.is_dir() else ():
        if old.name not in wanted and (old / "config.toml").is_file():
            shutil.rmtree(old)  # of an earlier choice; its run is still among the cells
    for model in models:
        report("stage", {"text": f"completing models/{Path(model['folder']).name}"})
        model["suspects"] = _complete(bench, Path(model["folder"]), model["tasks"])
    return {
        "models": models,
        "heads": _heads(models, report),
        "serving": _serving(bench, choice, models),
        "configurations": _configurations(bench, models),
    }


def _copied(
    bench: Bench, cells: Sequence[CellKey], tasks: Sequence[str], target: Path
) -> dict[str, Any]:
    """Copy the seed that is best on the choosing part."""
    scores = [
        float(np.mean([score_of(bench.choosing(cell, task), bench, task) for task in tasks]))
        for cell in cells
    ]
    source = bench.run(cells[int(np.argmax(scores))])
    mark = target / "config.toml"
    same = mark.is_file() and load_config(target)[0].fingerprint() == source.name
    if not same:
        half = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}")
        half.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, half)
        shutil.rmtree(target, ignore_errors=True)
        half.replace(target)
    size = sum(path.stat().st_size for path in (target / "model").rglob("*") if path.is_file())
    return {"folder": str(target), "tasks": list(tasks), "bytes": size, "cell": source.name}


def _complete(bench: Bench, folder: Path, names: Sequence[str]) -> dict[str, int | None]:
    """Fit the rules for answers and store the mistakes, which cells of a grid leave out.

    Returns the number of suspected label errors in each task's choosing part (None: the kind has
    none).
    """
    from brodmann.models.multitask import MultiTaskModel

    config, _ = load_config(folder)
    run(config, bench.folder, silent, heads=False, rules=True)
    tasks = [task for task in bench.parts.tasks if task.name in names]
    model = MultiTaskModel.from_pretrained(folder / "model", device=config.device)
    found = mistakes(model, tasks, split=CHOOSING, texts=config.report.texts)
    found.save(folder / MISTAKES)
    return {name: found.tasks[name]["suspects_in_all"] for name in names}


def _heads(models: Sequence[dict[str, Any]], report: Report) -> list[dict[str, Any]]:
    """For each shared model: the overlap of its tasks' most important heads."""
    found = []
    for model in models:
        if len(model["tasks"]) < 2:
            continue
        config, base = load_config(Path(model["folder"]))
        report("stage", {"text": f"mapping the heads of models/{config.name}"})
        try:
            scores = map_heads(config, base, silent)
        except HeadsNotFoundError:
            continue
        tops = {task: set(scores.top(TOP, task)) for task in scores.tasks}
        pairs = {
            f"{a} + {b}": len(tops[a] & tops[b]) / max(len(tops[a]), 1)
            for a, b in combinations(scores.tasks, 2)
        }
        needed = len(set.union(*tops.values()))
        found.append(
            {
                "tasks": list(scores.tasks),
                "heads": scores.heads,
                "overlap": pairs,
                "by_chance": TOP,
                "unimportant": scores.heads - needed,
                "folder": model["folder"],
            }
        )
    return found


def _serving(bench: Bench, choice: Choice, models: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Bytes of the recommended models and of one per task, and seconds per 100 texts of each task.

    Single models are timed as copies of the shared model's cost per pass: the tasks' own models.
    """
    tasks = [task for model in models for task in model["tasks"]]
    own = {task: bench.run(CellKey((task,))) for task in tasks}
    separate = sum(
        path.stat().st_size
        for place in own.values()
        for path in (place / "model").rglob("*")
        if path.is_file()
    )
    return {
        "bytes": sum(model["bytes"] for model in models),
        "bytes_separate": separate,
        "seconds": sum(_asked(Path(m["folder"]), bench, m["tasks"]) for m in models),
        "seconds_separate": sum(_asked(own[task], bench, [task]) for task in tasks),
        "texts": ASKED,
    }


def _asked(folder: Path, bench: Bench, tasks: Sequence[str]) -> float:
    """Seconds to answer every task of a model on its own texts (tasks that read alike at once)."""

    from brodmann.models.multitask import MultiTaskModel

    model = MultiTaskModel.from_pretrained(folder / "model", device=bench.config.device)
    examples = {
        task.name: task.splits["validation"][:ASKED]
        for task in bench.parts.tasks
        if task.name in tasks
    }
    alike: dict[tuple[str, ...], list[str]] = {}
    for task in tasks:
        keys = tuple(sorted(key for key in examples[task][0] if key in ("text", "text_pair")))
        whole = KINDS[bench.spec(task).kind].HEAD == "sequence"
        own = keys if whole else (task,)
        alike.setdefault(own if model.architecture.one_pass else (task,), []).append(task)
    reader = model.reader()
    began = 0.0
    for number in range(2):  # the first pass warms up
        began = time.perf_counter() if number else began
        for group in alike.values():
            encoded = model.encode(bench.spec(group[0]), examples[group[0]], cache=False)
            reader.read(encoded, group, batch_size=ASKED)
    return time.perf_counter() - began


def _configurations(bench: Bench, models: Sequence[dict[str, Any]]) -> list[str]:
    """Configurations that train the recommended models again, one per model."""
    written = []
    for model in models:
        folder = Path(model["folder"])
        config, _ = load_config(folder)
        values = config.resolved() | {"output": "runs", "name": folder.name}
        for task in values["tasks"]:
            task.pop("limit", None)  # trials may use fewer examples than there are
        path = bench.folder / f"{folder.name}.{RECOMMENDED}"
        head = f"# Trains {', '.join(model['tasks'])} as `brodmann advise` recommends.\n"
        write_text(path, head + to_toml(values))
        written.append(str(path))
    return written
