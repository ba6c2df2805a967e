"""Tables by source: every file, folder, hub dataset or object is read once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from brodmann.data.sources.finding import is_files
from brodmann.data.sources.hub import read_hub
from brodmann.data.sources.in_memory import tables_of
from brodmann.data.sources.readers import read_file, read_folder
from brodmann.data.sources.table import Table, Tables, joined
from brodmann.files import digest


class TableStore:
    """Tables read so far. Tasks over one file get the same table, so they divide it equally."""

    def __init__(self) -> None:
        self._tables: dict[str, Tables] = {}
        self._held: list[Any] = []

    def given(self, source: Any, name: str, encoding: str, wanted: tuple[str, ...]) -> Tables:
        """Rows that a description names: files, a folder of splits, or an object with rows."""
        if is_files(source):
            if len(source) == 1:
                return self.given(source[0], name, encoding, wanted)
            parts = [self._file(path, encoding) for path in source]
            key = " ".join(str(table.identity) for table in parts)
            return self._once(key, lambda: {"train": joined(parts)})
        if not isinstance(source, Path):
            self._held.append(source)  # so that no other object gets its id
            return self._once(f"memory {id(source)}", lambda: tables_of(source, name))
        if source.is_dir():
            key = f"{source.resolve()} {encoding} {wanted}"
            return self._once(key, lambda: read_folder(source, encoding, wanted))
        return {"train": self._file(source, encoding)}

    def _file(self, path: Path, encoding: str) -> Table:
        key = f"{path.resolve()} {encoding}"  # one file may be named relative to several folders
        return self._once(key, lambda: {"train": read_file(path, encoding)})["train"]

    def folder(self, folder: Path, wanted: tuple[str, ...]) -> Tables:
        """Splits of a named dataset in its folder."""
        return self._once(str(folder.resolve()), lambda: read_folder(folder, wanted=wanted))

    def hub(
        self, identifier: str, configuration: str | None, revision: str | None = None
    ) -> Tables:
        """Splits of a dataset of the hub."""
        key = digest([identifier, configuration, revision])
        return self._once(key, lambda: read_hub(identifier, configuration, revision))

    def _once(self, key: str, read: Callable[[], Tables]) -> Tables:
        if key not in self._tables:
            self._tables[key] = read()
            for split, table in self._tables[key].items():
                table.identity = (key, split)
        return dict(self._tables[key])
