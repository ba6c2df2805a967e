"""Read the rows of a task from their location, each with its file and line."""

from collections.abc import Mapping
from pathlib import Path

from brodmann.data.resolving import Request
from brodmann.data.sources.arranging import arrange, with_train
from brodmann.data.sources.finding import Generated, Given, Source
from brodmann.data.sources.generated import generate
from brodmann.data.sources.hub import offline_hint, only_rows
from brodmann.data.sources.in_memory import is_divided
from brodmann.data.sources.named import fewer_than_official, read_dataset, wanted_splits
from brodmann.data.sources.store import TableStore
from brodmann.data.sources.table import Tables
from brodmann.data.sources.unions import unite
from brodmann.errors import InputError


def read(
    sources: Mapping[str, Source], request: Request, store: TableStore
) -> tuple[Tables, list[str]]:
    """The task's labelled splits, and notes for the user."""
    notes: list[str] = []
    if len(sources) > 1:
        parts = {
            language: _read_one(source, request, f"{request.name} ({language})", store, notes)
            for language, source in sources.items()
        }
        return unite(parts, request.name, notes), notes
    source = next(iter(sources.values()))
    return _read_one(source, request, request.name, store, notes, alone=True), notes


def _read_one(
    source: Source,
    request: Request,
    name: str,
    store: TableStore,
    notes: list[str],
    *,
    alone: bool = False,
) -> Tables:
    """Read one language by our split names; one that is not `alone` may lack a training split."""
    if isinstance(source, Generated):
        return generate(source.entry.name, source.language, source.limit, source.seed)
    tables = (
        _read_given(source, request, store)
        if isinstance(source, Given)
        else read_dataset(source, name, store, notes)
    )
    known = {} if source.entry is None else source.entry.splits
    tables, unused = arrange(tables, request, name, known, notes)
    if alone:
        tables = with_train(tables, unused, name, notes)
    notes += [f"{name}: {note}" for table in tables.values() for note in table.notes]
    if not isinstance(source, Given):
        notes += fewer_than_official(source.entry, source.language, tables, name)
    return tables


def _read_given(source: Given, request: Request, store: TableStore) -> Tables:
    """Read the sources that the description names; of a named dataset, only its own rows."""
    if "hub" in source.places:
        with offline_hint():
            return store.hub(*source.places["hub"])
    encoding = request.description.encoding
    tables: Tables = {}
    for key, place in source.places.items():
        if key == "data":
            wanted = wanted_splits(request.description.splits or {})
            tables = store.given(place, request.name, encoding, wanted)
            continue
        found = store.given(place, f"{request.name}.{key}", encoding, ())
        if len(found) > 1 and len(source.places) == 1 and is_divided(place):
            return found  # a DatasetDict, which divides itself
        if len(found) > 1:
            shown = place if isinstance(place, Path) else f"{request.name}.{key}"
            raise InputError(
                f"{shown}: contains several splits ({', '.join(found)}): set the "
                f"{'folder' if isinstance(place, Path) else 'whole'} as 'data', or one of its "
                f"{'files' if isinstance(place, Path) else 'splits'} as '{key}'"
            )
        tables[key] = next(iter(found.values()))
    return tables if source.entry is None else only_rows(tables, source.entry.only)
