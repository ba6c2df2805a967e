"""Tables by source: every file, folder, hub dataset or object is read once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from brodmann.data.sources.hub import read_hub
from brodmann.data.sources.readers import read_file, read_folder
from brodmann.data.sources.table import Tables, from_memory
from brodmann.files import digest


class TableStore:
    """Tables read so far. Tasks over one file get the same table, so they divide it equally."""

    def __init__(self) -> None:
        self._tables: dict[str, Tables] = {}

    def given(self, source: Any, name: str, encoding: str, wanted: tuple[str, ...]) -> Tables:
        """Rows that a description names: a path (of a file or a folder of splits), or the rows."""
        if not isinstance(source, Path):
            key = f"memory {id(source)}"
            return self._once(key, lambda: {"train": from_memory(source, name)})
        whole = source.resolve()  # one file may be named relative to several folders
        if source.is_dir():
            key = f"{whole} {encoding} {wanted}"
            return self._once(key, lambda: read_folder(source, encoding, wanted))
        return self._once(f"{whole} {encoding}", lambda: {"train": read_file(source, encoding)})

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
