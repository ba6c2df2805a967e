"""Arrange: rename splits, convert them to the shape of the task's kind, and keep labelled ones."""

from collections.abc import Mapping

from brodmann.data.resolving import Request
from brodmann.data.sources.dataset_shapes import shaped
from brodmann.data.sources.table import SPLITS, Table, Tables
from brodmann.errors import InputError


def arrange(
    tables: Tables, request: Request, name: str, splits: Mapping[str, str], notes: list[str]
) -> tuple[Tables, list[str]]:
    """The labelled splits by our names, and the names of unused splits.

    `splits` are the catalogue's names for them; `name` is the task's name in notes.
    """
    description = request.description
    tables, unused = _by_our_names(tables, description.splits, splits, name)
    if description.shape is not None:
        tables = {s: _shape_rows(t, description.shape, name, notes) for s, t in tables.items()}
    target = request.kind.TARGETS[0]
    column = getattr(description, target) or target
    hidden = [s for s, table in tables.items() if s != "train" and _is_hidden(table, column)]
    if hidden or unused:
        reasons = [f"{split} (labels not public)" for split in hidden] + unused
        notes.append(f"{name}: splits not used: {', '.join(reasons)}")
    arranged = {s: tables[s] for s in sorted(tables, key=order) if s not in hidden}
    return arranged, [*hidden, *unused]


def with_train(tables: Tables, unused: list[str], name: str, notes: list[str]) -> Tables:
    """Divide evaluation data if there is no training split: validation, or the only split."""
    if "train" in tables:
        return tables
    if len(tables) == 1 or "validation" in tables:
        source = divided_split(tables, name, notes)
        return {"train": tables[source], **{s: t for s, t in tables.items() if s != source}}
    found = ", ".join([*tables, *unused])
    raise InputError(f"task '{name}': no split called 'train', found {found}")


def divided_split(tables: Tables, name: str, notes: list[str]) -> str:
    """The split to divide if there is none to train on; adds a note about it."""
    source = "validation" if "validation" in tables else next(iter(tables))
    notes.append(f"{name}: no training split: {source} is divided into training and validation")
    return source


def order(split: str) -> tuple[int, str]:
    """Sort key: train, validation, validation_…, test, test_…"""
    return SPLITS.index(split.partition("_")[0]), split


def _by_our_names(
    tables: Mapping[str, Table],
    asked: Mapping[str, str] | None,
    known: Mapping[str, str],
    name: str,
) -> tuple[Tables, list[str]]:
    """Splits by our names, and those that were not asked for.

    `asked` is what the user wrote, so all of it must exist; `known` is the catalogue's.
    """
    for split, theirs in (asked or {}).items():
        if theirs not in tables:
            raise InputError(
                f"task '{name}': splits: {split} = '{theirs}': no such split, found "
                f"{', '.join(tables)}"
            )
    if asked and len(set(asked.values())) < len(asked):
        raise InputError(f"task '{name}': splits: one split cannot be used twice")
    splits = {**known, **(asked or {})}
    ours = {s: t for s, t in tables.items() if s in SPLITS and s not in splits.values()}
    ours |= {split: tables[theirs] for split, theirs in splits.items() if theirs in tables}
    if not ours:
        if len(tables) > 1:
            raise InputError(f"task '{name}': no split called 'train', found {', '.join(tables)}")
        return {"train": next(iter(tables.values()))}, []  # one split, whatever its name
    used = {split for split in tables if split in ours or split in splits.values()}
    return ours, [split for split in tables if split not in used]


def _shape_rows(table: Table, shape: str, name: str, notes: list[str]) -> Table:
    """Convert rows to the shape of the task's kind; leave out those that do not fit."""
    rows, kept = [], []
    for index, row in enumerate(table.rows):
        try:
            new = shaped(row, shape)
        except InputError as error:
            raise InputError(f"{table.where(index)}: task '{name}': {error}") from None
        if new is not None:
            rows.append(new)
            kept.append(index)
    if not rows:
        raise InputError(f"{table.source}: task '{name}': no row fits the shape '{shape}'")
    if len(rows) < len(table.rows):
        left = len(table.rows) - len(rows)
        notes.append(f"{name}: {left:,} rows of {table.source} do not fit the task, left out")
    return table.rows_of(kept, rows)


def _is_hidden(table: Table, column: str) -> bool:
    """Whether labels are withheld: the hub writes -1 (or nothing) for every label of such a set."""
    return all(row.get(column) in (-1, None, []) for row in table.rows)
