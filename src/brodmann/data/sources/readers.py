"""Read rows from files and folders, each with its position.

One dict names the reader of each ending. Texts are read here, not by `datasets`, which hides the
number of a broken line.
"""

import difflib
import glob
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from brodmann.data.sources.brat import is_brat, read_brat
from brodmann.data.sources.conll import read_conll
from brodmann.data.sources.delimited import read_csv, read_tsv
from brodmann.data.sources.excel import read_excel
from brodmann.data.sources.in_memory import from_datasets
from brodmann.data.sources.json_rows import read_json, read_json_lines
from brodmann.data.sources.table import Table, Tables, plain
from brodmann.errors import InputError

Reader = Callable[[Path, str], Table]  # of a path and the encoding of its text

TEXTS: dict[str, Reader] = {  # each may also be a .gz file
    ".csv": read_csv,
    ".tsv": read_tsv,
    ".jsonl": read_json_lines,
    ".json": read_json,
    ".conll": read_conll,
    ".conllu": read_conll,
    ".bio": read_conll,
    ".iob": read_conll,
}


def _read_parquet(path: Path, encoding: str) -> Table:
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
        reason = " ".join(str(error).split()).partition(". ")[0]
        raise InputError(f"{path}: {part} ({reason:.200})") from None
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if not rows:
        raise InputError(f"{path}: the file is empty, expected at least one example")
    return Table(str(path), rows, range(1, len(rows) + 1))


TABLES: dict[str, Reader] = {".parquet": _read_parquet, ".xlsx": read_excel}
ENDINGS = (*(f"{ending}{z}" for ending in TEXTS for z in ("", ".gz")), *TABLES)
# Lines of text are a table only where a task names the file: elsewhere they are texts to answer.
READERS: dict[str, Reader] = {**TEXTS, ".txt": read_conll, **TABLES}
NOT_DATA = ("dataset_infos.json", "dataset_info.json", "state.json", "manifest.json")
NOT_READ = {  # what to do with files of other forms
    ".xls": "save it as .xlsx",
    ".ods": "save it as .xlsx or .csv",
    ".spacy": "spaCy's DocBin needs spaCy: docs/tasks.md has three lines that convert it",
    ".pkl": "pickled objects run code when they are read: load it yourself and pass the object",
    ".arrow": "read it with datasets' Dataset.from_file and pass the Dataset",
}


def read_file(path: Path, encoding: str = "utf-8") -> Table:
    if not path.is_file():
        raise InputError(f"{path}: no such file{_near_file(path)}")
    name = path.name.lower()
    ending = next((e for e in (*ENDINGS, ".txt", ".txt.gz") if name.endswith(e)), None)
    if ending is None:
        advice = next((f" ({what})" for e, what in NOT_READ.items() if name.endswith(e)), "")
        raise InputError(
            f"{path}: unknown file type, expected one of {', '.join(READERS)}, or .gz of a text"
            f"{advice}"
        )
    return READERS[ending.removesuffix(".gz")](path, encoding)


def files_of(pattern: str, base: Path) -> list[Path]:
    """The files that a pattern such as `parts/*.jsonl` matches, by name; at least one."""
    # Path.glob takes no absolute patterns.
    names = glob.glob(pattern, root_dir=base, recursive=True)  # noqa: PTH207
    found = sorted(path for path in (base / name for name in names) if path.is_file())
    if not found:
        raise InputError(f"{base / pattern}: no file matches")
    return found


def is_pattern(name: str, base: Path) -> bool:
    return glob.has_magic(name) and not (base / name).exists()


def read_folder(path: Path, encoding: str = "utf-8", wanted: Collection[str] = ()) -> Tables:
    """Read a folder of `<split>.<ending>` files, or one that `datasets` saved.

    If some of the `wanted` splits exist, only those files are read; others stay empty.
    """
    if (path / "dataset_dict.json").is_file() or (path / "dataset_info.json").is_file():
        return _read_saved(path)
    if is_brat(path):
        return {"train": read_brat(path, encoding)}
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
