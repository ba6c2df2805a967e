"""Where a task's rows are: generated, in files, in a folder of datasets, or on the hub.

What comes out are tables by our own split names, in the shape that the task's kind reads.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from brodmann.data import catalogue
from brodmann.data.catalogue import Entry
from brodmann.data.description import TaskDescription
from brodmann.data.kinds import KINDS
from brodmann.data.sources.dataset_shapes import shaped
from brodmann.data.sources.hub import hub_tables, only_rows, read_hub
from brodmann.data.sources.readers import (
    SPLITS,
    Table,
    from_memory,
    read_file,
    read_folder,
    split_files,
)
from brodmann.errors import InputError
from brodmann.files import digest

Tables = dict[str, Table]
HUB_KEYS = ("hub", "hub_config", "hub_revision")

FEWER = "fewer rows than the official set"


@dataclass
class Loading:
    """What the tasks of one call share: the same file read once and divided once."""

    base: Path
    seed: int
    tables: dict[str, Tables] = field(default_factory=dict)
    # Validation rows by the table's identity, with the table, which must live as long, and share.
    held_out: dict[int, tuple[Table, float, set[Any]]] = field(default_factory=dict)
    files: tuple[Path, ...] = ()  # task files that led here, one by the pair_of of another


def has_files(description: TaskDescription) -> bool:
    """Whether the description says itself which files hold the rows."""
    return any(getattr(description, key) is not None for key in ("data", *SPLITS))


def tables_of(
    description: TaskDescription, name: str, loading: Loading
) -> tuple[Tables, list[str]]:
    """The task's labelled splits, and what the reader should be told about them."""
    notes: list[str] = []
    if description.use is None:
        tables = _given_tables(description, name, loading)
        return _finished(tables, description, {}, name, notes)
    entry, languages = catalogue.find(description.use)
    if len(languages) > 1:
        return _union(description, entry, languages, name, loading)
    return _named(description, entry, languages[0], name, loading, notes)


def _named(
    description: TaskDescription,
    entry: Entry,
    language: str,
    name: str,
    loading: Loading,
    notes: list[str],
    *,
    whole: bool = True,
) -> tuple[Tables, list[str]]:
    """A task of the catalogue in one language; not `whole` may lack a training split."""
    if has_files(description):  # the named dataset's form, from elsewhere
        tables = only_rows(_given_tables(description, name, loading), entry.only)
    elif entry.generated:
        limit = description.limit
        return catalogue.generate(entry.name, language, limit, loading.seed), notes
    elif any(getattr(description, key) is not None for key in HUB_KEYS):
        given = {k: getattr(description, k) for k in HUB_KEYS if getattr(description, k)}
        tables = _from_hub(replace(entry, **given), language, loading)
    else:
        tables = named_tables(entry, language, loading, notes, name)
    tables, notes = _finished(tables, description, entry.splits, name, notes, whole=whole)
    if not has_files(description):
        notes += _fewer_than_official(entry, language, tables, name)
    return tables, notes


def _finished(
    tables: Tables,
    description: TaskDescription,
    splits: Mapping[str, str],
    name: str,
    notes: list[str],
    *,
    whole: bool = True,
) -> tuple[Tables, list[str]]:
    """Splits by our names and in the kind's shape, without those whose labels are kept back."""
    tables, unused = _by_our_names(tables, description.splits, splits, name)
    if description.shape is not None:
        tables = {s: _shaped(t, description.shape, name, notes) for s, t in tables.items()}
    hidden = [s for s, table in tables.items() if s != "train" and _hidden(table, description)]
    if hidden or unused:
        reasons = [f"{split} (labels not public)" for split in hidden] + unused
        notes.append(f"{name}: splits not used: {', '.join(reasons)}")
    tables = {s: tables[s] for s in sorted(tables, key=_order) if s not in hidden}
    if whole:
        tables = _with_train(tables, name, notes, [*tables, *hidden, *unused])
    return tables, notes


def _with_train(tables: Tables, name: str, notes: list[str], found: list[str]) -> Tables:
    """Evaluation data alone is divided: its validation split, or the only one there is."""
    if "train" in tables:
        return tables
    if len(tables) == 1 or "validation" in tables:
        source = "validation" if "validation" in tables else next(iter(tables))
        notes.append(f"{name}: no training split: {source} is divided into training and validation")
        return {"train": tables[source], **{s: t for s, t in tables.items() if s != source}}
    raise InputError(f"task '{name}': no split called 'train', found {', '.join(found)}")


def _order(split: str) -> tuple[int, str]:
    """train, validation, validation_…, test, test_…"""
    return SPLITS.index(split.partition("_")[0]), split


