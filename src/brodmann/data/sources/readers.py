"""Read rows from files and folders, each with its position.

CSV, TSV and JSON Lines are read here, not by `datasets`, which hides the number of a broken line.
"""

import csv
import difflib
import gzip
import io
import json
import zlib
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from brodmann.data.sources.table import Table, Tables, from_datasets, from_memory, plain
from brodmann.errors import InputError

TEXT_ENDINGS = (".csv", ".tsv", ".jsonl", ".json")
NOT_DATA = ("dataset_infos.json", "dataset_info.json", "state.json", "manifest.json")
UNPACKED, PACKED_TIMES = 100_000_000, 200  # bytes; texts are packed about 3 to 10 times
ENDINGS = (*(f"{e}{z}" for e in TEXT_ENDINGS for z in ("", ".gz")), ".parquet")


def read_file(path: Path, encoding: str = "utf-8") -> Table:
    if not path.is_file():
        raise InputError(f"{path}: no such file{_near_file(path)}")
    ending = next((e for e in ENDINGS if path.name.lower().endswith(e)), None)
    if ending is None:
        raise InputError(f"{path}: unknown file type, expected one of {', '.join(ENDINGS)}")
    if ending == ".parquet":
        return _read_parquet(path)
    text = _decoded(path, encoding)
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    if ending.removesuffix(".gz") == ".json" and text.lstrip().startswith("["):
        return _json_array(text, path)
    reader = {".csv": _csv_rows, ".tsv": _tsv_rows}.get(ending.removesuffix(".gz"), _json_rows)
    for line, row in reader(text, path):
        lines.append(line)
        rows.append(row)
    if not rows:
        found = "has a header but no rows" if text.strip() else "is empty"
        raise InputError(f"{path}: the file {found}, expected at least one example")
    return Table(str(path), rows, lines, counted="line")


def read_folder(path: Path, encoding: str = "utf-8", wanted: Collection[str] = ()) -> Tables:
    """Read a folder of `<split>.<ending>` files, or one that `datasets` saved.

    If some of the `wanted` splits exist, only those files are read; others stay empty.
    """
    if (path / "dataset_dict.json").is_file() or (path / "dataset_info.json").is_file():
        return _read_saved(path)
    files = split_files(path)
    if not files:
        raise InputError(
            f"{path}: no split found, expected files such as train.jsonl.gz or validation.csv, "
            "or a folder written by datasets' save_to_disk"
        )
    chosen = [split for split in files if split in wanted] or list(files)
    return {
        split: read_file(file, encoding) if split in chosen else Table(str(file), [], [])
        for split, file in files.items()
    }


def split_files(path: Path) -> dict[str, Path]:
    """Data files by the split they are named after."""
    files: dict[str, Path] = {}
    for file in sorted(path.iterdir()):
        ending = next((e for e in ENDINGS if file.name.lower().endswith(e)), None)
        if ending is None or file.name.startswith(".") or file.name in NOT_DATA:
            continue
        split = file.name[: -len(ending)].lower()
        if split in files:
            raise InputError(
                f"{path}: {files[split].name} and {file.name} are both the split '{split}': "
                "remove one"
            )
        files[split] = file
    return files


def _read_saved(path: Path) -> Tables:
    import datasets

    try:
        return from_datasets(datasets.load_from_disk(str(path)), str(path))
    except InputError:
        raise
    except Exception as error:  # datasets and pyarrow raise many unrelated types here
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(
            f"{path}: damaged: not what datasets' save_to_disk wrote ({reason})"
        ) from error


def _near_file(path: Path) -> str:
    if not path.parent.is_dir():
        return f" (nor the folder {path.parent})"
    others = [
        file.name
        for file in path.parent.iterdir()
        if file.name != path.name and file.name.lower().endswith(ENDINGS)
    ]
    stems = {name.partition(".")[0]: name for name in others}
    near = difflib.get_close_matches(path.name.partition(".")[0], stems, n=1)
    return f"; did you mean '{stems[near[0]]}'?" if near else ""


def _decoded(path: Path, encoding: str) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    if path.name.lower().endswith(".gz"):
        content = _unpacked(content, path)
    try:
        return content.decode("utf-8-sig" if encoding.lower() in ("utf-8", "utf8") else encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path} line {line}: not {encoding} text (byte 0x{content[error.start]:02x}): "
            "save the file as UTF-8 or set 'encoding'"
        ) from None
    except UnicodeError as error:  # codecs that are not text encodings
        raise InputError(
            f"{path}: cannot be read as {encoding} ({error}): save the file as UTF-8 or set "
            "'encoding'"
        ) from None
    except (LookupError, ValueError):
        raise InputError(f"{path}: unknown encoding '{encoding:.40}'") from None


