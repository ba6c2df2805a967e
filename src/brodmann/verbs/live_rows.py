"""Tasks given in memory, written to the run folder: a run must find its rows again to resume."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path

from brodmann.config import Config
from brodmann.data.description import TaskDescription
from brodmann.data.kinds import KINDS
from brodmann.data.sources.finding import is_files
from brodmann.data.sources.store import TableStore
from brodmann.data.sources.table import Table
from brodmann.data.tasks import Task, TaskSpec
from brodmann.errors import InputError
from brodmann.files import Document, write_text
from brodmann.pipeline.run_folder import ROWS, check_strangers

# Settings of a description that a specification keeps under the same name.
KEPT = {field.name for field in fields(TaskSpec)} & set(TaskDescription.model_fields)
KEPT -= {"name", "kind", "shape", "separator", "tag_scheme", "class_weights", "metrics", "labels"}


def describe_task(entry: object) -> object:
    """A loaded task as a description with its rows in memory; anything else unchanged."""
    if not isinstance(entry, Task):
        return entry
    spec, kind = entry.spec, KINDS[entry.spec.kind]
    roles = {role: role for role in (*kind.REQUIRED, *kind.OPTIONAL)}
    rows = {
        split: [kind.as_row(example, spec) for example in examples]
        for split, examples in entry.splits.items()
    }
    present = {role for own in rows.values() for row in own for role in row}
    facts: Document = {
        "name": spec.name,
        "kind": spec.kind,
        **{key: getattr(spec, key) for key in KEPT if getattr(spec, key) not in (None, "")},
        **{role: column for role, column in roles.items() if role in present},
        **rows,
    }
    if spec.labels is not None:
        facts["labels"] = list(spec.labels)
    if spec.metrics:
        facts["metrics"] = list(spec.metrics)
    if spec.class_weights is not None:
        facts["class_weights"] = dict(zip(spec.label_list, spec.class_weights, strict=True))
    return facts


def with_rows_on_disk(values: Document, config: Config) -> Document:
    """The settings with the path of a file in place of rows in memory."""
    tasks = values["tasks"]
    folder = config.folder.absolute() / ROWS
    if not any(isinstance(task, Mapping) and _live_keys(task) for task in tasks):
        return values
    if not (config.folder / "config.toml").is_file():
        check_strangers(config.folder)
    store, written = TableStore(), {}
    described = []
    begun = (config.folder / "config.toml").is_file()
    for number, task in enumerate(tasks):
        live = _live_keys(task) if isinstance(task, Mapping) else []
        task = dict(task) if live else task
        name = str(task.get("name") or f"task{number}") if live else ""
        for key in live:
            source = task.pop(key)
            if id(source) not in written:  # several tasks may read one table
                tables = store.given(source, f"task '{name}': {key}", "utf-8", ())
                prefix = f"{name}-{key}"
                written[id(source)] = {
                    split: (
                        _write(
                            table,
                            folder / f"{prefix if len(tables) == 1 else f'{name}-{split}'}.jsonl",
                            begun=begun,
                        ),
                        table,
                    )
                    for split, table in tables.items()
                }
            found = written[id(source)]
            if len(found) == 1:
                task[key] = str(next(iter(found.values()))[0])
            else:  # the splits of a dataset
                task |= {split: str(path) for split, (path, _) in found.items()}
            _keep_label_names(task, [table for _, table in found.values()])
        described.append(task)
    return values | {"tasks": described}


def _live_keys(task: Mapping[str, object]) -> list[str]:
    keys = (key for key in TaskDescription.in_memory if task.get(key) is not None)
    return [
        key for key in keys if not isinstance(task[key], str | Path) and not is_files(task[key])
    ]


def _keep_label_names(task: Document, tables: Sequence[Table]) -> None:
    """Keep the names of labels that a dataset states apart from its rows."""
    columns = [task.get("label"), task.get("tags"), "label", "tags"]
    known = [table.label_names for table in tables]
    names = next((one[column] for column in columns for one in known if column in one), None)
    if names:
        task.setdefault("labels", names)


def _write(table: Table, path: Path, *, begun: bool) -> Path:
    """Write rows as JSON lines; rows that differ from those a run began with are an error."""
    lines = (json.dumps(row, default=str) for row in table.rows)
    text = "".join(f"{line}\n" for line in lines)
    if begun and path.is_file():
        if path.read_text(encoding="utf-8") != text:
            raise InputError(
                f"{path}: the rows in memory differ from those this run began with: set another "
                "name, or pass the same rows"
            )
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
    return path
