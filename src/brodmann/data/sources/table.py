"""Rows that know their position; tables from objects in memory."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from brodmann.errors import InputError

Split = Literal["train", "validation", "test"]
SPLITS: tuple[str, ...] = get_args(Split)


@dataclass
class Table:
    """The rows of one split; `lines[i]` is the position of row i in `source`."""

    source: str
    rows: list[dict[str, Any]]
    lines: Sequence[Any]  # numbers; for rows from several files, whole descriptions
    counted: str = "row"  # what `lines` counts: "line" of a text file, "row" elsewhere
    label_names: dict[str, list[str]] = field(default_factory=dict)  # as the dataset states them
    root: "Table | None" = None  # the original table, if this is a part or another form of it
    # Identity of the data: equal for a table and its parts, and if the same file is read again.
    identity: object = field(default_factory=object, compare=False, repr=False)

    def where(self, index: int) -> str:
        if not self.counted:
            return str(self.lines[index])
        return f"{self.source} {self.counted} {self.lines[index]}"

    def rows_of(self, kept: Sequence[int], rows: "list[dict[str, Any]] | None" = None) -> "Table":
        """Some of the rows, or a new form of them, which keep their positions."""
        return replace(
            self,
            rows=[self.rows[i] for i in kept] if rows is None else rows,
            lines=[self.lines[i] for i in kept],
            root=self.root or self,
        )

    def columns(self) -> list[str]:
        return list(dict.fromkeys(key for row in self.rows for key in row))


Tables = dict[str, Table]  # by split


def from_memory(source: Any, name: str) -> Table:
    if is_frame(source):
        records = source.to_dict("records")
    elif isinstance(source, Mapping):
        for key, values in source.items():
            if not hasattr(values, "__len__") or isinstance(values, str):
                raise InputError(f"{name}: column '{key}': expected a list, found {values!r:.60}")
        lengths = {key: len(values) for key, values in source.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"{name}: columns of different length: {lengths}")
        keys = list(source)
        records = [
            dict(zip(keys, values, strict=True)) for values in zip(*source.values(), strict=True)
        ]
    elif isinstance(source, Sequence):
        records = list(source)
        for index, record in enumerate(records):
            if not isinstance(record, Mapping):
                raise InputError(
                    f"{name} row {index + 1}: expected a dict of columns, "
                    f"found {type(record).__name__}"
                    + (" (one file per split)" if isinstance(record, str) else "")
                )
    else:
        raise InputError(
            f"{name}: expected a path, a list of dicts, a dict of lists or a DataFrame, "
            f"found {type(source).__name__}"
        )
    if not records:
        raise InputError(f"{name}: is empty, expected at least one example")
    rows = [{str(k): plain(v) for k, v in record.items()} for record in records]
    return Table(name, rows, range(1, len(rows) + 1))


def from_datasets(loaded: Any, source: str) -> Tables:
    import datasets

    if isinstance(loaded, datasets.Dataset):
        loaded = {"train": loaded}
    tables = {}
    for split, dataset in loaded.items():
        names = {}
        for column, feature in dataset.features.items():
            inner = getattr(feature, "feature", feature)  # a list of class labels (token tags)
            if isinstance(inner, datasets.ClassLabel):
                names[column] = list(inner.names)
        rows = dataset.to_list()
        if not rows:
            continue  # hub sets often have an empty or unlabelled split; the others suffice
        tables[str(split)] = Table(f"{source}/{split}", rows, range(1, len(rows) + 1), "row", names)
    if not tables:
        raise InputError(f"{source}: every split is empty")
    return tables


def is_frame(source: Any) -> bool:
    """Whether it is a pandas DataFrame, without importing pandas."""
    return hasattr(source, "to_dict") and hasattr(source, "columns")


def plain(value: Any) -> Any:
    """Convert numpy scalars and arrays to Python's; NaN, NaT and NA are missing, not 'nan'."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float) and math.isnan(value):
        return None
    return None if type(value).__name__ in ("NaTType", "NAType") else value
