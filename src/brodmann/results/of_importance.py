"""Importance of heads: `HeadScores`, and the choice of heads by them."""

from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from brodmann.errors import InputError, did_you_mean
from brodmann.files import Array, Document, read_json, write_json
from brodmann.results.frames import need_pandas
from brodmann.results.inline import heat_maps

if TYPE_CHECKING:
    import pandas

Normalization = Literal["none", "layer"]
Head = tuple[int, int]  # (layer, head), counted from 0
USUAL_ALPHA = 0.3  # default share of the heads to choose, remove or show
SHOWN = 5  # heads per task in a printed line
PARTS = 10  # of the examples that importance is summed over, so that they can be redrawn


def share_of(alpha: float, count: int) -> int:
    """floor(alpha · count) without rounding errors: 0.58 · 100 is 57.99… in floats."""
    if isinstance(alpha, bool) or not isinstance(alpha, Real) or not 0 <= alpha <= 1:
        raise InputError(f"alpha = {alpha!r}: expected a share from 0 to 1")
    return int(Fraction(str(alpha)) * count)


def _check_order(method: str, alpha: Any, task: Any) -> None:
    """Reject swapped arguments: the task is optional and comes second."""
    if isinstance(alpha, str) and not isinstance(task, str):
        share = USUAL_ALPHA if task is None else task
        raise InputError(
            f"{method}({alpha!r}{'' if task is None else f', {task!r}'}): expected the share of "
            f"heads first, then the task: {method}({share!r}, {alpha!r})"
        )
    if task is not None and not isinstance(task, str):
        raise InputError(f"task = {task!r}: expected the name of a task")


