"""What tasks gain by being trained together: every way of training against single-task training.

The single-task run is the one whose tasks have their own encoders, whatever its name.
"""

from typing import Any

from brodmann.data.kinds import lower_is_better
from brodmann.models.encoders import architecture_of
from brodmann.reporting.record import Record, Study


def single_arm(study: Study) -> str | None:
    """The arm whose tasks have their own encoders."""
    if study.comparison is None:
        return None
    arms = study.comparison["arms"]
    for run in study.runs:
        name = run.settings.get("model", {}).get("architecture")
        if architecture_of(name).separate and run.arm in arms:
            return run.arm
    return "single" if "single" in arms else None


def sharing_arm(study: Study) -> str | None:
    """The arm to compare with it, with intervals of the differences to the baseline."""
    single = single_arm(study)
    if single is None or study.comparison is None:
        return None
    arms, baseline = study.comparison["arms"], study.comparison["baseline"]
    if baseline != single:
        return str(baseline)
    return next((arm for arm in ("multi", *arms) if arm in arms and arm != single), None)


def single_differences(study: Study) -> dict[str, tuple[float, Any]]:
    """(training together minus single-task, its interval) by task; empty if unknown."""
    single, other = single_arm(study), sharing_arm(study)
    if single is None or other is None or study.comparison is None:
        return {}
    arms = study.comparison["arms"]
    turned = study.comparison["baseline"] != single
    side, sign = (arms[single], -1) if turned else (arms[other], 1)
    found = {}
    for task in _scored(study.comparison):
        entry = side["against"]["per_task"][task]
        # Seeds that all differ equally have no interval: use the one over examples instead.
        ends = entry["interval"] or entry["over_examples"]["interval"]
        low, high = sorted(sign * end for end in ends)
        found[task] = (sign * entry["difference"], (low, high))
    return found


def gains(study: Study, arm: str) -> dict[str, float]:
    """Points that this arm scores above the single-task one, by task; means over seeds."""
    single = single_arm(study)
    if single is None or study.comparison is None or arm == single:
        return {}
    if arm == sharing_arm(study):
        return {task: difference for task, (difference, _) in single_differences(study).items()}
    own, alone = (study.comparison["arms"][one]["per_task"] for one in (arm, single))
    return {task: own[task][0] - alone[task][0] for task in _scored(study.comparison)}


def runs_by_arm(study: Study, measure: str) -> dict[str, Record]:
    """The first run of every arm that has a measurement."""
    found: dict[str, Record] = {}
    for run in study.runs:
        if study.comparison and run.arm in study.comparison["arms"] and measure in run.measures:
            found.setdefault(run.arm, run)
    return found


def _scored(comparison: dict[str, Any]) -> list[str]:
    """Tasks with a score where higher is better: points cannot be gained on an error."""
    metrics = comparison.get("metrics") or [""] * len(comparison["tasks"])
    pairs = zip(comparison["tasks"], metrics, strict=True)
    return [task for task, metric in pairs if not lower_is_better(metric)]
