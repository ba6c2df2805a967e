"""Where a task's rows are: generated, in files, in a folder of datasets, or on the hub.

What comes out are tables by our own split names, in the shape that the task's kind reads.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from brodmann.artifacts import digest
from brodmann.data import catalogue
from brodmann.data.catalogue import Entry
from brodmann.data.description import TaskDescription
from brodmann.data.hub import read_hub
from brodmann.data.readers import SPLITS, Table, from_memory, read_file, read_folder
from brodmann.data.shapes import shaped
from brodmann.errors import InputError


@dataclass
class Loading:
    """What the tasks of one call share: the same file read once and divided once."""

    base: Path
    seed: int
    tables: dict[str, dict[str, Table]] = field(default_factory=dict)
    held_out: dict[int, set[int]] = field(default_factory=dict)  # validation rows, by table


def is_given(description: TaskDescription) -> bool:
    """Whether the description says itself where the rows are."""
    return any(getattr(description, key) is not None for key in ("data", "hub", *SPLITS))


def tables_of(
    description: TaskDescription, name: str, loading: Loading
) -> tuple[dict[str, Table], list[str]]:
    """The task's labelled splits, and what the reader should be told about them."""
    notes: list[str] = []
    splits = description.splits or {}
    if description.use is None:
        tables = _given_tables(description, name, loading)
    else:
        entry, (language, *_) = catalogue.find(description.use)
        splits = splits or entry.splits
        if is_given(description):  # the named dataset's form, from elsewhere
            tables = _only(_given_tables(description, name, loading), entry.only)
        elif entry.generated:
            tables = catalogue.generate(entry.name, language, description.limit, loading.seed)
            return tables, notes
        else:
            tables = named_tables(entry, language, loading, notes, name)
    tables, unused = _by_our_names(tables, splits, name)
    if description.shape is not None:
        tables = {s: _shaped(t, description.shape, name, notes) for s, t in tables.items()}
    if len(tables) == 1 and "train" not in tables:
        only = next(iter(tables))
        notes.append(f"{name}: only a {only} split: it is divided into training and validation")
        tables = {"train": tables[only]}
    if "train" not in tables:
        found = ", ".join([*tables, *unused])
        raise InputError(f"task '{name}': no split called 'train', found {found}")
    hidden = [s for s, table in tables.items() if s != "train" and _hidden(table, description)]
    if hidden or unused:
        reasons = [f"{split} (labels not public)" for split in hidden] + unused
        notes.append(f"{name}: splits not used: {', '.join(reasons)}")
    return {s: tables[s] for s in sorted(tables, key=_order) if s not in hidden}, notes


def _order(split: str) -> tuple[int, str]:
    """train, validation, validation_…, test, test_…"""
    return SPLITS.index(split.partition("_")[0]), split


def _given_tables(description: TaskDescription, name: str, loading: Loading) -> dict[str, Table]:
    encoding = description.encoding
    if description.hub:
        where = (description.hub, description.hub_config, description.hub_revision)
        return _once(loading, digest(list(where)), lambda: read_hub(*where))
    if description.data is not None:
        return _read_once(description.data, name, encoding, loading)
    tables = {}
    for split in SPLITS:
        source = getattr(description, split)
        if source is not None:
            read = _read_once(source, f"{name}.{split}", encoding, loading)
            if len(read) > 1:
                raise InputError(
                    f"{loading.base / source}: holds several splits ({', '.join(read)}): "
                    f"give the folder as 'data', or one of its files as '{split}'"
                )
            tables[split] = next(iter(read.values()))
    return tables


def _read_once(source: Any, name: str, encoding: str, loading: Loading) -> dict[str, Table]:
    if not isinstance(source, str | Path):
        key = f"memory {id(source)}"
        return _once(loading, key, lambda: {"train": from_memory(source, name)})
    path = loading.base / source
    if path.is_dir():
        return _once(loading, f"{path} {encoding}", lambda: read_folder(path, encoding))
    return _once(loading, f"{path} {encoding}", lambda: {"train": read_file(path, encoding)})


def _once(loading: Loading, key: str, read: Any) -> dict[str, Table]:
    if key not in loading.tables:
        loading.tables[key] = read()
    return loading.tables[key]


def folder_of(entry: Entry, language: str, loading: Loading) -> Path:
    return loading.base / entry.folder.format(language=language)


def substitute(entry: Entry, language: str, loading: Loading) -> Entry | None:
    """The entry whose folder holds the same rows, where this one's own is missing."""
    if entry.instead is None or folder_of(entry, language, loading).is_dir():
        return None
    other = catalogue.entries()[entry.instead]
    return other if folder_of(other, language, loading).is_dir() else None


