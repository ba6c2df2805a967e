"""What the measurements say, and what to try next: rules, each with its threshold, no opinions.

Every rule reads stored numbers and says which; a measurement that is missing makes its rule silent
(or proposes to measure it).
"""

from typing import Any

from brodmann.reporting.blocks import counted, interval, percent
from brodmann.reporting.record import Record, Study
from brodmann.results import Dissociation

DISTINCT = 0.10  # D from which separation is called strong (Li et al. 2023, §6.1)
STILL_RISING = 0.01  # gain of the last evaluation over the one before, with the best one last
FORGOTTEN = 0.02  # loss from a task's own best evaluation to the last
CUT = 0.10  # share of texts cut at max_length
FEW = 300  # validation examples
CROWDED = 0.60  # mean overlap of the tasks' top heads
IDLE = 0.10  # of all importance, in the least important 30 % of heads

Reasoned = tuple[str, str]  # what, why


def sharing(study: Study) -> list[Reasoned]:
    """What each task gains or loses by sharing, where single-task runs stand beside."""
    found = []
    for task, (difference, ends) in single_differences(study.comparison).items():
        if ends is not None and ends[0] > 0:
            words = f"{task} gains by sharing"
        elif ends is not None and ends[1] < 0:
            words = f"{task} loses by sharing"
        else:
            words = f"{task}: no clear difference"
        found.append(
            (words, f"{100 * difference:+.1f} points against its single-task run {interval(ends)}")
        )
    return found


def single_differences(comparison: dict[str, Any] | None) -> dict[str, tuple[float, Any]]:
    """task → (multi-task minus single-task, its interval); empty where not compared."""
    if comparison is None or not {"single", "multi"} <= set(comparison["arms"]):
        return {}
    arms = comparison["arms"]
    if comparison["baseline"] == "multi":
        side, sign = arms["single"]["against"]["per_task"], -1
    elif comparison["baseline"] == "single":
        side, sign = arms["multi"]["against"]["per_task"], 1
    else:
        return {}
    found = {}
    for task in comparison["tasks"]:
        low, high = sorted(sign * end for end in side[task]["interval"])
        found[task] = (sign * side[task]["difference"], (low, high))
    return found


def separation(result: Dissociation | None) -> list[Reasoned]:
    """Specialization in words: the mean D, then the pairs by their verdicts."""
    if result is None:
        return []
    if result.mean is None:
        return [("Specialization could not be measured.", "; ".join(result.undefined.values()))]
    ends = result.intervals["mean"]
    shown = f"D = {percent(result.mean)} % {interval(ends)}".strip()
    certain = ends is not None and (ends[0] > 0 or ends[1] < 0)
    if result.mean >= DISTINCT and certain:
        words = "Strong specialization: each task depends on heads of its own."
    elif result.mean > 0 and certain:
        words = (
            "Weak specialization: tasks depend a little more on their own heads than on others'."
        )
    elif certain:
        words = "Inverted: tasks suffer more from losing each other's heads than their own."
    else:
        words = "No specialization is shown: the interval of D includes zero."
    share = f"with the top {100 * result.alpha:g} % of heads"
    found = [(words, f"{shown} {share}; strong from {100 * DISTINCT:g} %")]
    pairs: dict[str, int] = {}
    for i in range(len(result.tasks)):
        for j in range(i + 1, len(result.tasks)):
            verdict = result.verdicts[i][j]
            pairs[verdict] = pairs.get(verdict, 0) + 1
    double = pairs.get("double-distinct", 0) + pairs.get("double", 0)
    if total := sum(pairs.values()):
        others = ", ".join(
            f"{count} {verdict}"
            for verdict, count in sorted(pairs.items())
            if verdict not in ("double", "double-distinct")
        )
        one = f"Of {counted(total, 'pair')} of tasks, {double} show a double dissociation."
        distinct = f"{pairs.get('double-distinct', 0)} of them distinct"
        found.append((one, distinct + (f"; {others}" if others else "")))
    tested = [p for p in result.p_values if p is not None]
    if tested and result.random[0]:
        clear = sum(p <= 0.05 for p in tested)
        found.append(
            (
                f"{clear} of {counted(len(tested), 'task')} suffer more from losing their own "
                "heads than random ones.",
                f"p ≤ 0.05 against {len(result.random[0])} random draws",
            )
        )
    return found


