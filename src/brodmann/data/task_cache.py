"""Tasks that one command has read, so that its runs do not read them again."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brodmann.data.description import TaskDescription
from brodmann.data.draws.holdout import Claim
from brodmann.data.loading import Reading, load_entry, load_list
from brodmann.data.resolving import resolve
from brodmann.data.sources.finding import is_files
from brodmann.data.sources.store import TableStore
from brodmann.data.tasks import Task


@dataclass(frozen=True)
class _Known:
    task: Task
    claims: tuple[Claim, ...]  # the shares it holds out of tables


class TaskCache:
    """Create one per command and pass it to everything that loads tasks.

    Two descriptions share their data if they resolve to the same one and have the same base folder
    and seed. Callers get copies: changes that a run makes to its tasks do not reach the next run.
    """

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._tables: TableStore | None = None  # while `keeping_tables`

    def __reduce__(self) -> tuple[type["TaskCache"], tuple[()]]:
        """Pickle as an empty cache: another process reads data itself."""
        return TaskCache, ()

    def load(
        self, tasks: Sequence[str | Mapping[str, Any] | Task], *, base: str | Path, seed: int
    ) -> list[Task]:
        """Load tasks like `load_tasks`; known ones are not read again."""
        reading = Reading(Path(base), seed, self._tables or TableStore())
        return load_list(tasks, "tasks", lambda entry, where: self._load(entry, where, reading))

    @contextlib.contextmanager
    def keeping_tables(self) -> Iterator[None]:
        """Keep the rows of all files read inside the block, for other tasks over the same files."""
        if self._tables is not None:
            yield
            return
        self._tables = TableStore()
        try:
            yield
        finally:
            self._tables = None

    def _load(self, entry: Any, where: str, reading: Reading) -> Task:
        key = _key(entry, where, reading)
        if key is None:
            return load_entry(entry, where, reading)
        if key in self._known:
            for claim in self._known[key].claims:
                reading.held_out.claim(claim)
        else:
            before = len(reading.held_out.claims)
            task = load_entry(entry, where, reading)
            self._known[key] = _Known(task, tuple(reading.held_out.claims[before:]))
        return _copy(self._known[key].task)


def _key(entry: Any, where: str, reading: Reading) -> str | None:
    """Equal for entries that give the same task; None for rows in memory, which may change."""
    if not isinstance(entry, str | Mapping):
        return None
    if isinstance(entry, str) and entry.endswith(".toml"):
        return _written(["file", str(reading.base / entry)], reading)
    values: dict[str, Any] = {"use": entry} if isinstance(entry, str) else dict(entry)
    given = (values.get(key) for key in TaskDescription.in_memory)
    if any(not isinstance(place, str | Path | None) and not is_files(place) for place in given):
        return None
    if values.get("pair_of") is not None:
        inner = _key(values.pop("pair_of"), f"{where}: pair_of", reading)
        return None if inner is None else _written(["pairs", inner, values], reading)
    request = resolve(values, where)
    return _written([request.name, request.description.model_dump()], reading)


def _written(parts: list[Any], reading: Reading) -> str:
    return json.dumps([str(reading.base), reading.seed, *parts], sort_keys=True, default=str)


def _copy(task: Task) -> Task:
    splits = {split: [dict(example) for example in found] for split, found in task.splits.items()}
    return Task(task.spec, splits, list(task.notes))
