"""Rows of the built-in tasks, generated when needed."""

from typing import Any

from brodmann.data import builtin
from brodmann.data.catalogue import BUILTIN_SIZES
from brodmann.data.sources.table import Table, Tables
from brodmann.errors import InputError

MOST_GENERATED = 100_000  # per split, which takes up to 20 seconds


def generate(name: str, language: str, limit: int | dict[Any, int] | None, seed: int) -> Tables:
    """Splits of a built-in task, as large as `limit` asks for."""
    asked = {"train": limit} if isinstance(limit, int) else dict(limit or {})
    sizes = {split: asked.get(split) or size for split, size in BUILTIN_SIZES.items()}
    if (most := max(sizes.values())) > MOST_GENERATED:
        raise InputError(
            f"{name}: limit = {most:,}: at most {MOST_GENERATED:,} examples per split are generated"
        )
    try:
        made = builtin.generate(name.removeprefix("builtin/"), language, sizes=sizes, seed=seed)
    except ValueError as error:
        raise InputError(f"{name}: {error}") from None
    return {
        split: Table(f"{name} ({split})", rows, range(1, len(rows) + 1))
        for split, rows in made.items()
    }
