"""Find the location of a task's rows, before any of them is read.

There are four kinds: sources that the description names, the built-in generator, a folder of the
data directory, or the hub. A union of languages has one location per language.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from brodmann.data import catalogue
from brodmann.data.catalogue import Entry
from brodmann.data.description import HUB_KEYS, TaskDescription
from brodmann.data.resolving import Request
from brodmann.data.sources.readers import files_of, is_pattern
from brodmann.errors import InputError


@dataclass(frozen=True)
class Given:
    """Sources that the description names, by "data", "hub" or split: paths, an id or the rows."""

    places: Mapping[str, Any]
    entry: Entry | None  # the named dataset whose format they have


@dataclass(frozen=True)
class Generated:
    """A built-in task, as large as `limit` asks for."""

    entry: Entry
    language: str
    limit: int | dict[Any, int] | None
    seed: int


@dataclass(frozen=True)
class InFolder:
    """A named dataset in a folder of the data directory."""

    entry: Entry
    language: str
    folder: Path
    train_folder: Path | None  # of another dataset whose training split is used


@dataclass(frozen=True)
class OnHub:
    """A named dataset that only the hub has, or that the description asks the hub for."""

    entry: Entry
    language: str
    missing: Path | None  # the folder that was tried first


Source = Given | Generated | InFolder | OnHub


def find(request: Request, base: Path, seed: int) -> dict[str, Source]:
    """Locations of the rows by language; most tasks have one language."""
    description = request.description
    if description.use is None:
        return {"": _given(description, None, base)}
    entry, languages = catalogue.find(description.use)
    if len(languages) > 1 and (description.has_files or description.asks_hub):
        raise InputError(
            f"task '{request.name}': a union of languages takes no 'data', 'train' or 'hub'"
        )
    if description.has_files:  # the named dataset's format, from elsewhere
        return {languages[0]: _given(description, entry, base)}
    if entry.generated:
        return {code: Generated(entry, code, description.limit, seed) for code in languages}
    if any(getattr(description, key) is not None for key in HUB_KEYS):
        asked = {key: getattr(description, key) for key in HUB_KEYS if getattr(description, key)}
        return {code: OnHub(replace(entry, **asked), code, None) for code in languages}
    return {code: _find_dataset(entry, code, base) for code in languages}


def _given(description: TaskDescription, entry: Entry | None, base: Path) -> Given:
    if description.hub:
        return Given({"hub": tuple(getattr(description, key) for key in HUB_KEYS)}, entry)
    given = {key: getattr(description, key) for key in description.in_memory}
    places = {key: _place(value, base) for key, value in given.items() if value is not None}
    return Given(places, entry)


def _place(value: Any, base: Path) -> Any:
    """The path of a file or folder, the paths of several files, or an object with rows."""
    if isinstance(value, str) and is_pattern(value, base):
        return files_of(value, base)
    if isinstance(value, str | Path):
        return base / value
    if not is_files(value):
        return value
    several = [_place(name, base) for name in value]
    return [path for place in several for path in (place if isinstance(place, list) else [place])]


def is_files(value: Any) -> bool:
    """Whether it is a list of paths, not of rows."""
    return isinstance(value, list) and bool(value) and all(isinstance(v, str | Path) for v in value)


def _find_dataset(entry: Entry, language: str, base: Path) -> Source:
    folder = entry.folder_in(base, language)
    if not folder.is_dir():
        return OnHub(entry, language, folder)
    lender = catalogue.entries()[entry.train_of] if entry.train_of else None
    if lender is None or language != entry.languages[0]:
        return InFolder(entry, language, folder, None)
    place = lender.folder_in(base, language)
    return InFolder(entry, language, folder, place if place.is_dir() else None)
