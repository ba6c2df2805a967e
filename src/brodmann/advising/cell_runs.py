"""Run trainings as cells of a grid and read what they answered, part by part.

A cell is an ordinary run in `cells/<fingerprint>`: finished ones are read, interrupted ones resume.
The choosing part is read by `choosing`, the reporting part only by `reporting`, which the verdict
calls for the arrangement that was chosen.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from brodmann.advising.arrangements import CellKey
from brodmann.advising.costs import PROBE, Purse, used_share
from brodmann.advising.data_parts import CHOOSING, REPORTING, Parts
from brodmann.config import Config, set_value
from brodmann.data.kinds import KINDS, outcomes
from brodmann.data.schema import checked
from brodmann.data.task_cache import TaskCache
from brodmann.data.tasks import TaskSpec
from brodmann.errors import RunError
from brodmann.files import Array, read_arrays, read_json
from brodmann.pipeline.evaluate import OUTCOMES
from brodmann.studies.cells import cells_of
from brodmann.studies.grid import run_grid
from brodmann.text import duration
from brodmann.training.defaults import choose_rate
from brodmann.training.events import Event, Report

TRIALS = "trials"
ONLY_AT_THE_END = 10**9  # steps: no checkpoint is chosen by the choosing part


@dataclass
class Bench:
    """Everything that trainings need, and the ones that are finished."""

    config: Config  # the corrected configuration
    folder: Path
    parts: Parts
    purse: Purse
    report: Report
    cache: TaskCache = field(default_factory=TaskCache)
    folders: dict[CellKey, Path] = field(default_factory=dict)
    read: dict[Path, dict[str, Array]] = field(default_factory=dict)

    def run(self, cell: CellKey) -> Path:
        """The folder of a finished training; RunError if it fails."""
        if cell in self.folders:
            return self.folders[cell]
        cost = self.purse.pay(cell)
        config = self.config_of(cell)
        one = cells_of(config)[0]
        if not (self.folder / TRIALS / f"{one.fingerprint}.json").is_file():
            text = f"training {self._named(cell)} (about {duration(cost)})"
            self.report("stage", {"text": text})
        summary = run_grid(config, self.folder, self._quiet, cache=self.cache)
        if summary["failed"]:
            raise RunError(f"{self._named(cell)}: {summary['cells'][0]['error']}")
        self.folders[cell] = one.config.folder
        return one.config.folder

    def config_of(self, cell: CellKey) -> Config:
        """A grid of one cell."""
        values = self.config.resolved() | {
            "output": str(self.folder),
            "name": TRIALS,
            "data_dir": str(self.folder.resolve()),
            "tasks": [self._limited(one, cell.share) for one in self.parts.descriptions],
        }
        settings = cell.settings
        if settings.pop(PROBE, None):
            settings |= {"model.freeze": "encoder", "model.output_heads": "fitted"}
        elif cell.rate != 1.0:
            usual = choose_rate(self.config.training.learning_rate, self.purse.speed.width)
            settings["training.learning_rate"] = usual * cell.rate
        settings["training.epochs"] = self.purse.plan.epochs
        if self.config.training.evaluate_every is None:  # the last weights: nothing to choose
            settings["training.evaluate_every"] = ONLY_AT_THE_END
        for key, value in settings.items():
            set_value(values, key, value, f"{key}={value}")
        values["seed"] = self.config.seed + cell.seed
        values["grid"] = {"groups": [list(cell.group)], "heads": False}
        return checked(Config, values, "advise")

    def choosing(self, cell: CellKey, task: str) -> Array:
        """Outcomes of a task's choosing part, (example, addend)."""
        return self._outcomes(cell)[f"{CHOOSING}|{task}"]

    def reporting(self, cell: CellKey, task: str) -> Array:
        """Outcomes of a task's reporting part."""
        return self._outcomes(cell)[f"{REPORTING}|{task}"]

    def trivial(self, task: str, part: str) -> Array:
        """Outcomes of the best answers without reading."""
        spec, own = self.spec(task), next(t for t in self.parts.tasks if t.name == task)
        answers = KINDS[spec.kind].trivial(own.splits["train"], own.splits[part], spec)
        return outcomes(answers, own.splits[part], spec)

    def spec(self, task: str) -> TaskSpec:
        return next(one.spec for one in self.parts.tasks if one.name == task)

    def facts(self, cell: CellKey) -> dict[str, Any]:
        return read_json(self.folders[cell] / "metrics.json")

    def _outcomes(self, cell: CellKey) -> dict[str, Array]:
        place = self.folders[cell]
        if place not in self.read:
            self.read[place] = read_arrays(place / OUTCOMES)
        return self.read[place]

    def _limited(self, description: dict[str, Any], share: float) -> dict[str, Any]:
        name = description["name"]
        size = next(len(t.splits["train"]) for t in self.parts.tasks if t.name == name)
        used = used_share(share, size, self.purse.plan.most)
        return description if used == 1.0 else {**description, "limit": max(2, round(used * size))}

    def _named(self, cell: CellKey) -> str:
        how = ", ".join(str(value) for value in cell.settings.values() if value is not True)
        words = ["a linear probe of"] if PROBE in cell.settings else []
        words.append(" + ".join(cell.group))
        words += [f"({how})"] if how else []
        words += [f"at rate × {cell.rate:g}"] if cell.rate != 1.0 else []
        words += [f"with {100 * cell.share:.0f} % of the examples"] if cell.share != 1.0 else []
        return " ".join(words) + f", seed {cell.seed}"

    def _quiet(self, event: Event, facts: dict[str, Any], /) -> None:
        """Pass on failures only: a line per training is enough."""
        if event == "cell failed":
            self.report(event, facts)
