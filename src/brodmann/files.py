"""Write files completely or not at all, one writer at a time, with checksums.

Every package may import this module; it imports none of them and does not load torch.
"""

import contextlib
import errno
import hashlib
import io
import json
import os
import shutil
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from brodmann.errors import FolderBusyError, InputError, disk_error

Array = NDArray[Any]
Document: TypeAlias = dict[str, Any]  # what JSON holds: who reads it knows its keys

SCHEMA_VERSION = 1
LOCK = ".lock"
CHECKSUMS = "checksums.json"  # SHA-256 of each file of a checkpoint or model


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success, flush it to disk and rename it to `path`.

    The file is written completely or not at all.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        _sync(temporary)
        temporary.replace(path)
        _sync(path.parent)
    except OSError as error:
        if (known := disk_error(error, path)) is not None:
            raise known from error
        raise
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)  # left over when the block failed


def _sync(path: Path) -> None:
    """Flush a file or a folder's entries: a power cut could otherwise undo the rename."""
    folder = path.is_dir()
    if folder and os.name == "nt":  # Windows cannot open a folder
        return
    descriptor = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if not folder or error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network disks
            raise
    finally:
        os.close(descriptor)


def write_bytes(path: Path, content: bytes) -> None:
    with whole_file(path) as temporary:
        temporary.write_bytes(content)


def write_text(path: Path, content: str) -> None:
    write_bytes(path, content.encode("utf-8"))


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON with a `schema_version`; a non-finite number is an error, not `NaN`."""
    document = {"schema_version": SCHEMA_VERSION, **content}
    write_text(path, json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write a compressed .npz file, completely or not at all."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    write_bytes(path, buffer.getvalue())


def without_nan(matrix: Array) -> list[list[float | None]]:
    """The matrix as lists for JSON, with None for undefined values."""
    return [[None if np.isnan(value) else float(value) for value in row] for row in matrix]


def read_arrays(path: Path) -> dict[str, Array]:
    """Read the arrays that `write_arrays` wrote."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except Exception as error:  # a damaged archive raises almost anything
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"{path}: damaged ({reason}): remove it and run again") from error


def read_json(path: Path, **expected: type) -> dict[str, Any]:
    """Read a document that `write_json` wrote; check that it has the `expected` keys and types."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, nested too deeply
        raise InputError(f"{path}: not a JSON document ({error})") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    version = document.get("schema_version") if isinstance(document, dict) else None
    if not isinstance(version, int):
        raise InputError(f"{path}: has no schema_version, so Brodmann did not write it")
    if version > SCHEMA_VERSION:
        raise InputError(
            f"{path}: schema_version {version} is newer than {SCHEMA_VERSION}, "
            "the newest this version reads: update brodmann"
        )
    for key, kind in expected.items():
        if not isinstance(document.get(key), kind):
            raise InputError(
                f"{path}: damaged ('{key}' is missing or of another form): remove it and run again"
            )
    result: dict[str, Any] = document
    return result


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read a log with one JSON object per line; an empty list if the file does not exist.

    Logs are appended to, not renamed into place: a last line that is incomplete, because a process
    was killed or is still writing, is skipped.
    """
    if not path.is_file():
        return []
    found = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        with contextlib.suppress(json.JSONDecodeError):
            entry = json.loads(line)
            if isinstance(entry, dict):
                found.append(entry)
    return found


def read_log(path: Path) -> list[dict[str, Any]]:
    """Read a run's log and skip entries that are damaged or of another form."""

    def is_whole(entry: dict[str, Any]) -> bool:
        needed = ("stage", "seconds") if "stage" in entry else ("step",)
        numbers = (entry[key] for key in ("step", "seconds") if key in entry)
        tables = (entry[key] for key in ("loss", "batches", "scores") if key in entry)
        return (
            all(key in entry for key in needed)
            and all(isinstance(number, int | float) for number in numbers)
            and all(isinstance(table, dict) for table in tables)
            and isinstance(entry.get("stage", ""), str)
        )

    return [entry for entry in read_lines(path) if is_whole(entry)]