def _unpacked(content: bytes, path: Path) -> bytes:
    """Unpack a gzip file; one that would fill the memory from next to nothing is rejected."""
    found = bytearray()
    try:
        with gzip.open(io.BytesIO(content)) as file:
            while piece := file.read(2**20):
                found += piece
                if len(found) > max(UNPACKED, PACKED_TIMES * len(content)):
                    raise InputError(
                        f"{path}: unpacks to more than {PACKED_TIMES} times its size: not a table "
                        "of texts"
                    )
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: not a complete gzip file ({error})") from None
    return bytes(found)


def _csv_rows(text: str, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    csv.field_size_limit(2**31 - 1)  # the default rejects texts of 131,072 characters
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] | None = None
    line = 1
    while True:
        start = reader.line_num + 1  # a quoted field may hold line breaks: name its first line
        try:
            fields = next(reader, None)
        except csv.Error as error:
            raise InputError(f"{path} line {start}: broken CSV ({error})") from None
        if fields is None:
            return
        if not fields:
            continue
        if header is None:
            header = _checked_header(fields, path)
            continue
        line = start
        if len(fields) != len(header):
            raise InputError(
                f"{path} line {line}: expected {len(header)} fields as in the first line, "
                f"found {len(fields)}"
            )
        yield line, dict(zip(header, fields, strict=True))


def _tsv_rows(text: str, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows of tab-separated values, which have no quoting: a quote is a character."""
    header: list[str] | None = None
    for number, line in enumerate(io.StringIO(text, newline=None), start=1):
        fields = line.rstrip("\n").split("\t")
        if fields == [""]:
            continue
        if header is None:
            header = _checked_header(fields, path)
            continue
        if len(fields) != len(header):
            raise InputError(
                f"{path} line {number}: expected {len(header)} fields as in the first line, "
                f"found {len(fields)}"
            )
        yield number, dict(zip(header, fields, strict=True))


def _json_rows(text: str, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    if text.lstrip().startswith("["):
        name = path.name.removesuffix(".gz")
        raise InputError(
            f"{path} line 1: a JSON list, expected one JSON object per line: rename the file to "
            f"{name.rpartition('.')[0]}.json{'.gz' if path.name.endswith('.gz') else ''}, or write "
            "one object per line without [ ]"
        )
    # Only \n and \r\n end a line: str.splitlines would also cut at U+2028 inside a JSON string.
    for number, line in enumerate(io.StringIO(text, newline=None), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line.rstrip("\n"))
        except json.JSONDecodeError as error:
            raise InputError(
                f"{path} line {number}: broken JSON ({error.msg} at column {error.colno}): "
                "expected one JSON object per line"
            ) from None
        except (ValueError, RecursionError) as error:  # a number too large or nesting too deep
            raise InputError(f"{path} line {number}: broken JSON ({error})") from None
        if not isinstance(row, dict):
            raise InputError(
                f"{path} line {number}: expected a JSON object, found {type(row).__name__}"
            )
        yield number, {key: plain(value) for key, value in row.items()}


def _json_array(text: str, path: Path) -> Table:
    """Rows of a file that is one JSON list of objects; rows are counted, not lines."""
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: broken JSON ({error})") from None
    return replace(from_memory(rows, str(path)), source=str(path))


def _checked_header(fields: list[str], path: Path) -> list[str]:
    names = [name.strip() for name in fields]
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise InputError(f"{path} line 1: the column '{twice}' occurs twice in the first line")
    if len(names) == 1 and any(c in names[0] for c in ";\t|"):
        raise InputError(
            f"{path} line 1: one column '{names[0]}': a .csv file has commas between its columns, "
            "a .tsv file tabs"
        )
    return names


def _read_parquet(path: Path) -> Table:
    import pyarrow
    import pyarrow.parquet as parquet

    part = "not a readable Parquet file"
    columns: dict[str, list[Any]] = {}
    try:
        table = parquet.read_table(path)
        for name in table.column_names:
            part = f"the column '{name}' cannot be read"  # texts that are not UTF-8, odd dates
            columns[name] = [plain(value) for value in table[name].to_pylist()]
    except (pyarrow.ArrowException, OSError, ValueError, ArithmeticError, TypeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path}: {part} ({reason})") from None
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if not rows:
        raise InputError(f"{path}: the file is empty, expected at least one example")
    return Table(str(path), rows, range(1, len(rows) + 1))