@dataclass(repr=False)
class HeadScores:
    """Importance of every head for every task, (task, layer, head)."""

    tasks: tuple[str, ...]
    values: Array
    settings: Document = field(default_factory=dict)  # how they were measured
    removed: tuple[Head, ...] = ()  # heads the model no longer has: never chosen
    # Sums over fixed parts of the examples, (task, part, layer, head), and the weight of each part,
    # (task, part): with them, heads can be chosen again as if other examples had been drawn.
    part_sums: Array | None = None
    part_counts: Array | None = None

    def __post_init__(self) -> None:
        self.tasks = tuple(self.tasks)
        self.values = np.asarray(self.values, dtype=np.float64)
        self.removed = tuple((int(layer), int(head)) for layer, head in self.removed)
        if self.values.ndim != 3 or len(self.values) != len(self.tasks):
            raise InputError(
                f"scores of shape {self.values.shape} for {len(self.tasks)} tasks: "
                "expected (task, layer, head)"
            )
        if not np.isfinite(self.values).all():
            raise InputError("scores: some are not finite numbers")
        if self.part_sums is not None:
            self.part_sums = np.asarray(self.part_sums, dtype=np.float64)
            self.part_counts = np.asarray(self.part_counts, dtype=np.float64)
            tasks, *shape = self.part_sums.shape
            if [tasks, *shape[1:]] != [*self.values.shape] or self.part_counts.shape != (
                tasks,
                shape[0],
            ):
                raise InputError("scores: the sums over parts of the examples do not fit them")

    def __repr__(self) -> str:
        layers, heads = self.shape
        width = max(len(name) for name in self.tasks)
        lines = [f"HeadScores of {layers} layers × {heads} heads; most important (layer.head):"]
        for task in self.tasks:
            scores = self.of(task)
            best = [f"{a}.{b} {scores[a, b]:.3g}" for a, b in self.ranking(task)[:SHOWN]]
            lines.append(f"  {task:<{width}}  {'   '.join(best)}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return heat_maps(self.tasks, self.values, set(self.removed))

    @property
    def shape(self) -> tuple[int, int]:
        """(layers, heads per layer)."""
        return int(self.values.shape[1]), int(self.values.shape[2])

    @property
    def heads(self) -> int:
        """Number of heads to choose from."""
        return self.shape[0] * self.shape[1] - len(self.removed)

    def of(self, task: str) -> Array:
        """One task's scores, (layer, head)."""
        if task not in self.tasks:
            raise InputError(f"no scores for the task '{task}'{did_you_mean(task, self.tasks)}")
        return np.asarray(self.values[self.tasks.index(task)])

    def together(self) -> Array:
        """Scores of all tasks together: each task's scores divided by their sum, then averaged."""
        totals = np.abs(self.values).sum(axis=(1, 2), keepdims=True)
        return np.asarray((self.values / np.where(totals > 0, totals, 1)).mean(axis=0))

    def ranking(
        self, task: str | None = None, *, least: bool = False, group: int = 1
    ) -> list[Head]:
        """All heads by decreasing (or increasing) importance; ties are ordered by (layer, head).

        Each `group` of neighbouring heads that share their keys is ranked as one, by its mean.
        """
        return self._ranked(self.together() if task is None else self.of(task), least, group)

    def _ranked(self, scores: Array, least: bool, group: int) -> list[Head]:
        sign = 1 if least else -1
        layers, heads = self.shape
        means = scores.reshape(layers, heads // group, group).mean(axis=2)
        present = {(layer, head) for layer in range(layers) for head in range(heads)}
        present -= set(self.removed)
        return sorted(
            present, key=lambda h: (sign * means[h[0], h[1] // group], h[0], h[1] // group, h[1])
        )

    def top(self, alpha: float, task: str | None = None, *, group: int = 1) -> list[Head]:
        """The floor(alpha · heads) most important heads of a task, or of all tasks together."""
        _check_order("top", alpha, task)
        return self._first(self.ranking(task, group=group), alpha, group)

    def least(self, alpha: float, task: str | None = None, *, group: int = 1) -> list[Head]:
        """The floor(alpha · heads) least important heads of a task, or of all tasks together."""
        _check_order("least", alpha, task)
        return self._first(self.ranking(task, least=True, group=group), alpha, group)

    def random(self, alpha: float, seed: int, *, group: int = 1) -> list[Head]:
        """floor(alpha · heads) heads drawn at random over all layers."""
        drawn = np.random.default_rng(seed).random(self.shape)
        return self._first(self._ranked(drawn, True, group), alpha, group)

    def _first(self, ranked: list[Head], alpha: float, group: int) -> list[Head]:
        """The first heads in whole groups: a layer's remaining heads still share keys evenly."""
        return sorted(ranked[: share_of(alpha, self.heads) // group * group])

    def normalized(self, how: str) -> "HeadScores":
        """Scale every layer's scores to L2 norm 1 (`layer`, Michel et al. 2019) or not (`none`)."""
        if how == "none":
            return self
        if how != "layer":
            hint = did_you_mean(how, get_args(Normalization))
            raise InputError(f"unknown normalisation '{how}'{hint}")
        norms = np.linalg.norm(self.values, axis=2, keepdims=True)
        values = self.values / np.where(norms > 0, norms, 1)
        settings = {**self.settings, "normalize": how}
        parts = (self.part_sums, self.part_counts)
        return HeadScores(self.tasks, values, settings, self.removed, *parts)

    def to_frame(self) -> "pandas.DataFrame":
        """A pandas table with the columns task, layer, head, score."""
        tables = need_pandas()
        layers, heads = self.shape
        index = tables.MultiIndex.from_product(
            [self.tasks, range(layers), range(heads)], names=["task", "layer", "head"]
        )
        frame: pandas.DataFrame
        frame = tables.DataFrame({"score": self.values.ravel()}, index=index).reset_index()
        return frame

    def save(self, path: str | Path) -> None:
        document = {
            "tasks": list(self.tasks),
            "scores": self.values.tolist(),
            "settings": self.settings,
            "removed": [list(head) for head in self.removed],
        }
        if self.part_sums is not None and self.part_counts is not None:
            document["part_sums"] = self.part_sums.tolist()
            document["part_counts"] = self.part_counts.tolist()
        write_json(Path(path), document)

    @classmethod
    def load(cls, path: str | Path) -> "HeadScores":
        document = read_json(Path(path))
        try:
            return cls(
                tuple(document["tasks"]),
                np.array(document["scores"]),
                dict(document["settings"]),
                tuple((layer, head) for layer, head in document["removed"]),
                document.get("part_sums"),
                document.get("part_counts"),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path}: not head scores ({error})") from None
