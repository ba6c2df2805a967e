"""`brodmann plan`: estimate what a configuration's command will take, before anything runs.

Once it has run, the plan is shown beside what it took.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from brodmann.config import Config
from brodmann.files import digest
from brodmann.pipeline.run import one_process
from brodmann.studies import study_of
from brodmann.studies.plan.measuring_run import check_speed, shown, stored, took
from brodmann.training.events import Report


def make_plan(
    config: Config, base: Path, report: Report, *, speed: float | None = None, heads: bool = True
) -> dict[str, Any]:
    """Plan the configuration's study.

    For a single run, `heads` includes its head map and dissociation. `speed` gives the operations
    per second of another machine to compute hours for; the default is this machine.
    """
    one_process("plan")
    check_speed(speed)
    study = study_of(config)
    study.check_plan(config)
    return study.plan(config, base, report, speed=speed, heads=heads)


def plan_once(
    config: Config, report: Report, speed: float | None, measure: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """The plan that `measure` makes or, once the study has run, the stored one with its times."""
    sections = (config.transfer, config.meta, config.adapt)
    fingerprint = digest(config.fingerprint(), *(s and s.model_dump() for s in sections))
    before = stored(config, fingerprint)
    if before is not None and speed is None and (found := took(config)) is not None:
        before["took"] = found
        report("plan", {"plan": before, "file": None})
        return before
    return shown(config, measure(), fingerprint, report, speed)
