"""Divide every task once: examples to train on, examples that choose, examples that report.

A text is in the same part for every task that has it, so that no task trains on what another is
judged by. A test split that the user gives is the reporting part, a validation split the choosing
part; what is missing is drawn from the rest in proportion to the labels.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from brodmann.config import Config
from brodmann.data.kinds import KINDS
from brodmann.data.loading import load_tasks
from brodmann.data.sources.label_columns import tenths
from brodmann.data.tasks import TEXT_COLUMNS, Example, Task
from brodmann.errors import InputError
from brodmann.files import digest, write_text

CHOOSING, REPORTING = "validation", "test"  # the names of the parts as splits of a run
SHARE = 0.2  # of a task's texts in each of the two
FEWEST = 10  # examples in each part
KEPT = ("metric", "metrics", "answer_rules", "weight", "class_weights", "group", "language", "head")
PARTS = "parts"


@dataclass(frozen=True)
class Parts:
    """The divided tasks, their descriptions for cells, and what division left out."""

    tasks: list[Task]
    descriptions: list[dict[str, Any]]
    left_out: dict[str, int] = field(default_factory=dict)  # rows whose text others are judged by

    @property
    def names(self) -> list[str]:
        return [task.name for task in self.tasks]


def divide_tasks(config: Config, folder: Path) -> Parts:
    """Read the tasks of the corrected configuration, divide them, and write the parts."""
    loaded = load_tasks(config.given_tasks(), base=config.data_dir or ".", seed=config.data_seed)
    given = config.given_tasks()
    pools = {
        task.name: _pooled(task, "validation" in description)
        for task, description in zip(loaded, given, strict=True)
    }
    assigned = _assigned(loaded, pools, config.data_seed)
    divided, left_out = [], {}
    for task in loaded:
        splits, left = _divided(pools[task.name], assigned)
        _check_sizes(task.name, splits)
        left_out[task.name] = left
        divided.append(Task(task.spec, splits, task.notes))
    place = Path(PARTS) / digest([task.fingerprint() for task in divided])[:8]
    written = [
        _written(task, description, folder, place)
        for task, description in zip(divided, given, strict=True)
    ]
    return Parts(divided, written, left_out)


def text_key(example: Example) -> str:
    """The longest text of an example, without case and spacing: what makes it the same text."""
    texts = []
    for column in TEXT_COLUMNS:
        value = example.get(column)
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, list):
            texts.append(" ".join(map(str, value)))
    return " ".join(max(texts, key=len).casefold().split())


def _pooled(task: Task, validated: bool) -> dict[str, list[Example]]:
    """The examples by the split that the user gave them; one that we held out is no split."""
    splits = dict(task.splits)
    if not validated and "validation" in splits:
        splits["train"] = [*splits["train"], *splits.pop("validation")]
    return {split: splits[split] for split in ("train", CHOOSING, REPORTING) if split in splits}


def _assigned(
    tasks: Sequence[Task], pools: dict[str, dict[str, list[Example]]], seed: int
) -> dict[str, str]:
    """The part of every text."""
    found: dict[str, str] = {}
    for split in (REPORTING, CHOOSING):  # what one user's test split holds, nobody trains on
        for pool in pools.values():
            for example in pool.get(split, ()):
                found.setdefault(text_key(example), split)
    for task in tasks:
        pool = pools[task.name]
        missing = [part for part in (REPORTING, CHOOSING) if part not in pool]
        strata: dict[Any, list[str]] = defaultdict(list)
        seen: set[str] = set()
        for example, stratum in zip(pool["train"], _strata(task, pool["train"]), strict=True):
            key = text_key(example)
            if key not in seen:
                seen.add(key)
                strata[stratum].append(key)
        drawn = 0.0
        for stratum in sorted(strata, key=str):
            keys = sorted(strata[stratum], key=lambda key: digest([seed, key]))
            drawn = _draw(keys, missing, found, drawn)
    return found


def _draw(keys: list[str], missing: list[str], found: dict[str, str], carried: float) -> float:
    """Assign the new texts of one stratum; return the fraction of a text still owed."""
    new = [key for key in keys if key not in found]
    wanted = SHARE * len(new) + carried
    count = int(wanted + 1e-9)
    place = 0
    for part in missing:
        for key in new[place : place + count]:
            found[key] = part
        place += count
    for key in new[place:]:
        found[key] = "train"
    return wanted - count


def _strata(task: Task, examples: Sequence[Example]) -> list[Any]:
    if task.spec.kind == "classification":
        return [example["label"] for example in examples]
    if task.spec.kind == "regression":
        return list(
            tenths([str(example["label"]) for example in examples]) or ["0"] * len(examples)
        )
    if task.spec.kind == "multilabel":
        return [sum(example["label"]) for example in examples]
    return ["0"] * len(examples)


def _divided(
    pool: dict[str, list[Example]], assigned: dict[str, str]
) -> tuple[dict[str, list[Example]], int]:
    """The parts of one task, and the number of examples that another split forbids."""
    splits: dict[str, list[Example]] = {"train": [], CHOOSING: [], REPORTING: []}
    left = 0
    for given, examples in pool.items():
        for example in examples:
            part = assigned[text_key(example)]
            if (given == "train" and (part == "train" or part not in pool)) or given == part:
                splits[part].append(example)
            else:
                left += 1
    return splits, left


def _check_sizes(name: str, splits: dict[str, list[Example]]) -> None:
    for split, examples in splits.items():
        if len(examples) < FEWEST:
            what = {"train": "train on", CHOOSING: "choose by", REPORTING: "report on"}[split]
            raise InputError(
                f"task '{name}': {len(examples)} examples to {what}, expected at least {FEWEST}: "
                "provide more labelled rows, or leave the task out"
            )


def _written(task: Task, description: dict[str, Any], folder: Path, place: Path) -> dict[str, Any]:
    """Write the parts of one task; the description by which cells read them."""
    kind = KINDS[task.spec.kind]
    own = place / task.name.replace("/", "-").replace(":", "-")
    roles: set[str] = set()
    found: dict[str, Any] = {"name": task.name, "kind": task.spec.kind}
    for split, examples in task.splits.items():
        rows = [kind.as_row(example, task.spec) for example in examples]
        roles |= {role for row in rows for role in row}
        path = folder / own / f"{split}.jsonl"
        if not path.is_file():
            lines = (json.dumps(row, ensure_ascii=False, default=str) for row in rows)
            write_text(path, "".join(f"{line}\n" for line in lines))
        found[split] = (own / f"{split}.jsonl").as_posix()
    known = {*kind.REQUIRED, *kind.OPTIONAL}
    found |= {role: role for role in sorted(roles & known)}
    found |= {key: description[key] for key in KEPT if description.get(key) is not None}
    if task.spec.labels is not None and task.spec.kind != "choice":
        found["labels"] = list(task.spec.labels)
    return found
