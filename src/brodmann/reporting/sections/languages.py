"""Do heads specialise by task or by language? For runs with tasks in several languages."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from brodmann.analysis.axes import AXES, specialization_axes, tasks_and_languages
from brodmann.reporting.blocks import Section, Table, Words
from brodmann.reporting.record import Record, Study
from brodmann.results import USUAL_ALPHA, HeadScores
from brodmann.text import dissociation, percent, percentage, plain

TITLE = "By task or by language?"
CLEAR = 0.05  # p below which the overlaps differ


def section(study: Study) -> Section | None:
    mapped = [one for run in study.runs if (one := compared(run)) is not None]
    if not mapped:
        return None
    chosen = next((one for one in mapped if not one.reason), mapped[0])
    if chosen.reason:
        return Section("languages", TITLE, [Words(chosen.reason, "note")])
    run = chosen.run
    alpha = USUAL_ALPHA if run.dissociation is None else run.dissociation.alpha
    found = specialization_axes(chosen.pairs, chosen.scores, alpha, run.dissociation)
    assert found is not None  # both axes exist, or there would be a reason
    rows = [
        [
            kind,
            str(found["axes"][kind]["comparisons"]),
            percent(found["axes"][kind]["overlap"]),
            plain(found["axes"][kind]["spearman"], 2),
            _separation(found["axes"][kind]["dissociation"], run.dissociation is not None),
        ]
        for kind in AXES
        if kind in found["axes"]
    ]
    columns = ["compared", "comparisons", "overlap of top heads (%)", "Spearman", "D (%)"]
    caption = (
        f"Top {percentage(alpha)} of the heads; D: how much more a pair loses with its own heads "
        "off than with the other's."
    )
    blocks: list[Any] = [Words(_answer(found, _unlearnt(run))), Table(columns, rows, caption)]
    if chosen.left_out:
        twice = f"Left out, the same task and language as one before: {', '.join(chosen.left_out)}."
        blocks.append(Words(twice, "note"))
    return Section("languages", TITLE, blocks)


@dataclass
class Compared:
    """The comparable part of a run; `reason` says why nothing can be compared."""

    run: Record
    pairs: list[tuple[str, str]]
    scores: HeadScores
    left_out: list[str]
    reason: str = ""


def compared(run: Record) -> Compared | None:
    """The comparable part, or None without a map of heads or two languages."""
    if run.scores is None:
        return None
    data = run.provenance.get("data", {})
    languages = {task: data.get(task, {}).get("language") for task in run.scores.tasks}
    if len({language for language in languages.values() if language}) < 2:
        return None
    without = [task for task, language in languages.items() if not language]
    if without:
        reason = f"Not compared: no language is given for {', '.join(without)}."
        return Compared(run, [], run.scores, [], reason)
    of_task = pairs_of(run)
    first = {pair: task for task, pair in reversed(of_task.items())}
    kept = [task for task, pair in of_task.items() if first[pair] == task]
    pairs = [of_task[task] for task in kept]
    values = np.stack([run.scores.of(task) for task in kept])
    scores = HeadScores(tuple(kept), values, run.scores.settings, run.scores.removed)
    reason = ""
    if len({task for task, _ in pairs}) == len(pairs):
        reason = (
            "Not compared: no task has two languages here. Tasks of your own data are the same "
            "task if they name the same `head`."
        )
    elif len({language for _, language in pairs}) == len(pairs):
        reason = "Not compared: no language has two tasks."
    left_out = [task for task in of_task if task not in kept]
    return Compared(run, pairs, scores, left_out, reason)


def pairs_of(run: Record) -> dict[str, tuple[str, str]]:
    """Every scored task's (task, language); empty if one has no language."""
    return tasks_and_languages(
        run.scores.tasks if run.scores else (), run.provenance.get("data", {})
    )


def _unlearnt(run: Record) -> str:
    """Why heads of this run say little: the number of pairs hardly above trivial answers."""
    result = run.dissociation
    if result is None or not result.undertrained:
        return ""
    return f"{len(result.undertrained)} of {len(result.tasks)} pairs are hardly trained"


def _separation(value: float | None, measured: bool) -> str:
    return dissociation(value) if measured else percent(value)


def _answer(found: dict[str, object], unlearnt: str) -> str:
    axes = found["axes"]
    assert isinstance(axes, dict)
    by_task, by_language = (axes[kind]["overlap"] for kind in AXES[:2])
    numbers = (
        f"The same task in two languages has {percent(by_task, 0)} % of its top heads in common, "
        f"two tasks in one language {percent(by_language, 0)} % (permutation p = {found['p']:.2g})."
    )
    p, smallest = found["p"], found["smallest_p"]
    assert isinstance(p, float) and isinstance(smallest, float)
    if smallest >= CLEAR:
        best = f"p is {smallest:.2g} at best"
        return f"{numbers} With so few pairs no difference could be clear ({best})."
    if p >= CLEAR:
        return f"{numbers} That is no clear difference: neither axis stands out."
    if unlearnt:
        return f"{numbers} But {unlearnt}, so this says little about the heads that serve them."
    return f"{numbers} Heads specialise by {'task' if by_task > by_language else 'language'}."