def _union(
    description: TaskDescription,
    entry: Entry,
    languages: tuple[str, ...],
    name: str,
    loading: Loading,
) -> tuple[Tables, list[str]]:
    """Several languages as one task, each also judged by itself (`validation_es`).

    Rows with the same number may be translations of each other, so evaluation data of one language
    is never trained on while another has training data; where none has, the same rows are held out.
    """
    if has_files(description) or any(getattr(description, key) for key in HUB_KEYS):
        raise InputError(f"task '{name}': a union of languages takes no 'data', 'train' or 'hub'")
    notes: list[str] = []
    parts: dict[str, Tables] = {}
    for language in languages:
        named = f"{name} ({language})"
        parts[language], notes = _named(
            description, entry, language, named, loading, notes, whole=False
        )
    merged: Tables = {}
    for split in sorted({s for tables in parts.values() for s in tables}, key=_order):
        having = {code: tables[split] for code, tables in parts.items() if split in tables}
        merged[split] = _joined(having)
        if split != "train":
            merged |= {f"{split}_{code}": _joined({code: t}) for code, t in having.items()}
        elif len(having) < len(languages):
            without = ", ".join(code for code in languages if code not in having)
            notes.append(f"{name}: no training split in {without}: only judged there")
    if "train" not in merged:
        source = "validation" if "validation" in merged else next(iter(merged))
        notes.append(f"{name}: no training split: {source} is divided into training and validation")
        parallel = [{**row, "parallel": number} for number, row in _numbered(parts, source)]
        kept = {s: t for s, t in merged.items() if not s.startswith(source)}
        merged = {"train": replace(merged[source], rows=parallel), **kept}
    return merged, notes


def _numbered(parts: Mapping[str, Tables], split: str) -> list[tuple[int, dict[str, Any]]]:
    """Rows of every language with their number in it, in the order of `_joined`."""
    return [
        (number, {**row, "language": code})
        for code, tables in parts.items()
        if split in tables
        for number, row in enumerate(tables[split].rows)
    ]


def _joined(tables: Mapping[str, Table]) -> Table:
    """Tables of several languages one after the other; every row knows its own place."""
    rows = [{**row, "language": code} for code, table in tables.items() for row in table.rows]
    places = [table.where(i) for table in tables.values() for i in range(len(table.rows))]
    names = next(iter(tables.values())).label_names
    source = " and ".join(table.source for table in tables.values())
    return Table(source, rows, places, "", names)


def _given_tables(description: TaskDescription, name: str, loading: Loading) -> Tables:
    encoding = description.encoding
    if description.hub:
        where = (description.hub, description.hub_config, description.hub_revision)
        return _once(loading, digest(list(where)), lambda: _explained(lambda: read_hub(*where)))
    wanted = _wanted(description.splits or {})
    if description.data is not None:
        return _read_once(description.data, name, encoding, loading, wanted)
    tables = {}
    for split in SPLITS:
        source = getattr(description, split)
        if source is not None:
            read = _read_once(source, f"{name}.{split}", encoding, loading, ())
            if len(read) > 1:
                raise InputError(
                    f"{loading.base / source}: holds several splits ({', '.join(read)}): "
                    f"give the folder as 'data', or one of its files as '{split}'"
                )
            tables[split] = next(iter(read.values()))
    return tables


def _wanted(splits: Mapping[str, str]) -> tuple[str, ...]:
    return (*SPLITS, *splits.values())


def _explained(read: Any) -> Tables:
    try:
        tables: Tables = read()
    except InputError as error:
        raise InputError(
            f"{error}; to work offline, write it once where the hub is in reach with `brodmann "
            "tasks --fetch NAME --to DIR`, or with datasets' save_to_disk, and give the folder"
        ) from error
    return tables


def _read_once(
    source: Any, name: str, encoding: str, loading: Loading, wanted: tuple[str, ...]
) -> Tables:
    if not isinstance(source, str | Path):
        key = f"memory {id(source)}"
        return _once(loading, key, lambda: {"train": from_memory(source, name)})
    path = loading.base / source
    if path.is_dir():
        key = f"{path} {encoding} {wanted}"
        return _once(loading, key, lambda: read_folder(path, encoding, wanted))
    return _once(loading, f"{path} {encoding}", lambda: {"train": read_file(path, encoding)})


def _once(loading: Loading, key: str, read: Any) -> Tables:
    if key not in loading.tables:
        loading.tables[key] = read()
    return loading.tables[key]


def folder_of(entry: Entry, language: str, loading: Loading) -> Path:
    return loading.base / entry.folder.format(language=language)


def substitute(entry: Entry, language: str, loading: Loading) -> Entry | None:
    """The entry whose folder is read in the place of this one's, where that is missing."""
    if entry.instead is None or folder_of(entry, language, loading).is_dir():
        return None
    other = catalogue.entries()[entry.instead]
    return other if folder_of(other, language, loading).is_dir() else None


