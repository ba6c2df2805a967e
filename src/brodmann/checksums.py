"""Checksums of a folder's files: what is loaded again must be what was written.

`checksums.json` lies beside the files of a checkpoint or a model and has the SHA-256 of each.
"""

import hashlib
from collections.abc import Collection, Iterable
from pathlib import Path

from brodmann.errors import InputError
from brodmann.files import read_json, write_json

CHECKSUMS = "checksums.json"


def checksum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_checksums(folder: Path, *, but: Collection[str] = ()) -> None:
    """Write the SHA-256 of every file in the folder, except those that people may edit."""
    names = sorted(path.name for path in folder.iterdir() if path.name not in (CHECKSUMS, *but))
    write_json(folder / CHECKSUMS, {"files": {name: checksum(folder / name) for name in names}})


def damage_in(folder: Path, expected: Iterable[str]) -> tuple[str, str] | None:
    """The first file that is not as it was written, and what is wrong with it.

    `expected` must be among the files that have a checksum: a list that lost an entry is damaged.
    """
    try:
        sums = read_json(folder / CHECKSUMS).get("files")
    except InputError as error:
        return CHECKSUMS, str(error).removeprefix(f"{folder / CHECKSUMS}: ")
    if not isinstance(sums, dict):
        return CHECKSUMS, "has no table 'files'"
    for name in expected:
        if name not in sums:
            return CHECKSUMS, f"does not list {name}"
    for name, stored in sums.items():
        try:
            if checksum(folder / name) != stored:
                return name, "does not match its checksum"
        except (OSError, ValueError) as error:
            return name, "missing" if isinstance(error, FileNotFoundError) else str(error)
    return None
