"""Datasets of the catalogue, from their folder or from the hub."""

from collections.abc import Mapping
from pathlib import Path

from brodmann.data import catalogue
from brodmann.data.catalogue import Entry
from brodmann.data.sources.finding import InFolder, OnHub
from brodmann.data.sources.hub import hub_tables, offline_hint, only_rows
from brodmann.data.sources.readers import read_folder, split_files
from brodmann.data.sources.store import TableStore
from brodmann.data.sources.table import SPLITS, Table, Tables
from brodmann.errors import InputError

FEWER = "fewer rows than the official set"


def read_dataset(
    source: InFolder | OnHub, name: str, store: TableStore, notes: list[str]
) -> Tables:
    """Read a dataset of the catalogue, by its own split names."""
    if isinstance(source, InFolder):
        return _read_in_folder(source, name, store, notes)
    if source.missing is None:
        return _read_hub(source, store)
    missing = (
        f"task '{name}': {source.missing}: no such folder (set data_dir to the folder of datasets)"
    )
    if source.entry.hub is None:
        raise InputError(
            f"{missing}, and no copy on the hub is known: put <split>.jsonl.gz files into it"
        )
    try:
        return _read_hub(source, store)
    except InputError as error:
        raise InputError(f"{missing}, and {error}") from error


def _read_in_folder(source: InFolder, name: str, store: TableStore, notes: list[str]) -> Tables:
    entry, language, folder = source.entry, source.language, source.folder
    tables = store.folder(folder, wanted_splits(entry.splits))
    if "train" not in tables and entry.train_of and source.train_folder is not None:
        lender = catalogue.entries()[entry.train_of]
        found = store.folder(source.train_folder, wanted_splits(lender.splits))
        if "train" in found:
            tables["train"] = found["train"]
            notes.append(f"{name}: its training split is that of {entry.train_of}")
    if language != entry.languages[0] and entry.translated:
        if "train" in tables:
            notes.append(f"{name}: its training split was translated by machine")
        else:
            notes.append(
                f"{name}: {folder} has no training split: `brodmann tasks --fetch "
                f"{entry.named(language)} --out DIR` writes the machine-translated one; its other "
                "rows are translations of the other languages'"
            )
    return only_rows(tables, entry.only)


def _read_hub(source: OnHub, store: TableStore) -> Tables:
    with offline_hint():
        return hub_tables(source.entry, source.language, store.hub)


def wanted_splits(splits: Mapping[str, str]) -> tuple[str, ...]:
    """Splits to read from a folder, by our names or the dataset's."""
    return (*SPLITS, *splits.values())


def fewer_than_official(
    entry: Entry, language: str, tables: Mapping[str, Table], name: str
) -> list[str]:
    """A note on splits with fewer rows than the official ones; none if all are complete."""
    official = {**entry.sizes, "train": entry.train_size(language) or 0}
    fewer = [
        f"{split} {len(table.rows):,} of {official[split]:,}"
        for split, table in tables.items()
        if len(table.rows) < official.get(split, 0)
    ]
    return [f"{name}: {FEWER}: {', '.join(fewer)}"] if fewer else []


def raw_split(entry: Entry, split: str, base: Path) -> tuple[Entry, Table]:
    """One split unchanged, labelled or not, and the entry whose columns it has."""
    language = entry.languages[0]
    entry = catalogue.substitute(entry, language, base) or entry
    folder = entry.folder_in(base, language)
    if folder.is_dir():
        files = split_files(folder)
        if files and split not in files:
            raise InputError(f"{folder}: no split '{split}', found {', '.join(files)}")
        return entry, read_folder(folder, wanted=(split,))[split]
    try:
        with offline_hint():
            tables = hub_tables(entry, language)
    except InputError as error:
        raise InputError(
            f"{folder}: no such folder (set --data-dir to the folder of datasets), and {error}"
        ) from error
    if split not in tables:
        raise InputError(f"hub:{entry.hub}: no split '{split}', found {', '.join(tables)}")
    return entry, tables[split]
