"""Tasks before any training: those of a run as they were read, and named datasets."""

from collections.abc import Mapping, Sequence
from typing import Any

from brodmann.data.catalogue import Entry
from brodmann.data.sources.table import SPLITS
from brodmann.data.tasks import Task
from brodmann.reporting.blocks import Block, Table, Words
from brodmann.text import NOTHING


def tasks_read(tasks: Sequence[Task]) -> list[Block]:
    """Kind, labels, sizes and metric of each task, and notes on its data."""
    rows = [
        (
            task.name,
            task.spec.kind,
            str(len(task.spec.labels)) if task.spec.labels else NOTHING,
            *(f"{task.sizes[split]:,}" if split in task.sizes else NOTHING for split in SPLITS),
            task.spec.metric,
        )
        for task in tasks
    ]
    blocks: list[Block] = [Table(("task", "kind", "labels", *SPLITS, "metric"), rows)]
    if any(task.spec.generated for task in tasks):
        text = "builtin/ tasks are generated text, for trying things out"
        blocks.append(Words(text, "note"))
    for task in tasks:
        more = [f"{size:,} {split}" for split, size in task.sizes.items() if split not in SPLITS]
        if more:
            text = f"{task.name}: also evaluated on {', '.join(more)} examples"
            blocks.append(Words(text, "caution"))
    blocks += [Words(note, "caution") for note in data_notes(tasks)]
    return blocks


def data_notes(tasks: Sequence[Task]) -> list[str]:
    """The notes on the tasks' data; tasks with the same note share it."""
    names: dict[str, list[str]] = {}
    for task in tasks:
        for note in task.notes:
            names.setdefault(note.removeprefix(f"{task.name}: "), []).append(task.name)
    return [f"{', '.join(dict.fromkeys(of))}: {text}" for text, of in names.items()]


def catalogue(entries: Sequence[Entry]) -> list[Block]:
    """One row per dataset, with its first language and the number of others."""
    rows = []
    for entry in entries:
        size = entry.train_size(entry.languages[0])
        first, more = entry.languages[0], len(entry.languages) - 1
        rows.append(
            (
                entry.name,
                entry.kind,
                entry.group,
                NOTHING if size is None else f"{size:,}",
                entry.metrics[0] if entry.metrics else NOTHING,
                f"{first} +{more}" if more else first,
            )
        )
    return [Table(("name", "kind", "group", "train", "metric", "in"), rows)]


def one_entry(facts: Mapping[str, Any]) -> list[Block]:
    """One dataset in full, one row per key."""
    return [Table(("", ""), [(key, _value(value)) for key, value in facts.items()])]


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} = {inner}" for name, inner in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(str(inner) for inner in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
