"""Measures of how similar tasks are, by name.

To add one, write a function `measure(inputs)` in a file and register it in `RELATIONS`. The command
line, the stage and the section on related tasks ask this dict and compare no names. Three places
name single measures because they show more of them than a matrix: the page's section on `covsim`
(`reporting/sections/covariance.py`), the papers' recipes and their readers.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from brodmann.data.tasks import Task


@dataclass(kw_only=True)
class Inputs:
    """Inputs of a measure; `model` is only set for relations of a trained run."""

    tasks: Sequence[Task]
    examples: int
    batch_size: int
    precision: str
    seed: int
    model: Any = None  # MultiTaskModel
    sentences: Sequence[str] = ()
    voxels: Path | None = None
    split: Callable[[str], Iterable[str]] | None = None  # splits a text into words
    starts: Callable[[str, int], None] = field(default=lambda what, count: None)
    progress: Callable[[int], None] = field(default=lambda items: None)
    fit: Callable[..., Any] | None = None  # `brodmann.fit`, for relations that train

    @property
    def names(self) -> list[str]:
        return [task.name for task in self.tasks]


@dataclass(frozen=True)
class Relation:
    """One way of relating tasks."""

    of: Literal["data", "trainings", "run", "two runs"]
    # "module:function" from `Inputs` to a document with a `matrix`; an `alone` one keeps it under
    # its own name. Empty for relations that other rooms measure.
    measure: str = ""
    shows: str = ""  # description for the page
    title: str = ""  # title in tables; default: the name in capitals
    file: str = "similarity.json"  # the document it is stored in, with others
    alone: bool = False  # whether it has that document to itself
    symmetric: bool = True  # whether both directions of a pair are equal
    separate: bool = False  # compares the encoders of single tasks
    trains: bool = False  # measuring trains models: `Inputs.fit`
    pieces: bool = False  # can compare word pieces instead of words
    sentences: bool = False  # reads sentences, which may come from a corpus
    voxels: bool = False  # needs brain measurements

    def run(self, inputs: Inputs) -> dict[str, Any]:
        module, _, name = self.measure.partition(":")
        found: dict[str, Any] = getattr(import_module(module), name)(inputs)
        return found


_ENCODERS, _DATA = f"{__name__}.of_encoders", f"{__name__}.of_data"
RELATIONS: dict[str, Relation] = {
    "words": Relation(
        "data",
        f"{_DATA}:share_words",
        "the share of the target's words that the source has too",
        symmetric=False,
        pieces=True,
    ),
    "groups": Relation("data", f"{_DATA}:share_groups", "1 where two tasks name the same group"),
    "pairs": Relation(  # studies/pair_trainings.py
        "trainings",
        shows="how much the target's score changes when the source is trained beside it",
        symmetric=False,
    ),
    "covsim": Relation(
        "run", f"{_ENCODERS}:measure_covsim", title="CovSim", file="covsim.json", alone=True
    ),
    "dse": Relation(
        "run",
        f"{_ENCODERS}:measure_dse",
        "mean cosine of sentence representations",
        separate=True,
        sentences=True,
    ),
    "cra": Relation(
        "run",
        f"{_ENCODERS}:measure_cra",
        "agreement on which sentences are alike",
        separate=True,
        sentences=True,
    ),
    "ahp": Relation(
        "run",
        f"{__name__}.of_transfers:measure_ahp",
        "how well each transfers to the other (mean of both directions)",
        separate=True,
        trains=True,
    ),
    "cnm": Relation(
        "run",
        f"{_ENCODERS}:measure_cnm",
        "agreement on which fMRI voxels can be predicted (mean over participants)",
        separate=True,
        voxels=True,
    ),
    "attention": Relation("two runs"),  # pipeline/attention.py
}


def names_of(*sources: str) -> list[str]:
    """Names of the relations measured on these sources."""
    return [name for name, relation in RELATIONS.items() if relation.of in sources]


def title_of(name: str) -> str:
    return RELATIONS[name].title or name.upper()
