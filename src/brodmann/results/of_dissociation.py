"""How far tasks have separated: `Dissociation`."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from brodmann.errors import InputError
from brodmann.files import Document, read_json, write_json
from brodmann.results.frames import need_pandas
from brodmann.results.inline import table
from brodmann.results.of_importance import Head, HeadScores
from brodmann.text import dissociation, percent

if TYPE_CHECKING:
    import pandas


def mean_dissociation(found: Mapping[str, Any]) -> float | None:
    """D of one stored run or curve point; None as soon as one task has no D.

    In files of earlier versions, the stored mean covers the remaining tasks only.
    """
    incomplete = found.get("undefined") or any(d is None for d in found.get("per_task", ()))
    return None if incomplete else found["mean"]


@dataclass(repr=False)
class Dissociation:
    """How far the tasks have separated over the heads of one model.

    `performance[i][j]` is task i's score with task j's heads switched off. A number that cannot be
    defined is None, and `undefined` says why; one such task makes the mean None, too.
    """

    tasks: list[str]
    metrics: list[str]
    alpha: float
    heads: list[list[Head]]  # chosen for each task
    base: list[float]
    trivial: list[float]  # the best score possible without reading the text
    performance: list[list[float]]
    random: list[list[float]]  # [task][draw]
    per_task: list[float | None]  # D of each task
    mean: float | None
    pairwise: list[list[float | None]]
    verdicts: list[list[str]]  # per pair, by the paper's rule, regardless of the intervals
    # level, over (what was drawn again), per_task, mean, pairwise and pairs: [low, high] or None;
    # examples_only: the same over validation examples alone, where importance was redrawn, too
    intervals: Document
    p_values: list[float | None]  # a task's own heads against random ones
    overlap: list[list[float]]
    heads_per_layer: list[list[int]]  # [task][layer]
    layer_spread: list[float]  # standard deviation over tasks, per layer
    undefined: dict[str, str]  # task → why it has no D
    undertrained: dict[str, str]  # task → why its D means little
    curve: list[Document]  # the same for other shares
    settings: Document
    redrawn: Document | None = None  # D with heads chosen by redrawn importance examples
    null: Document | None = None  # D with heads dealt to the tasks at random, and its p

    def check_shape(self) -> None:
        """Raise ValueError unless every list has one entry per task."""
        count = len(self.tasks)
        rows: list[list[Any]] = [self.performance, self.pairwise, self.verdicts, self.overlap]
        lists: list[list[Any]] = [
            *rows,
            self.base,
            self.per_task,
            self.random,
            self.p_values,
            self.heads_per_layer,
        ]
        lists += [row for matrix in rows for row in matrix]
        if any(len(values) != count for values in lists):
            raise ValueError(f"its lists do not fit its {count} tasks")

    def is_of(self, scores: HeadScores) -> bool:
        """Whether its heads were chosen by this map; older results do not say."""
        by = self.settings.get("importance")
        return by is None or by == json.loads(json.dumps(scores.settings))

    def summary(self) -> Document:
        """The numbers that a table of several runs needs, without the heads themselves."""
        left_out = ("heads", "curve", "settings")
        short = {name: value for name, value in asdict(self).items() if name not in left_out}
        short["random"] = [float(np.mean(draws)) if draws else None for draws in self.random]
        short["curve"] = [{k: p[k] for k in ("alpha", "per_task", "mean")} for p in self.curve]
        return short

    def to_frame(self) -> "pandas.DataFrame":
        """A pandas table: one row per evaluated task, one column per task whose heads are off."""
        tables = need_pandas()
        frame: pandas.DataFrame = tables.DataFrame(
            self.performance,
            index=tables.Index(self.tasks, name="evaluated"),
            columns=[f"without {name}" for name in self.tasks],
        )
        frame["base"] = self.base
        frame["random"] = [float(np.mean(draws)) if draws else None for draws in self.random]
        frame["D"] = self.per_task
        return frame

    def __repr__(self) -> str:
        names = ", ".join(
            f"{task} {dissociation(value)}"
            for task, value in zip(self.tasks, self.per_task, strict=True)
        )
        return f"Dissociation at alpha {self.alpha:g}: D {dissociation(self.mean)} ({names})"

    def _repr_html_(self) -> str:
        columns = ["evaluated", *(f"without {name}" for name in self.tasks), "base", "random", "D"]
        rows = []
        for place, task in enumerate(self.tasks):
            draws = self.random[place]
            random = float(np.mean(draws)) if draws else None
            scores = [*self.performance[place], self.base[place], random]
            d = dissociation(self.per_task[place])
            rows.append([task, *(percent(score) for score in scores), d])
        caption = (
            f"Scores (%) of each task with the most important {100 * self.alpha:g} % of the heads "
            f"of another switched off; D {dissociation(self.mean)}"
        )
        return table(columns, rows, caption)

    def save(self, path: str | Path) -> None:
        write_json(Path(path), asdict(self))

    @classmethod
    def load(cls, path: str | Path) -> "Dissociation":
        document = read_json(Path(path))
        document.pop("schema_version", None)
        try:
            result = cls(**document)
            for name in ("intervals", "undefined", "undertrained", "settings"):
                if not isinstance(document[name], dict):
                    raise ValueError(f"{name}: expected a table, found {document[name]!r:.40}")
            result.check_shape()
            result.mean = mean_dissociation(document)
            for point in result.curve:
                point["mean"] = mean_dissociation(point)
            if result.mean is None:
                result.intervals["mean"] = None
            result.heads = [[(layer, head) for layer, head in chosen] for chosen in result.heads]
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path}: not a dissociation ({error})") from None
        return result
