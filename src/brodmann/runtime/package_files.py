"""The files of an exported package: what they are called, what they mean, whether they are whole.

`brodmann.json` says which graph and output belong to each task, and holds everything that reading
a text and forming an answer need besides the weights. `brodmann export` writes it; a package whose
`version` is newer than this module's is refused, one that is older is read.
"""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from brodmann.data.tasks import TaskSpec
from brodmann.errors import InputError
from brodmann.files import damage_in, read_json, write_json

FORMAT = "brodmann package"
SINGLE_FORMAT = "brodmann onnx export"  # of one task, which other programs read
VERSION = 1
DESCRIPTION = "brodmann.json"
TOKENIZER = "tokenizer.json"
STATES = "states"  # name of the output with the mean of the middle layer over the real tokens


@dataclass(frozen=True)
class Place:
    """Where a task's logits come from."""

    graph: str  # file
    output: str  # name in the graph
    axes: tuple[str, ...]  # meaning of its dimensions


@dataclass(frozen=True)
class Description:
    """The content of `brodmann.json`."""

    specs: Mapping[str, TaskSpec]
    places: Mapping[str, Place]  # by task
    inputs: tuple[str, ...]  # of every graph
    one_pass: bool  # whether one reading of a text answers several tasks
    width: int  # of the mean states
    max_length: int
    stride: int
    padding_id: int
    cut_from: str  # the side from which long texts are cut
    split_special_tokens: bool  # whether "[SEP]" in a text is ordinary text
    backbone: str
    int8: bool = False

    @property
    def graphs(self) -> list[str]:
        return list(dict.fromkeys(place.graph for place in self.places.values()))


def write_description(folder: Path, found: Description) -> None:
    plain = {name: value for name, value in vars(found).items() if name not in ("specs", "places")}
    tasks = [{**spec.to_dict(), **asdict(found.places[name])} for name, spec in found.specs.items()]
    document = {"format": FORMAT, "version": VERSION, **plain, "states": STATES, "tasks": tasks}
    write_json(folder / DESCRIPTION, document)


def read_description(folder: str | os.PathLike[str]) -> Description:
    """Read and check a package; InputError if it is not one, damaged, or of a later version."""
    path = Path(folder)
    if not (path / DESCRIPTION).is_file():
        raise InputError(
            f"{path}: not an exported package (it has no {DESCRIPTION}): write one with "
            "`brodmann export RUN --to onnx`"
        )
    document = read_json(path / DESCRIPTION)
    _check_format(path / DESCRIPTION, document)
    try:
        found = _described(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"{path / DESCRIPTION}: damaged ({error!r:.100}): export the model again"
        ) from None
    damage = damage_in(path, [DESCRIPTION, TOKENIZER, *found.graphs])
    if damage is not None:
        raise InputError(f"{path / damage[0]}: {damage[1]}: export the model again")
    return found


def _check_format(path: Path, document: Mapping[str, Any]) -> None:
    if document.get("format") == SINGLE_FORMAT:
        raise InputError(
            f"{path.parent}: holds the graph of a single task, for other programs: export all "
            "tasks with `brodmann export RUN --to onnx` (without --task)"
        )
    version = document.get("version")
    if document.get("format") != FORMAT or not isinstance(version, int):
        raise InputError(f"{path}: not the description of an exported package")
    if version > VERSION:
        raise InputError(
            f"{path}: version {version} is newer than {VERSION}, the newest this version reads: "
            "update brodmann"
        )


def _described(document: Mapping[str, Any]) -> Description:
    places = {
        entry["name"]: Place(entry["graph"], entry["output"], tuple(entry["axes"]))
        for entry in document["tasks"]
    }
    known = set(TaskSpec.__dataclass_fields__)
    specs = (
        TaskSpec.from_dict({name: value for name, value in entry.items() if name in known})
        for entry in document["tasks"]
    )
    return Description(
        specs={spec.name: spec for spec in specs},
        places=places,
        inputs=tuple(document["inputs"]),
        one_pass=bool(document["one_pass"]),
        width=int(document["width"]),
        max_length=int(document["max_length"]),
        stride=int(document["stride"]),
        padding_id=int(document["padding_id"]),
        cut_from=str(document["cut_from"]),
        split_special_tokens=bool(document["split_special_tokens"]),
        backbone=str(document["backbone"]),
        int8=bool(document["int8"]),
    )