def named_tables(
    entry: Entry, language: str, loading: Loading, notes: list[str], name: str
) -> dict[str, Table]:
    """A dataset of the catalogue by its own split names: from the folder, or from the hub."""
    folder = folder_of(entry, language, loading)
    if folder.is_dir():
        tables = dict(_once(loading, str(folder), lambda: read_folder(folder)))
        if "train" not in tables and language == entry.languages[0] and entry.train_of:
            other = folder_of(catalogue.entries()[entry.train_of], language, loading)
            if (other / "train.jsonl.gz").is_file():
                tables |= {"train": _once(loading, str(other), lambda: read_folder(other))["train"]}
                notes.append(f"{name}: its training split is that of {entry.train_of}")
        if "train" not in tables and entry.translated and language != entry.languages[0]:
            notes.append(
                f"{name}: {folder} has no training split: `brodmann tasks --fetch "
                f"{entry.named(language)} --to DIR` writes the machine-translated one"
            )
        official, found = entry.train_size(language), len(tables.get("train", _NOTHING).rows)
        if official is not None and 0 < found < official:
            notes.append(f"{name}: {found:,} of the {official:,} official training rows are there")
    else:
        if entry.hub is None:
            raise InputError(
                f"task '{name}': {folder}: no such folder, and no copy on the hub is known: "
                "put <split>.jsonl.gz files there, or set 'data_dir'"
            )
        key = f"hub of {entry.named(language)}"
        try:
            tables = dict(_once(loading, key, lambda: hub_tables(entry, language)))
        except InputError as error:
            raise InputError(f"task '{name}': {folder}: no such folder, and {error}") from error
    if "train" in tables and entry.translated and language != entry.languages[0]:
        notes.append(f"{name}: its training split was translated by machine")
    return _only(tables, entry.only)


def raw_split(entry: Entry, split: str, loading: Loading) -> tuple[Entry, Table]:
    """One split as it is, unlabelled or not, and the entry whose columns it has."""
    language = entry.languages[0]
    entry = substitute(entry, language, loading) or entry
    folder = folder_of(entry, language, loading)
    if folder.is_dir():
        tables, place = _once(loading, str(folder), lambda: read_folder(folder)), str(folder)
    else:
        try:
            tables, place = hub_tables(entry, language), f"hub:{entry.hub}"
        except InputError as error:
            raise InputError(f"{folder}: no such folder, and {error}") from error
    if split not in tables:
        raise InputError(f"{place}: no split '{split}', found {', '.join(tables)}")
    return entry, tables[split]


_NOTHING = Table("", [], [])


def hub_tables(entry: Entry, language: str) -> dict[str, Table]:
    """The dataset's splits on the hub, with the training split of `train_of` or `translated`."""
    assert entry.hub is not None
    config = entry.hub_config and entry.hub_config.format(language=language)
    tables = read_hub(entry.hub, config, entry.hub_revision)
    if "train" in tables:
        return _only(tables, entry.only)
    if language == entry.languages[0]:
        if entry.train_of is not None:
            other = catalogue.entries()[entry.train_of]
            assert other.hub is not None
            tables |= {"train": read_hub(other.hub, other.hub_config, other.hub_revision)["train"]}
    elif entry.translated is not None:
        there = entry.translated
        config = there["hub_config"].format(language=language)
        read = read_hub(there["hub"], config, there.get("hub_revision"))
        tables |= {"train": read[there["split"]]}
    return tables


def _only(tables: Mapping[str, Table], values: Mapping[str, str]) -> dict[str, Table]:
    """Rows with these values, and the splits that have some; all where the column is missing."""
    kept = dict(tables)
    for column, value in values.items():
        for split, table in tables.items():
            if any(column in row for row in table.rows):
                rows = [i for i, row in enumerate(table.rows) if row.get(column) == value]
                kept[split] = _rows_of(kept[split], rows)
        if not any(table.rows for table in kept.values()):
            sources = ", ".join(table.source for table in tables.values())
            raise InputError(f"{sources}: no row has the {column} '{value}'")
    return {split: table for split, table in kept.items() if table.rows}


def _rows_of(table: Table, kept: list[int]) -> Table:
    rows, lines = [table.rows[i] for i in kept], [table.lines[i] for i in kept]
    return replace(table, rows=rows, lines=lines)


def _by_our_names(
    tables: Mapping[str, Table], splits: Mapping[str, str], name: str
) -> tuple[dict[str, Table], list[str]]:
    """Splits under our names, and those that nobody asked for."""
    ours = {split: table for split, table in tables.items() if split in SPLITS}
    for split, theirs in splits.items():
        if theirs in tables:
            ours[split] = tables[theirs]
    if not ours and len(tables) > 1:
        raise InputError(f"task '{name}': no split called 'train', found {', '.join(tables)}")
    if not ours:  # one split, whatever it is called
        ours = {"train": next(iter(tables.values()))}
        return ours, []
    used = {split for split in tables if split in ours or split in splits.values()}
    return ours, [split for split in tables if split not in used]


def _shaped(table: Table, shape: str, name: str, notes: list[str]) -> Table:
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
    return replace(_rows_of(table, kept), rows=rows)


def _hidden(table: Table, description: TaskDescription) -> bool:
    """The hub writes -1 (or nothing) for every label of a test set whose labels are kept back."""
    column = description.label or "label"
    return all(row.get(column) in (-1, []) for row in table.rows)
