"""Datasets of the Hugging Face hub: load them, read the cache, or write them to a folder.

`datasets` no longer runs loading scripts, so an id must have Parquet (or JSON, CSV) files, or be
requested at the revision where the hub keeps its own Parquet copy, `refs/convert/parquet`.
"""

import contextlib
import gzip
import json
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from brodmann.data import catalogue
from brodmann.data.catalogue import Entry
from brodmann.data.sources.in_memory import from_datasets
from brodmann.data.sources.table import Table, Tables
from brodmann.errors import InputError
from brodmann.files import whole_folder, write_bytes

PATIENCE = 5.0  # seconds to wait for a sign of life from the hub


def read_hub(identifier: str, configuration: str | None, revision: str | None = None) -> Tables:
    """Read a dataset of the hub, or its copy in the hub's cache on this machine."""
    import datasets

    source = f"hub:{identifier}" + (f"/{configuration}" if configuration else "")
    try:
        with _quiet_client(), without_waiting():
            loaded = datasets.load_dataset(identifier, configuration, revision=revision)
    except Exception as error:  # the hub's client raises many unrelated types here
        cached = _cached_snapshot(identifier, revision)
        if cached is None:
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise InputError(f"{source} could not be loaded: {reason}") from error
        try:
            loaded = datasets.load_dataset(str(cached), configuration)
        except Exception as second:  # as above
            reason = " ".join(str(second).split())[:200]
            raise InputError(f"{source}: the copy in {cached} cannot be read: {reason}") from second
    return from_datasets(loaded, source)


@contextlib.contextmanager
def offline_hint() -> Iterator[None]:
    """Add to an error about the hub how to work without it."""
    try:
        yield
    except InputError as error:
        raise InputError(
            f"{error}; to work offline, write it once on a machine with access, with `brodmann "
            "tasks --fetch NAME --out DIR`, or with datasets' save_to_disk, and use that folder"
        ) from error


@contextlib.contextmanager
def without_waiting() -> Iterator[None]:
    """Use the hub's cache if the hub cannot be reached.

    Its client retries for half a minute before it gives up, with a line for every attempt: one
    short request shows beforehand whether the hub answers.
    """
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE or is_in_reach(constants.ENDPOINT):
        yield
        return
    # `datasets` has its own switch, which matters only if it is loaded.
    switches = [constants, *([sys.modules["datasets"].config] if "datasets" in sys.modules else [])]
    with contextlib.ExitStack() as stack:
        for switch in switches:
            stack.callback(setattr, switch, "HF_HUB_OFFLINE", switch.HF_HUB_OFFLINE)
            switch.HF_HUB_OFFLINE = True
        yield


def is_in_reach(address: str) -> bool:
    """Whether the hub at this address answers within a few seconds."""
    from huggingface_hub import get_session

    try:
        get_session().head(address, timeout=PATIENCE)
    except Exception:  # whatever the reason: no name, no route, a proxy, a time-out
        return False
    return True


def is_hub_id(name: str) -> bool:
    """Whether the hub allows this name: `name` or `user/name`."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]  # documented

    try:
        validate_repo_id(name)
    except HFValidationError:
        return False
    return True


@contextlib.contextmanager
def bars_on_terminals() -> Iterator[None]:
    """Show the hub's progress bars only to people: a pipe or a log gets none."""
    from huggingface_hub.utils.tqdm import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    if sys.stderr.isatty() or are_progress_bars_disabled():
        yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()


@contextlib.contextmanager
def _quiet_client() -> Iterator[None]:
    """Silence the hub's client, which logs every attempt; the final error is reported."""
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _cached_snapshot(identifier: str, revision: str | None) -> Path | None:
    """The files that an earlier download left, found without asking the hub."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        folder = snapshot_download(
            identifier, repo_type="dataset", revision=revision, local_files_only=True
        )
    except (LocalEntryNotFoundError, HfHubHTTPError, HFValidationError, OSError):
        return None
    return Path(folder)


def hub_tables(entry: Entry, language: str, read_hub: Callable[..., Tables] = read_hub) -> Tables:
    """The dataset's splits on the hub, with the training split of `train_of` or `translated`.

    `read_hub` may cache what it has read: six tasks of MRQA are one dataset.
    """
    assert entry.hub is not None
    config = entry.hub_config and entry.hub_config.format(language=language)
    tables = read_hub(entry.hub, config, entry.hub_revision)
    if "train" not in tables:
        if language == entry.languages[0] and entry.train_of is not None:
            other = catalogue.entries()[entry.train_of]
            assert other.hub is not None
            found = read_hub(other.hub, other.hub_config, other.hub_revision)
            tables |= {"train": _split_of(found, "train", other.hub)}
        elif language != entry.languages[0] and entry.translated and "hub" in entry.translated:
            there = entry.translated
            config = there["hub_config"].format(language=language)
            found = read_hub(there["hub"], config, there.get("hub_revision"))
            tables |= {"train": _split_of(found, there["split"], there["hub"])}
    return only_rows(tables, entry.only)


def _split_of(tables: Mapping[str, Table], split: str, source: str) -> Table:
    if split not in tables:
        raise InputError(f"hub:{source}: no split '{split}', found {', '.join(tables)}")
    return tables[split]


def only_rows(tables: Mapping[str, Table], values: Mapping[str, str]) -> Tables:
    """Rows with these values, and the splits that have some; all rows if the column is missing."""
    kept = dict(tables)
    for column, value in values.items():
        for split, table in tables.items():
            if any(column in row for row in table.rows):
                rows = [i for i, row in enumerate(table.rows) if row.get(column) == value]
                kept[split] = kept[split].rows_of(rows)
        if not any(table.rows for table in kept.values()):
            sources = ", ".join(table.source for table in tables.values())
            raise InputError(f"{sources}: no row has the {column} '{value}'")
    return {split: table for split, table in kept.items() if table.rows}


def fetch(
    entry: Entry, language: str, to: Path, wrote: Callable[[Path, int], None] | None = None
) -> list[Path]:
    """Write a named dataset as `<to>/<folder>/<split>.jsonl.gz` with the hub's field names."""
    if entry.generated or entry.hub is None:
        text = "it is generated" if entry.generated else "no copy on the hub is known"
        raise InputError(f"{entry.name}: nothing to fetch: {text}")
    folder = entry.folder_in(to, language)
    tables = hub_tables(entry, language)
    with whole_folder(folder) as temporary:  # half a dataset would look complete
        for split, table in tables.items():
            lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in table.rows)
            packed = gzip.compress(lines.encode(), mtime=0)  # the same rows, the same bytes
            write_bytes(temporary / f"{split}.jsonl.gz", packed)
    written = [folder / f"{split}.jsonl.gz" for split in tables]
    for path, table in zip(written, tables.values(), strict=True):
        if wrote is not None:
            wrote(path, len(table.rows))
    return written