def cautions(run: Record) -> list[Reasoned]:
    """What to be careful about before believing the numbers."""
    found = []
    result = run.dissociation
    for task, reason in (result.undertrained if result else {}).items():
        found.append((f"{task} has hardly been learnt: its D means little.", reason))
    for task, entry in run.validation.items():
        if entry["examples"] < FEW:
            found.append(
                (
                    f"{task} is judged on {entry['examples']} examples.",
                    f"fewer than {FEW}: its intervals are wide",
                )
            )
    made = [name for name, facts in run.provenance.get("data", {}).items() if facts["generated"]]
    if made:
        found.append(
            (
                "Generated text: " + ", ".join(made) + ".",
                "built-in tasks are for trying things out, not for claims about language",
            )
        )
    if result is not None and result.settings.get("architecture") == "single":
        found.append(
            (
                "Every task has an encoder of its own here.",
                "heads are compared by their places only",
            )
        )
    return found


def next_steps(study: Study) -> list[Reasoned]:
    """What to try, each from one measurement."""
    run = study.first
    if run is None:
        return []
    found = _training_steps(run)
    result = run.dissociation
    losing = [
        task
        for task, (_, ends) in single_differences(study.comparison).items()
        if ends is not None and ends[1] < 0
    ]
    if losing:
        found.append(
            (
                f"Train {', '.join(losing)} apart, or along the map with [specialize].",
                "sharing costs them score beyond chance",
            )
        )
    if len(run.tasks) > 1 and study.comparison is None:
        found.append(
            (
                'Compare with single-task training: [compare] arms = ["single", "multi", "iat"], '
                "seeds = [0, 1, 2].",
                "one run cannot say what sharing cost, nor how much another seed would move",
            )
        )
    if result is not None and result.mean is not None and "specialize" not in run.settings:
        pairs = [
            result.overlap[i][j]
            for i in range(len(result.tasks))
            for j in range(len(result.tasks))
            if i != j
        ]
        crowded = sum(pairs) / len(pairs)
        if result.mean < DISTINCT and crowded >= CROWDED:
            found.append(
                (
                    "Try [specialize] (IAT): it trains the last steps along each task's own heads.",
                    f"tasks share {100 * crowded:.0f} % of their top heads (from "
                    f"{100 * CROWDED:.0f} %), and D is below {100 * DISTINCT:g} %",
                )
            )
    if run.scores is not None and (idle := idle_share(run)) is not None and idle < IDLE:
        found.append(
            (
                "Prune: `brodmann prune` with a share of 0.3 should cost little.",
                f"the least important 30 % of heads hold {percent(idle)} % of all importance "
                f"(below {100 * IDLE:g} %)",
            )
        )
    if result is not None and len(result.curve) < 2:
        found.append(
            (
                "Measure D over several shares: [dissociation] curve = [0.1, 0.2, 0.3, 0.5].",
                f"it was measured at {100 * result.alpha:g} % only",
            )
        )
    if run.scores is not None and result is None and len(run.tasks) > 1:
        found.append(("Run `brodmann dissociate`.", "heads are mapped, D is not measured"))
    return found


def _training_steps(run: Record) -> list[Reasoned]:
    found = []
    rising, forgotten = [], []
    for task, points in learning_curves(run).items():
        values = [value for _, value in points]
        if len(values) >= 2 and values[-1] == max(values):
            if values[-1] - values[-2] > STILL_RISING:
                rising.append(task)
        elif len(values) >= 3 and max(values) - values[-1] > FORGOTTEN:
            forgotten.append(task)
    if rising:
        found.append(
            (
                f"Train longer (training.epochs): {', '.join(rising)} still improved at the end.",
                f"the last evaluation gained more than {100 * STILL_RISING:g} point",
            )
        )
    if forgotten:
        found.append(
            (
                f"Give {', '.join(forgotten)} more weight (training.sampling, or a task's weight).",
                f"ended more than {100 * FORGOTTEN:g} points below their own best evaluation",
            )
        )
    for task, entry in run.validation.items():
        if entry.get("truncated", 0) > CUT:
            found.append(
                (
                    f"Raise model.max_length for {task}.",
                    f"{100 * entry['truncated']:.0f} % of its validation texts are cut",
                )
            )
    return found


def learning_curves(run: Record) -> dict[str, list[tuple[float, float]]]:
    """task → (step, primary score) of every evaluation during training."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for entry in run.entries("evaluation"):
        for task, scores in entry["scores"].items():
            metric = run.validation.get(task, {}).get("metric") or next(iter(scores))
            if metric in scores:
                curves.setdefault(task, []).append((entry["step"], scores[metric]))
    return curves


def idle_share(run: Record) -> float | None:
    """Of all importance (tasks weighing equally), what the least important 30 % of heads hold."""
    assert run.scores is not None
    together = run.scores.together()
    total = float(together.sum())
    if total <= 0 or together.min() < 0:  # leave-one-out scores may be negative: no share of a sum
        return None
    return float(sum(together[layer, head] for layer, head in run.scores.least(0.3)) / total)