def append_lines(path: Path, entries: Iterable[Mapping[str, Any]]) -> None:
    """Append one JSON object per line to a log: all of them or, on a full disk, none."""
    content = "".join(json.dumps(entry) + "\n" for entry in entries).encode()
    try:
        with open(path, "ab+", buffering=0) as file:
            before = file.seek(0, os.SEEK_END)
            if before and (file.seek(before - 1), file.read(1))[1] != b"\n":
                content = b"\n" + content  # a killed process left half a line
            left = memoryview(content)
            try:
                while left:
                    left = left[file.write(left) or 0 :]
            except OSError:
                with contextlib.suppress(OSError):  # report the error that stopped the writing
                    file.truncate(before)
                raise
    except OSError as error:
        if (known := disk_error(error, path)) is not None:
            raise known from error
        raise


@contextlib.contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder that replaces `path` on success and is removed otherwise."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path}: is a file, expected a folder or nothing")
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        temporary.mkdir(parents=True)
        yield temporary
        for inner in (*temporary.rglob("*"), temporary):
            _sync(inner)
        if path.exists():
            # A folder with content cannot be replaced: move the old one out of the way first.
            aside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.old")
            path.replace(aside)
            temporary.replace(path)
            _sync(path.parent)
            shutil.rmtree(aside)
        else:
            temporary.replace(path)
            _sync(path.parent)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if (known := disk_error(error, path)) is not None:
            raise known from error
        raise
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def sweep_leftovers(folder: Path) -> None:
    """Remove the temporary files that a killed process left (the caller holds the lock).

    Subfolders are swept, too, except those with their own lock: they are other runs.
    """
    for path in list(folder.iterdir()):
        if is_leftover(path):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        elif path.is_dir() and not path.is_symlink() and not (path / LOCK).is_file():
            sweep_leftovers(path)


def is_leftover(path: Path) -> bool:
    """Whether the name is that of a temporary file or of a folder waiting to be removed."""
    return path.name.startswith(".") and path.suffix in (".tmp", ".old")


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; the operating system frees it when the process dies.

    Temporary files that a dead process left behind are removed.
    """
    from filelock import FileLock, Timeout

    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK, timeout=0)
        lock.acquire()
    except Timeout:
        raise FolderBusyError(
            f"{folder}: another run is writing this folder: wait for it to end, or set another name"
        ) from None
    except OSError as error:
        if (known := disk_error(error, folder)) is not None:
            raise known from error
        raise InputError(f"{folder}: cannot be used as a run folder ({error})") from None
    try:
        sweep_leftovers(folder)
        yield
    finally:
        lock.release()


def wait_until_free(folder: Path, every: float = 1.0) -> None:
    """Wait until the folder's lock is free."""
    while True:
        try:
            with locked(folder):
                return
        except FolderBusyError:
            time.sleep(every)


def digest(*parts: Any) -> str:
    """A short fingerprint of bytes, arrays and JSON-able values."""
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, np.ndarray):
            state.update(str((part.dtype.str, part.shape)).encode())
            state.update(np.ascontiguousarray(part).data)
        elif isinstance(part, bytes):
            state.update(part)
        else:
            state.update(json.dumps(part, sort_keys=True, ensure_ascii=False).encode())
        state.update(b"\x00")
    return state.hexdigest()


def cache_folder() -> Path:
    """The folder of cached tokenised texts: `BRODMANN_CACHE`, or the user's cache folder."""
    chosen = os.environ.get("BRODMANN_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "brodmann"


def checksum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_checksums(folder: Path, *, but: Collection[str] = ()) -> None:
    """Write the SHA-256 of every file in the folder, except those that people may edit."""
    names = sorted(path.name for path in folder.iterdir() if path.name not in (CHECKSUMS, *but))
    write_json(folder / CHECKSUMS, {"files": {name: checksum(folder / name) for name in names}})


def damage_in(folder: Path, expected: Iterable[str]) -> tuple[str, str] | None:
    """The first damaged file and what is wrong with it; None if all are intact.

    Every name in `expected` must have a checksum: a list that lost an entry is damaged, too.
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
        if Path(name).name != name:
            return CHECKSUMS, f"lists {name!r}, which is not a file of this folder"
        try:
            if checksum(folder / name) != stored:
                return name, "does not match its checksum"
        except (OSError, ValueError) as error:
            return name, "missing" if isinstance(error, FileNotFoundError) else str(error)
    return None
