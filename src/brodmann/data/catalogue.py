"""Tasks known by name. Today the built-in suite; public datasets get their table beside it.

A name is `group/task`, or `group/task:language`.
"""

from dataclasses import dataclass
from typing import Any

from brodmann.data import builtin
from brodmann.data.readers import Table
from brodmann.errors import InputError, did_you_mean

BUILTIN_SIZES = {"train": 2000, "validation": 500, "test": 500}


@dataclass(frozen=True)
class NamedTask:
    """One line of `brodmann tasks`."""

    name: str
    kind: str
    group: str
    language: str
    labels: tuple[str, ...] | None
    generated: bool
    description: str


def named_tasks() -> list[NamedTask]:
    return [
        NamedTask(
            name=f"builtin/{name}" + ("" if language == "en" else f":{language}"),
            kind=task.kind,
            group=task.group,
            language=language,
            labels=task.labels,
            generated=True,
            description=task.description,
        )
        for language in builtin.LANGUAGES
        for name, task in builtin.TASKS.items()
    ]


def description(name: str, where: str) -> dict[str, Any]:
    """The named task as a description, the way a configuration would write it."""
    known = {task.name: task for task in named_tasks()}
    if name not in known:
        raise InputError(
            f"{where}: unknown task '{name}'{_near(name, list(known))}"
            " (`brodmann tasks` lists the named ones; own data: a table with 'name' and 'kind')"
        )
    entry = known[name]
    task = builtin.TASKS[name.removeprefix("builtin/").partition(":")[0]]
    result: dict[str, Any] = {
        "use": name,
        "kind": entry.kind,
        "group": entry.group,
        "language": entry.language,
        **task.columns,
    }
    if entry.labels is not None:
        result["labels"] = list(entry.labels)
    return result


def _near(name: str, known: list[str]) -> str:
    hint = did_you_mean(name, known)
    return hint if "did you mean" in hint else ""


def short_name(name: str) -> str:
    """`builtin/sentiment:es` → `sentiment:es`."""
    return name.rpartition("/")[2]


def is_generated(name: str) -> bool:
    return name.startswith("builtin/")


def generate(name: str, limit: int | dict[Any, int] | None, seed: int) -> dict[str, Table]:
    """Splits of a built-in task, as large as `limit` asks for."""
    task, _, language = name.removeprefix("builtin/").partition(":")
    asked = {"train": limit} if isinstance(limit, int) else dict(limit or {})
    sizes = {split: asked.get(split) or size for split, size in BUILTIN_SIZES.items()}
    try:
        made = builtin.generate(task, language or "en", sizes=sizes, seed=seed)
    except ValueError as error:
        raise InputError(f"{name}: {error}") from None
    return {
        split: Table(f"{name} ({split})", rows, range(1, len(rows) + 1))
        for split, rows in made.items()
    }
