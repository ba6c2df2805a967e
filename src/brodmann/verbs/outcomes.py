"""What verbs return: a `Run`, a `Page`, or the `Outcome` of a study."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from brodmann.errors import InputError
from brodmann.files import Document, read_json, write_json, write_text
from brodmann.reporting.blocks import Block, Section
from brodmann.reporting.html import frame, framed, page
from brodmann.reporting.record import read_record
from brodmann.reporting.sections import answer, atlas, dissociation_matrix
from brodmann.results import Dissociation, HeadScores, Mistakes, need_pandas
from brodmann.studies.report import check_page, read_study, report_on, subtitle
from brodmann.training.events import silent
from brodmann.verbs.rows import Row, rows_of_scores

if TYPE_CHECKING:
    import pandas

    from brodmann.models.multitask import MultiTaskModel

IN_A_CELL = (answer.section, atlas.section, dissociation_matrix.section)  # of a run's page


@dataclass(frozen=True)
class Run:
    """A run folder: `bm.Run("runs/first")`, or what `bm.run` returns."""

    folder: Path

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        path = Path(folder)
        if not (path / "config.toml").is_file():
            raise InputError(f"{path}: not a run (config.toml is missing)")
        object.__setattr__(self, "folder", path)

    def load_model(self, *, device: str = "auto") -> "MultiTaskModel":
        """The trained model."""
        from brodmann.models.multitask import MultiTaskModel
        from brodmann.models.saving import is_model_folder

        if not is_model_folder(self.folder / "model"):
            raise InputError(f"{self.folder}: no trained model in it: run `bm.run` first")
        return MultiTaskModel.from_pretrained(self.folder / "model", device=device)

    @property
    def scores(self) -> dict[str, dict[str, float]]:
        """The score of each task by its primary metric, by split and task."""
        found = read_record(self.folder).splits
        return {
            split: {task: float(entry["score"]) for task, entry in tasks.items()}
            for split, tasks in found.items()
        }

    @property
    def heads(self) -> HeadScores | None:
        """Importance of the heads, if it was measured."""
        return read_record(self.folder).scores

    @property
    def dissociation(self) -> Dissociation | None:
        """How far the tasks have separated, if it was measured."""
        return read_record(self.folder).dissociation

    @property
    def mistakes(self) -> Mistakes | None:
        """What the model gets wrong on its validation examples, if it was stored."""
        return read_record(self.folder).mistakes

    def to_frame(self) -> "pandas.DataFrame":
        """One row per split, task and metric, with its interval where there is one."""
        rows = rows_of_scores(read_record(self.folder).splits)
        table: pandas.DataFrame = need_pandas().DataFrame(rows)
        return table

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page (.html) or the scores (.json) to a file of your own."""
        place = Path(path)
        if place.suffix == ".html":
            return report_on([self.folder], silent, to=place)
        return _write_document(place, read_json(self.folder / "metrics.json"))

    def _repr_html_(self) -> str:
        study = read_study([self.folder], silent)
        found = [section for make in IN_A_CELL if (section := make(study)) is not None]
        return frame(study.title, subtitle(study), found)

    def __repr__(self) -> str:
        scores = self.scores.get("validation", {})
        shown = ", ".join(f"{task} {100 * score:.1f}" for task, score in scores.items())
        return f"Run({str(self.folder)!r}{': ' if shown else ''}{shown})"


@dataclass(frozen=True)
class Page:
    """A report: one file that opens in a browser, and in a notebook."""

    path: Path

    def _repr_html_(self) -> str:
        return framed(self.path.read_text(encoding="utf-8"))


@dataclass(frozen=True, repr=False)
class Outcome:
    """The result of a study, relation or plan.

    `document` is what the command prints with `--json`; `rows` are its numbers as a table.
    """

    verb: str
    document: Document
    rows: Sequence[Row]
    folder: Path | None = None  # where it is stored
    blocks: Sequence[Block] = field(default_factory=list)  # as terminal and page draw it

    def to_frame(self) -> "pandas.DataFrame":
        """Its numbers as a pandas table."""
        table: pandas.DataFrame = need_pandas().DataFrame(list(self.rows))
        return table

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it to a file: a page (.html), or its document (.json)."""
        place = Path(path)
        if place.suffix == ".html":
            check_page(place)
            write_text(place, page(self.verb, str(self.folder or ""), self._sections()))
            return place
        return _write_document(place, self.document)

    def _sections(self) -> list[Section]:
        return [Section(self.verb.replace(" ", "-"), self.verb, list(self.blocks))]

    def _repr_html_(self) -> str:
        return frame(self.verb, str(self.folder or ""), self._sections())

    def __repr__(self) -> str:
        place = "" if self.folder is None else f" in {self.folder}"
        return f"Outcome of {self.verb}: {len(self.rows)} rows{place}"


def _write_document(place: Path, document: Document) -> Path:
    if place.suffix != ".json":
        raise InputError(f"{place}: expected a name that ends in .html or .json")
    write_json(place, dict(document))
    return place
