"""A single run as the simplest study, for a configuration without a study's section."""

from pathlib import Path
from typing import Any

from brodmann.config import Config
from brodmann.data.task_cache import TaskCache
from brodmann.pipeline.run import run
from brodmann.studies import Study
from brodmann.studies.plan.counting import Counted, count_runs
from brodmann.studies.plan.measuring_run import measured
from brodmann.studies.plan.planning import plan_once
from brodmann.training.events import Report


class OneRun(Study):
    in_grids = True

    def run(self, config: Config, base: Path, report: Report, **options: Any) -> dict[str, Any]:
        return run(config, base, report, **options)

    def run_cell(
        self, config: Config, base: Path, report: Report, *, heads: bool, **options: Any
    ) -> dict[str, Any]:
        return run(config, base, report, heads=heads, rules=False, **options)

    def measure(
        self, config: Config, base: Path, report: Report, *, heads: bool, cache: TaskCache
    ) -> dict[str, Any]:
        return measured(config, base, report, heads=heads, cache=cache)

    def plan(
        self, config: Config, base: Path, report: Report, *, speed: float | None, heads: bool
    ) -> dict[str, Any]:
        return plan_once(
            config,
            report,
            speed,
            lambda: measured(config, base, report, heads=heads, rules=heads),
        )

    def count(self, config: Config, start: Config | None) -> Counted:
        return count_runs(config, [(config.name, config, True, 1.0)])


STUDY = OneRun()
