"""Many runs from one configuration: one kind of study per section of the configuration.

`STUDIES` maps a section to its module, which holds `STUDY`, an object of a class derived from
`Study`. Commands, plans and recipes ask `study_of(config)` and call the same methods on each; a new
kind of study is one file here and one line in the dict. A kind without a section of its own is
configured by `[study]` with `kind = "..."`.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from brodmann.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from brodmann.config import Config
    from brodmann.data.task_cache import TaskCache
    from brodmann.studies.plan.counting import Counted
    from brodmann.training.events import Report

STUDIES: dict[str, str] = {  # order matters: a grid's cells may be adaptations or students
    "grid": f"{__name__}.grid",
    "compare": f"{__name__}.arms",
    "transfer": f"{__name__}.transfer",
    "meta": f"{__name__}.meta_learning",
    "adapt": f"{__name__}.adapt",
    "distill": f"{__name__}.distill",
}
ONE_RUN = f"{__name__}.one_run"  # for a configuration without any of these sections


class Study:
    """A kind of study. The defaults suit a study that works in the configuration's own folder."""

    command = "run"  # `brodmann COMMAND CONFIG` runs it
    in_grids = False  # whether a cell of a grid may be one: `run_cell`

    def run(self, config: "Config", base: Path, report: "Report", **options: Any) -> dict[str, Any]:
        """Do what is not done yet and return the result; `cache` may hold tasks already read."""
        raise NotImplementedError

    def run_cell(
        self, config: "Config", base: Path, report: "Report", *, heads: bool, **options: Any
    ) -> dict[str, Any]:
        """Run as a cell of a grid; return `splits` with scores, and anything else the cell keeps.

        Among the options is `cache`, which the cells share.
        """
        raise NotImplementedError

    def read_ahead(self, config: "Config", cache: "TaskCache") -> None:
        """Read into `cache` what a cell reads besides its own tasks, while tables are kept."""

    def runs(self, config: "Config") -> dict[str, "Config"]:
        """The configuration of each run of the study, by label."""
        return {config.name: config}

    def folders(self, config: "Config") -> list[Path]:
        """Folders that its page is drawn from: one with the study's document, or its runs."""
        return [config.folder]

    def read_more(self, config: "Config", result: dict[str, Any]) -> dict[str, Any]:
        """Further results that readers of papers' tables need besides that of `run`."""
        return {}

    def is_done(self, config: "Config") -> bool:
        """Whether another study can start from its results."""
        return config.folder.is_dir()

    def move_starts(self, values: dict[str, Any], moved: Callable[[str], str]) -> None:
        """Replace the folders of models that the settings `values` start from."""

    def check_plan(self, config: "Config") -> None:
        """Raise `InputError` if there is no plan for it."""
        if type(self).plan is Study.plan:
            raise InputError(f"`brodmann plan` does not support `brodmann {self.command}`")

    def measure(
        self, config: "Config", base: Path, report: "Report", *, heads: bool, cache: "TaskCache"
    ) -> dict[str, Any]:
        """Plan one cell from some of its steps."""
        raise NotImplementedError

    def plan(
        self, config: "Config", base: Path, report: "Report", *, speed: float | None, heads: bool
    ) -> dict[str, Any]:
        """Estimate what the study will take from some of its steps; afterwards, what it took."""
        raise NotImplementedError

    def count(self, config: "Config", start: "Config | None") -> "Counted":
        """Estimate the study without data or weights, given the `start` of its models."""
        raise NotImplementedError


def load_study(section: str) -> Study:
    if section not in STUDIES:
        raise InputError(f"[study]: kind = '{section}'{did_you_mean(section, STUDIES)}")
    study: Study = import_module(STUDIES[section]).STUDY
    return study


def study_of(config: "Config") -> Study:
    """The study that a configuration asks for; by default, a single run."""
    if config.study is not None:
        return load_study(config.study.kind)
    for section in STUDIES:
        if getattr(config, section, None) is not None:
            return load_study(section)
    return load_one_run()


def load_one_run() -> Study:
    study: Study = import_module(ONE_RUN).STUDY
    return study
