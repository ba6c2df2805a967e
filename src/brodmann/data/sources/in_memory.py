"""Tables from objects in memory: datasets, frames, lists, dicts and generators.

Rows are built once, from columns where the object has columns, and never share anything with the
user's object that a run might change. `datasets`, pandas and polars are recognised without being
imported.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from brodmann.data.sources.table import Table, Tables, plain
from brodmann.errors import InputError

EXPECTED = (
    "expected a path, a Dataset, a DataFrame, a list of dicts, a dict of lists or a generator of "
    "dicts"
)


def tables_of(source: Any, name: str) -> Tables:
    """The splits of a DatasetDict or of a dict of tables; anything else is one split."""
    if is_divided(source):
        if all(is_dataset(part) for part in source.values()):
            return from_datasets(source, name)
        return {str(key): from_memory(part, f"{name}/{key}") for key, part in source.items()}
    return {"train": from_memory(source, name)}


def is_divided(source: Any) -> bool:
    """Whether it is a DatasetDict, or a dict that holds one table per split."""
    if not isinstance(source, Mapping) or not source:
        return False
    return all(
        is_frame(part)
        or is_dataset(part)
        or (isinstance(part, list) and bool(part) and isinstance(part[0], Mapping))
        for part in source.values()
    )


def from_memory(source: Any, name: str) -> Table:
    """The rows of one object; `name` stands for it in messages."""
    if is_dataset(source):
        return _of_dataset(source, name)
    if is_frame(source):
        rows = _of_columns(_frame_columns(source, name))
    elif isinstance(source, Mapping):
        rows = _of_columns(_checked_columns(source, name))
    elif isinstance(source, Iterable) and not isinstance(source, str | bytes):
        rows = _of_records(source, name)
    else:
        call = ": call it, to give what it returns" if callable(source) else ""
        raise InputError(f"{name}: {EXPECTED}, found {type(source).__name__}{call}")
    if not rows:
        spent = isinstance(source, Iterable) and not hasattr(source, "__len__")
        once = " (a generator gives its rows only once: make a new one, or a list)" if spent else ""
        raise InputError(f"{name}: is empty, expected at least one example{once}")
    return Table(name, rows, range(1, len(rows) + 1))


def from_datasets(loaded: Any, source: str) -> Tables:
    """The splits of what `datasets` loaded; empty ones are left out."""
    import datasets

    if isinstance(loaded, datasets.Dataset):
        loaded = {"train": loaded}
    # Hub sets often have an empty or unlabelled split; the others suffice.
    tables = {
        str(split): _of_dataset(dataset, f"{source}/{split}")
        for split, dataset in loaded.items()
        if getattr(dataset, "num_rows", None) != 0  # a stream does not know
    }
    if not tables:
        raise InputError(f"{source}: every split is empty")
    return tables


def is_dataset(source: Any) -> bool:
    """Whether it is one split of `datasets`, read as a whole or as a stream."""
    datasets = sys.modules.get("datasets")  # without it, nothing can be one of its objects
    return datasets is not None and isinstance(source, datasets.Dataset | datasets.IterableDataset)


def is_frame(source: Any) -> bool:
    """Whether it is a DataFrame of pandas or polars (or a LazyFrame)."""
    return is_polars(source) or (hasattr(source, "to_dict") and hasattr(source, "columns"))


def is_polars(source: Any) -> bool:
    return type(source).__module__.startswith("polars.") and hasattr(source, "collect_schema")


def column_names(table: Any) -> list[str]:
    """The columns of a frame or Dataset."""
    if is_polars(table):
        return list(table.collect_schema().names())
    return [str(name) for name in getattr(table, "column_names", None) or table.columns]


def collected(table: Any) -> Any:
    """A LazyFrame as the frame that it stands for; anything else unchanged."""
    return table.collect() if is_polars(table) and hasattr(table, "collect") else table


def _of_dataset(dataset: Any, source: str) -> Table:
    import datasets

    names = {}
    for column, feature in (dataset.features or {}).items():
        inner = getattr(feature, "feature", feature)  # a list of class labels (token tags)
        if isinstance(inner, datasets.ClassLabel):
            names[column] = list(inner.names)
    rows = dataset.to_list() if isinstance(dataset, datasets.Dataset) else list(dataset)
    if not rows:
        raise InputError(f"{source}: is empty, expected at least one example")
    return Table(source, rows, range(1, len(rows) + 1), label_names=names)


def _frame_columns(frame: Any, name: str) -> dict[str, Sequence[Any]]:
    if is_polars(frame):
        frame = collected(frame)
        return {str(column): frame[column].to_list() for column in frame.columns}
    names = [str(column) for column in frame.columns]
    twice = next((column for column, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise InputError(f"{name}: two columns are called '{twice}': rename one of them")
    return {column: frame.iloc[:, place].tolist() for place, column in enumerate(names)}


def _checked_columns(source: Mapping[Any, Any], name: str) -> dict[str, Sequence[Any]]:
    for key, values in source.items():
        if not hasattr(values, "__len__") or isinstance(values, str):
            raise InputError(f"{name}: column '{key}': expected a list, found {values!r:.60}")
    lengths = {key: len(values) for key, values in source.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"{name}: columns of different length: {lengths}")
    return {str(key): values for key, values in source.items()}


def _of_columns(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Rows from columns, without an intermediate copy of any."""
    cells = zip(*(map(plain, values) for values in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in cells]


def _of_records(source: Iterable[Any], name: str) -> list[dict[str, Any]]:
    rows = []
    for number, record in enumerate(source, start=1):
        if not isinstance(record, Mapping):
            raise InputError(
                f"{name} row {number}: expected a dict of columns, found {type(record).__name__}"
                + (": give paths alone, or rows alone" if isinstance(record, str) else "")
            )
        rows.append({str(key): plain(value) for key, value in record.items()})
    return rows
