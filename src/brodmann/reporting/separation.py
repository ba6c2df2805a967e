"""Specialization in words: what D, its interval and its tests allow us to say.

A headline needs a defined D, trained tasks, an interval that does not include zero, and (if it was
measured) a D larger than that of heads assigned to the tasks at random. A pair is called double or
distinct by the intervals of both its tasks, not by their values.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from brodmann.analysis.dissociation import DISTINCT, UNCLEAR, findings
from brodmann.analysis.statistics import FEWEST_DRAWS, SIGNIFICANT
from brodmann.results import Dissociation
from brodmann.text import (
    VERDICTS,
    capital,
    counted,
    listed,
    p_value,
    percent,
    percentage,
    reasons,
    with_interval,
)

Reasoned = tuple[str, str]  # what, why
HARDLY = "hardly trained"


def separation(
    result: Dissociation | None, hardly_trained: Mapping[str, str] | None = None
) -> list[Reasoned]:
    """The headline with its numbers, each task, then the pairs."""
    if result is None:
        return []
    weak = [
        task for task in result.tasks if task in {**result.undertrained, **(hardly_trained or {})}
    ]
    if result.mean is None:
        words = "Specialization could not be measured: D is undefined."
        return [(words, reasons(result.undefined)), *_each_task(result, weak)]
    return [
        (headline(result, weak), _measure(result)),
        *_each_task(result, weak),
        *_pairs(result, weak),
    ]


def headline(result: Dissociation, weak: Sequence[str]) -> str:
    ends = result.intervals["mean"]
    if weak:
        verb = "is" if len(weak) == 1 else "are"
        return f"Not conclusive: {listed(weak)} {verb} {HARDLY}, so D says little."
    if ends is None:
        return f"D = {percent(result.mean)} %; its uncertainty was not measured."
    if ends[0] <= 0 <= ends[1]:
        return "Not clear at this size: the interval of D includes zero."
    if ends[1] < 0:
        return "Inverted: tasks suffer more from losing each other's heads than their own."
    p = exchange_p(result)
    if p is not None and p > SIGNIFICANT:
        return (
            "Not clear: assigning the same heads to tasks at random separates them about as well."
        )
    if ends[0] >= DISTINCT:
        return "Strong specialization: on average, tasks depend on heads of their own."
    if ends[1] < DISTINCT:
        return "Weak specialization: on average, tasks depend a little more on their own heads."
    return "Tasks depend on heads of their own; how strongly is not clear at this size."


def exchange_p(result: Dissociation) -> float | None:
    """p of D against the same heads assigned at random; None if it was not tested."""
    return None if result.null is None else result.null["p"]


def _measure(result: Dissociation) -> str:
    shown = with_interval(f"D = {percent(result.mean)} %", result.intervals["mean"])
    heads = len(result.heads[0]) if result.heads else 0
    words = f"{shown} with the top {percentage(result.alpha)} of heads ({heads} per task)"
    if result.intervals["mean"] is not None:
        over = result.intervals.get("over", ["validation examples"])
        words += f"; 95 % interval over {' and '.join(over)}"
    p = exchange_p(result)
    if p is not None:
        words += f"; {p_value(p)} against the same heads assigned at random"
    return f"{words}; strong from {percentage(DISTINCT)}"


def _each_task(result: Dissociation, weak: Sequence[str]) -> list[Reasoned]:
    """Which tasks have separated: by the task's interval and its test against random heads."""
    groups: dict[str, list[str]] = {
        "separated": [],
        "not clear": [],
        "not tested against random heads": [],
        "inverted": [],
        HARDLY: [],
    }
    for i, (name, ends) in enumerate(zip(result.tasks, result.intervals["per_task"], strict=True)):
        if name in result.undefined:
            continue
        if name in weak:
            groups[HARDLY].append(name)
        elif ends is not None:
            groups[_group(ends, result.p_values[i])].append(name)
    if result.undefined:
        groups["undefined"] = list(result.undefined)
    words = "; ".join(f"{which}: {listed(names)}" for which, names in groups.items() if names)
    if not words:
        return []
    draws = len(result.random[0]) if result.random else 0
    reason = "by each task's own interval"
    if draws >= FEWEST_DRAWS:
        reason += f", and p ≤ {SIGNIFICANT:g} against {draws} random choices of heads"
    return [(capital(words) + ".", reason)]


def _group(ends: Sequence[float], p: float | None) -> str:
    if ends[1] < 0:
        return "inverted"
    if ends[0] <= 0:
        return "not clear"
    if p is None:
        return "not tested against random heads"
    return "separated" if p <= SIGNIFICANT else "not clear"


def pair_findings(result: Dissociation, weak: Sequence[str]) -> dict[tuple[int, int], str]:
    """What each pair shows, in words, by (task, task)."""
    found = findings(result.pairwise, result.intervals)
    words = {}
    for i, one in enumerate(result.tasks):
        for j in range(i + 1, len(result.tasks)):
            which = found[i][j]
            hardly = [name for name in (one, result.tasks[j]) if name in weak]
            conclusive = which not in ("undefined", UNCLEAR)
            words[i, j] = (
                f"not conclusive, {listed(hardly)} {HARDLY}"
                if hardly and conclusive
                else VERDICTS[which]
            )
    return words


def _pairs(result: Dissociation, weak: Sequence[str]) -> list[Reasoned]:
    words = pair_findings(result, weak)
    if len(words) < 2:
        return []
    counts = Counter(
        "not conclusive" if which.startswith("not conclusive") else which
        for which in words.values()
    )
    distinct = counts.pop(VERDICTS["double-distinct"], 0)
    double = counts.pop(VERDICTS["double"], 0) + distinct
    show = "shows" if double == 1 else "show"
    what = f"{double} of {counted(len(words), 'pair')} of tasks {show} a double dissociation"
    if double == 1:
        what += ", a distinct one." if distinct else ", but not a distinct one."
    elif double:
        what += f", {distinct} of them a distinct one."
    else:
        what += "."
    others = ", ".join(f"{number} {which}" for which, number in sorted(counts.items()))
    reason = "both tasks' intervals are above zero; distinct: the interval of D is above 10 %"
    return [(what, reason + (f". The others: {others}" if others else ""))]
