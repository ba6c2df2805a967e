"""Load tasks from descriptions, step by step:

1. resolve  the description, with every key checked            `data/resolving.py`
2. find     the rows: a file, folder, hub, memory           `data/sources/finding.py`
3. read     the rows, each with its file and line                `data/sources/reading.py`
4. check    columns and values; whether anything can be learnt   `data/sources/table_rows.py`
5. divide   hold out a validation set if there is none        `data/draws/division.py`
6. settle   labels, metrics and other facts from the data      `data/settling.py`
7. limit    draw fewer examples                                  `data/draws/limits.py`
8. number   labels as a loss takes them, and class weights       `data/settling.py`
9. suspect  what looks wrong with the data, as notes             `data/suspicions.py`

Division comes before settling: labels and the scale of values are found in the training data.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Unpack

from brodmann.data import catalogue
from brodmann.data.draws.division import divide
from brodmann.data.draws.holdout import HeldOut
from brodmann.data.draws.limits import limit
from brodmann.data.draws.pairs import pair_tables
from brodmann.data.resolving import Request, read_task_file, resolve, resolve_here, resolve_pairs
from brodmann.data.settling import begin_spec, number_labels, settle, weigh_classes
from brodmann.data.sources.finding import find
from brodmann.data.sources.reading import read
from brodmann.data.sources.store import TableStore
from brodmann.data.sources.table import Tables
from brodmann.data.sources.table_rows import check_rows
from brodmann.data.suspicions import check_learnable, suspicions
from brodmann.data.task_options import TaskOptions
from brodmann.data.tasks import Task
from brodmann.errors import InputError


def load_tasks(
    tasks: Sequence[str | Mapping[str, object] | Task],
    *,
    base: str | Path = ".",
    seed: int = 0,
    where: str = "tasks",
) -> list[Task]:
    """Load named tasks, task files (`x.toml`), descriptions and ready tasks, in the order given.

    `base` is the folder that relative paths start from, and in which named datasets are looked for
    (`<base>/<dataset>/<split>.jsonl.gz`) before the hub is asked; `seed` decides divisions and
    limits, so that all runs over the same files see the same examples whatever their training seed.
    """
    reading = Reading(Path(base), seed)
    return load_list(tasks, where, lambda entry, label: load_entry(entry, label, reading))


def load_task(
    name: str, *, base: str | Path = ".", seed: int = 0, **description: Unpack[TaskOptions]
) -> Task:
    """Load one task from keyword arguments.

    `train`, `validation`, `test` and `data` take paths, lists of dicts, dicts of lists or
    DataFrames.
    """
    return _load({"name": name, **description}, f"task '{name}'", Reading(Path(base), seed))


@dataclass
class Reading:
    """State that the tasks of one list share: a file is read once and divided once."""

    base: Path
    seed: int
    tables: TableStore = field(default_factory=TableStore)
    held_out: HeldOut = field(default_factory=HeldOut)
    files: tuple[Path, ...] = ()  # task files that led here, one by the pair_of of another


def load_list(tasks: Sequence[Any], where: str, load: Callable[[Any, str], Task]) -> list[Task]:
    """Ready tasks unchanged, `load(entry, where)` for the others; no name may occur twice."""
    _check_written(tasks, where)
    loaded: list[Task] = []
    for place, entry in enumerate(tasks):
        label = f"{where}[{place}]"
        task = entry if isinstance(entry, Task) else load(entry, label)
        if any(task.name == other.name for other in loaded):
            raise InputError(
                f"{label}: a second task is called '{task.name}': give it another 'name'"
            )
        loaded.append(task)
    if not loaded:
        raise InputError(f"{where}: expected at least one task, found none")
    return loaded


def _check_written(tasks: Sequence[Any], where: str) -> None:
    """Check a list of tasks as written, before anything is read."""
    if isinstance(tasks, str | Mapping | Task):
        raise InputError(f"{where}: expected a list of tasks, found one {type(tasks).__name__}")
    for place, entry in enumerate(tasks):
        if isinstance(entry, str) and not entry.endswith(".toml"):
            catalogue.find(entry, f"{where}[{place}]")
        elif isinstance(entry, Mapping) and entry.get("pair_of") is None:
            resolve(entry, f"{where}[{place}]")


def load_entry(entry: Any, where: str, reading: Reading) -> Task:
    """Load a task by its name, the path of its file, or its description."""
    if not isinstance(entry, str | Mapping):
        raise InputError(f"{where}: expected a name or a description, found {entry!r:.60}")
    if isinstance(entry, str) and entry.endswith(".toml"):
        path = reading.base / entry
        values = read_task_file(path)
        if path.resolve() in reading.files:
            raise InputError(f"{path}: its pair_of leads back to itself")
        opened = (*reading.files, path.resolve())
        return _load(values, str(path), replace(reading, base=path.parent, files=opened))
    return _load({"use": entry} if isinstance(entry, str) else dict(entry), where, reading)


def _load(values: dict[str, Any], where: str, reading: Reading) -> Task:
    """Load one task in the steps that the module's docstring lists."""
    if values.get("pair_of") is not None:
        request, tables, notes = _pair_texts(values, where, reading)
    else:
        request = resolve_here(values, where, reading.base)
        sources = find(request, reading.base, reading.seed)
        tables, notes = read(sources, request, reading.tables)
    spec = begin_spec(request, tables)
    splits = {split: check_rows(table, spec, request, notes) for split, table in tables.items()}
    if not spec.generated:
        check_learnable(spec, splits["train"].examples)
    splits = divide(splits, request, reading.held_out, reading.seed, notes)
    spec = settle(spec, splits, request, notes)
    splits = limit(splits, spec, request, reading.seed, notes)
    examples = number_labels(splits, spec, request, notes)
    spec = weigh_classes(spec, examples["train"], request)
    if not spec.generated:
        notes += suspicions(spec, examples)
    if request.asked:
        notes.append(f"{spec.name}: read from {request.description.use} instead")
    return Task(spec, examples, notes)


def _pair_texts(
    values: dict[str, Any], where: str, reading: Reading
) -> tuple[Request, Tables, list[str]]:
    """Pair texts of another task (`pair_of`), which is loaded first."""
    base = load_entry(values["pair_of"], f"{where}: pair_of", reading)
    request = resolve_pairs(values, base.spec, where)
    tables, notes = pair_tables(base, request, reading.seed)
    # The limit has already chosen the texts to pair.
    unlimited = request.description.model_copy(update={"limit": None})
    return replace(request, description=unlimited), tables, [*base.notes, *notes]