def named_tables(
    entry: Entry, language: str, loading: Loading, notes: list[str], name: str
) -> Tables:
    """A dataset of the catalogue by its own split names: from the folder, or from the hub."""
    folder = folder_of(entry, language, loading)
    if not folder.is_dir():
        missing = f"task '{name}': {folder}: no such folder (data_dir says where to look)"
        if entry.hub is None:
            raise InputError(
                f"{missing}, and no copy on the hub is known: put <split>.jsonl.gz files there"
            )
        try:
            return _from_hub(entry, language, loading)
        except InputError as error:
            raise InputError(f"{missing}, and {error}") from error
    tables = dict(_from_folder(entry, folder, loading))
    if "train" not in tables and language == entry.languages[0] and entry.train_of:
        other = catalogue.entries()[entry.train_of]
        place = folder_of(other, language, loading)
        found = _from_folder(other, place, loading) if place.is_dir() else {}
        if "train" in found:
            tables["train"] = found["train"]
            notes.append(f"{name}: its training split is that of {entry.train_of}")
    if language != entry.languages[0] and entry.translated:
        if "train" in tables:
            notes.append(f"{name}: its training split was translated by machine")
        else:
            notes.append(
                f"{name}: {folder} has no training split: `brodmann tasks --fetch "
                f"{entry.named(language)} --to DIR` writes the machine-translated one; its other "
                "rows are translations of the other languages'"
            )
    return only_rows(tables, entry.only)


def _from_folder(entry: Entry, folder: Path, loading: Loading) -> Tables:
    wanted = _wanted(entry.splits)
    return _once(loading, str(folder), lambda: read_folder(folder, wanted=wanted))


def _from_hub(entry: Entry, language: str, loading: Loading) -> Tables:
    def remembered(*where: Any) -> Tables:
        return dict(_once(loading, digest(list(where)), lambda: read_hub(*where)))

    return _explained(lambda: hub_tables(entry, language, remembered))


def _fewer_than_official(
    entry: Entry, language: str, tables: Mapping[str, Table], name: str
) -> list[str]:
    official = {**entry.sizes, "train": entry.train_size(language) or 0}
    fewer = [
        f"{split} {len(table.rows):,} of {official[split]:,}"
        for split, table in tables.items()
        if len(table.rows) < official.get(split, 0)
    ]
    return [f"{name}: {FEWER}: {', '.join(fewer)}"] if fewer else []


def raw_split(entry: Entry, split: str, loading: Loading) -> tuple[Entry, Table]:
    """One split as it is, unlabelled or not, and the entry whose columns it has."""
    language = entry.languages[0]
    entry = substitute(entry, language, loading) or entry
    folder = folder_of(entry, language, loading)
    if folder.is_dir():
        files = split_files(folder)
        if files and split not in files:
            raise InputError(f"{folder}: no split '{split}', found {', '.join(files)}")
        return entry, read_folder(folder, wanted=(split,))[split]
    try:
        tables = _explained(lambda: hub_tables(entry, language))
    except InputError as error:
        raise InputError(
            f"{folder}: no such folder (--data-dir says where to look), and {error}"
        ) from error
    if split not in tables:
        raise InputError(f"hub:{entry.hub}: no split '{split}', found {', '.join(tables)}")
    return entry, tables[split]


def _by_our_names(
    tables: Mapping[str, Table],
    asked: Mapping[str, str] | None,
    known: Mapping[str, str],
    name: str,
) -> tuple[Tables, list[str]]:
    """Splits under our names, and those that nobody asked for.

    `asked` is what the user wrote, so all of it must be there; `known` is the catalogue's.
    """
    for split, theirs in (asked or {}).items():
        if theirs not in tables:
            raise InputError(
                f"task '{name}': splits: {split} = '{theirs}': no such split, found "
                f"{', '.join(tables)}"
            )
    if asked and len(set(asked.values())) < len(asked):
        raise InputError(f"task '{name}': splits: one split cannot be two of ours")
    splits = {**known, **(asked or {})}
    ours = {s: t for s, t in tables.items() if s in SPLITS and s not in splits.values()}
    ours |= {split: tables[theirs] for split, theirs in splits.items() if theirs in tables}
    if not ours:
        if len(tables) > 1:
            raise InputError(f"task '{name}': no split called 'train', found {', '.join(tables)}")
        return {"train": next(iter(tables.values()))}, []  # one split, whatever it is called
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
    return table.rows_of(kept, rows)


def _hidden(table: Table, description: TaskDescription) -> bool:
    """The hub writes -1 (or nothing) for every label of a test set whose labels are kept back."""
    target = KINDS[str(description.kind)].TARGETS[0]
    column = getattr(description, target) or target
    return all(row.get(column) in (-1, None, []) for row in table.rows)
