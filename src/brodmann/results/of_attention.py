"""How alike two models' attention maps are: `AttentionMaps`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from brodmann.errors import InputError
from brodmann.files import Array, read_json, write_json
from brodmann.results.frames import need_pandas

if TYPE_CHECKING:
    import pandas


@dataclass
class AttentionMaps:
    """Mean cosine of two models' attention maps, (task, layer, head)."""

    tasks: tuple[str, ...]
    values: Array
    runs: tuple[str, str]  # the two runs compared
    examples: int  # at most this many texts per task

    def __post_init__(self) -> None:
        self.tasks, self.runs = tuple(self.tasks), (str(self.runs[0]), str(self.runs[1]))
        self.values = np.asarray(self.values, dtype=np.float64)
        if self.values.ndim != 3 or len(self.values) != len(self.tasks):
            raise InputError(
                f"attention maps of shape {self.values.shape} for {len(self.tasks)} tasks: "
                "expected (task, layer, head)"
            )

    def to_frame(self) -> "pandas.DataFrame":
        """A pandas table with the columns task, layer, head, cosine."""
        tables = need_pandas()
        _, layers, heads = self.values.shape
        index = tables.MultiIndex.from_product(
            [self.tasks, range(layers), range(heads)], names=["task", "layer", "head"]
        )
        frame: pandas.DataFrame
        frame = tables.DataFrame({"cosine": self.values.ravel()}, index=index).reset_index()
        return frame

    def save(self, path: str | Path) -> None:
        write_json(
            Path(path),
            {
                "tasks": list(self.tasks),
                "runs": list(self.runs),
                "examples": self.examples,
                "maps": self.values.tolist(),
            },
        )

    @classmethod
    def load(cls, path: str | Path) -> "AttentionMaps":
        document = read_json(Path(path))
        try:
            maps, runs = np.array(document["maps"], dtype=float), document["runs"]
            return cls(tuple(document["tasks"]), maps, (runs[0], runs[1]), document["examples"])
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise InputError(f"{path}: damaged ({error!r})") from None
