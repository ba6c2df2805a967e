"""Findings from the measurements, and what to try next: rules with thresholds, no opinions.

Every rule reads stored numbers and names them; if a measurement is missing, its rule is silent (or
proposes to measure it).
"""

from typing import Any

from brodmann.analysis.dissociation import DISTINCT, LEARNT
from brodmann.analysis.statistics import FEWEST_DRAWS, FEWEST_SEEDS
from brodmann.data.kinds import lower_is_better
from brodmann.models.encoders import architecture_of
from brodmann.reporting.adaptation import advice_against_loss, loss_in_words, lost_tasks
from brodmann.reporting.gains import sharing_arm, single_arm, single_differences
from brodmann.reporting.record import Record, Study
from brodmann.reporting.separation import HARDLY, Reasoned
from brodmann.results import USUAL_ALPHA, Dissociation
from brodmann.text import counted, interval, listed, mean_spread, percent, percentage, points

STILL_RISING = 0.01  # gain of the last evaluation, the best so far, over the one before
FORGOTTEN = 0.02  # loss from a task's own best evaluation to the last
FALLEN = 0.5  # share of the loss of guessing: below it, the training examples are learnt
CUT = 0.10  # share of texts cut at max_length
FEW = 300  # validation examples
CROWDED = 0.60  # mean overlap of the tasks' top heads
IDLE = 0.10  # share of all importance in the least important 30 % of heads


def sharing(study: Study) -> list[Reasoned]:
    """What each task gains or loses by sharing, if there are single-task runs to compare with."""
    found: list[Reasoned] = []
    single, other = single_arm(study), sharing_arm(study)
    if study.comparison is None or single is None or other is None:
        return found
    arms = study.comparison["arms"]
    for task, (difference, ends) in single_differences(study).items():
        seeds = min(len(arms[arm]["seeds"]) for arm in (single, other))
        unsure = [arm for arm in (single, other) if _arm_unlearnt(study, arm, task)]
        if unsure:
            words = f"{task}: not conclusive, hardly trained in {' and '.join(unsure)}"
        elif ends[0] > 0:
            words = f"{task} gains by sharing"
        elif ends[1] < 0:
            words = f"{task} loses by sharing"
        else:
            words = f"{task}: no clear difference"
        named = "" if other == "multi" else f" of {other}"
        reason = f"{points(difference)} points{named} against single-task training {interval(ends)}"
        reason += f", {counted(seeds, 'seed')}"
        if not any((difference, *ends)):
            reason = (
                f"no difference measured over {counted(seeds, 'seed')}; more seeds may show one"
            )
        elif seeds < FEWEST_SEEDS:
            reason += ": an indication that another seed may reverse"
        found.append((words, reason))
    return found


def _arm_unlearnt(study: Study, arm: str, task: str) -> bool:
    assert study.comparison is not None
    facts = study.comparison["arms"][arm]
    trivial = next(
        (run.validation[task].get("trivial") for run in study.runs if task in run.validation), None
    )
    mean = facts.get("per_task", {}).get(task)
    return mean is not None and trivial is not None and unlearnt(mean[0], trivial)


def unlearnt(score: float, trivial: float | None) -> bool:
    """Whether a score is hardly better than an answer without reading."""
    return trivial is not None and trivial < 1 and (score - trivial) / (1 - trivial) < LEARNT


def unlearnt_tasks(run: Record) -> dict[str, str]:
    """Why tasks are hardly trained, by task: by score, or by training loss."""
    found = dict(run.dissociation.undertrained) if run.dissociation else {}
    for task, entry in run.validation.items():
        trivial = entry.get("trivial")
        if entry.get("undertrained"):
            found.setdefault(task, entry["undertrained"])
        elif not lower_is_better(entry["metric"]) and unlearnt(entry["score"], trivial):
            reason = f"{percent(entry['score'])} %, and {percent(trivial)} % without reading"
            found.setdefault(task, reason)
    return found


def arms_against_baseline(study: Study) -> list[Reasoned]:
    """One line per other way of training: score and separation."""
    if study.comparison is None:
        return []
    arms, baseline = study.comparison["arms"], study.comparison["baseline"]
    found = []
    for arm, facts in arms.items():
        if facts["against"] is None:
            continue
        whole, apart = facts["against"]["average"], facts["against"].get("dissociation")
        clear = "" if whole["significant"] else ", not clear"
        words = f"{arm} against {baseline}: {points(whole['difference'])} points on average{clear}"
        reason = interval(whole["interval"])
        if facts["dissociation"] is not None and arms[baseline]["dissociation"] is not None:
            before, after = (mean_spread(arms[a]["dissociation"]) for a in (baseline, arm))
            reason += f"; D {before} → {after} %"
        if apart is not None and apart["interval"] is not None:
            reason += f" ({points(apart['difference'])} {interval(apart['interval'])} by seed)"
        found.append((words, reason.lstrip("; ")))
    return found


def cautions(run: Record) -> list[Reasoned]:
    """Reasons for care before believing the numbers."""
    found = []
    for task, reason in unlearnt_tasks(run).items():
        found.append((f"{task} is {HARDLY}: what is measured on it means little.", reason))
    if run.d_of_other_map:
        words = "D belongs to an earlier map of heads than the one shown here."
        found.append((words, "`brodmann dissociate` with the same --set as `map` measures it"))
    if lost := loss_in_words(run.measures.get("adaptation", {})):
        found.append((lost, "the interval of the change is below zero"))
    few = [task for task, entry in run.validation.items() if entry.get("examples", FEW) < FEW]
    if few:
        words = f"Few validation examples: {listed(few)}."
        found.append((words, f"fewer than {FEW}: the intervals are wide"))
    data = run.provenance.get("data", {})
    made = [name for name, facts in data.items() if facts.get("generated")]
    if made:
        reason = "built-in tasks are for trying things out, not for claims about language"
        found.append((f"Generated text: {listed(made)}.", reason))
    result = run.dissociation
    if result is not None and architecture_of(result.settings.get("architecture")).separate:
        words = "Every task has its own encoder here."
        found.append((words, "heads are compared by their positions only"))
    return found


def next_steps(study: Study) -> list[Reasoned]:
    """Suggestions for what to try, each from one measurement."""
    run = study.first
    if run is None or not run.validation:
        return []
    found = _training_steps(run)
    result = run.dissociation
    special = any("specialize" in other.settings for other in study.runs)
    several = study.comparison is not None or len(study.runs) > 1
    weak = unlearnt_tasks(run)
    losing = [
        task
        for task, (_, ends) in single_differences(study).items()
        if ends[1] < 0 and task not in weak
    ]
    if losing:
        along = "" if special else ", or along the map with [specialize]"
        found.append(
            (
                f"Train {listed(losing)} apart{along}.",
                "sharing costs score: the interval of the difference is below zero",
            )
        )
    if len(run.tasks) > 1 and not several:
        found.append(
            (
                'Compare with single-task training: [compare] arms = ["single", "multi", "iat"], '
                "seeds = [0, 1, 2].",
                "one run cannot show what sharing costs, nor how much another seed would change it",
            )
        )
    if not weak:  # findings about the heads of such a model lead nowhere
        found += _head_steps(study, run, result, special)
    if run.scores is not None and result is None and len(run.tasks) > 1:
        found.append(("Run `brodmann dissociate`.", "heads are mapped, D is not measured"))
    return found


def _head_steps(
    study: Study, run: Record, result: Dissociation | None, special: bool
) -> list[Reasoned]:
    """Suggestions from the map of heads and D, for a model whose tasks are trained."""
    found: list[Reasoned] = []
    ends = None if result is None else result.intervals["mean"]
    if result is not None and ends is not None and not special:
        places = range(len(result.tasks))
        pairs = [result.overlap[i][j] for i in places for j in places if i != j]
        crowded = sum(pairs) / len(pairs)
        if ends[1] < DISTINCT and crowded >= CROWDED:
            found.append(
                (
                    "Try [specialize] (IAT): its last steps train only each task's own heads.",
                    f"tasks share {percent(crowded, 0)} % of their top heads "
                    f"(from {percentage(CROWDED)}), and the interval of D is below "
                    f"{percentage(DISTINCT)}",
                )
            )
    idle = idle_share(run)
    if idle is not None and idle < IDLE and not _pruning_cost(study):
        found.append(
            (
                f"Prune: `brodmann prune` with a share of {USUAL_ALPHA} should cost little.",
                f"the least important {percentage(USUAL_ALPHA)} of heads hold {percent(idle)} % of "
                f"all importance (below {percentage(IDLE)})",
            )
        )
    if result is not None and len(result.curve) < 2:
        found.append(
            (
                "Measure D over several shares: [dissociation] curve = [0.1, 0.2, 0.3, 0.5].",
                f"it was measured at {percentage(result.alpha)} only",
            )
        )
    if result is not None and result.random and 0 < len(result.random[0]) < FEWEST_DRAWS:
        found.append(
            (
                "Draw more random heads: [dissociation] draws = 20.",
                f"with {len(result.random[0])} draws no p can reach 0.05",
            )
        )
    return found


def _pruning_cost(study: Study) -> bool:
    """Whether the least important heads were switched off here, at a clear cost in score."""
    arms = {} if study.comparison is None else study.comparison["arms"]
    against = (arms.get("off_least") or {}).get("against")
    if against is None:
        return False
    return bool(against["average"]["significant"] and against["average"]["difference"] < 0)


def _training_steps(run: Record) -> list[Reasoned]:
    found = []
    rising, forgotten = [], []
    adaptation = run.measures.get("adaptation", {})
    lost = lost_tasks(adaptation)
    if lost:
        found.append((advice_against_loss(adaptation), f"{listed(list(lost))} lost score"))
    weak = unlearnt_tasks(run)
    if weak and not lost:
        found += _remedies(run, weak)
    for task, curve in learning_curves(run).items():
        lower = lower_is_better(run.validation.get(task, {}).get("metric"))
        values = [-value if lower else value for _, value in curve]
        if lower or len(values) < 2:  # points cannot be gained on an error
            continue
        if values[-1] == max(values):
            if values[-1] - values[-2] > STILL_RISING and task not in weak:
                rising.append(task)
        elif len(values) >= 3 and max(values) - values[-1] > FORGOTTEN:
            forgotten.append(task)
    if rising and not lost:  # more training would cost the old tasks more
        found.append(
            (
                f"Train longer (training.epochs): {listed(rising)} still improved at the end.",
                f"the last evaluation gained more than {100 * STILL_RISING:g} point",
            )
        )
    if forgotten:
        advice = f"Give {listed(forgotten)} more weight (training.sampling, or a task's weight)."
        if len(run.tasks) == 1:
            advice = "Train fewer epochs or at a lower rate, or set training.early_stopping."
        own = "its" if len(forgotten) == 1 else "their"
        reason = f"ended more than {100 * FORGOTTEN:g} points below {own} best evaluation"
        found.append((advice, f"{listed(forgotten)} {reason}"))
    for task, entry in run.validation.items():
        if (entry.get("truncated") or 0) > CUT:
            found.append(
                (
                    f"Raise model.max_length for {task}.",
                    f"{percent(entry['truncated'], 0)} % of its validation texts are cut",
                )
            )
    return found


def _remedies(run: Record, weak: dict[str, str]) -> list[Reasoned]:
    """More training for hardly trained tasks; more data if the training loss has fallen."""
    fallen = [task for task in weak if _has_fallen(run.validation.get(task, {}))]
    rest = [task for task in weak if task not in fallen]
    found = []
    if rest:
        verb = "is" if len(rest) == 1 else "are"
        words = "Train longer (training.epochs), raise training.learning_rate, or check the labels"
        reasons = "; ".join(f"{task}: {weak[task]}" for task in rest)
        found.append((f"{words}: {listed(rest)} {verb} {HARDLY}.", reasons))
    for task in fallen:
        entry = run.validation[task]
        loss = f"training loss {entry['training_loss']:.3f}, guessing {entry['guessing_loss']:.3f}"
        words = f"Give {task} more training examples: it learns those it has by heart."
        found.append((words, f"{loss}; {weak[task]}"))
    return found


def _has_fallen(entry: dict[str, Any]) -> bool:
    """Whether the training loss is far below that of guessing."""
    loss, guessing = entry.get("training_loss"), entry.get("guessing_loss")
    return loss is not None and guessing is not None and loss < FALLEN * guessing


def learning_curves(run: Record) -> dict[str, list[tuple[float, float]]]:
    """(step, primary score) of every evaluation during training, by task."""
    curves: dict[str, list[tuple[float, float]]] = {task: [] for task in run.tasks}
    for entry in run.entries("evaluation"):
        for task, scores in entry.get("scores", {}).items():
            metric = run.validation.get(task, {}).get("metric") or next(iter(scores), None)
            if metric in scores:
                curves.setdefault(task, []).append((entry["step"], scores[metric]))
    return curves


def idle_share(run: Record) -> float | None:
    """Share of all importance (tasks weighted equally) in the least important 30 % of heads."""
    if run.scores is None:
        return None
    together = run.scores.together()
    total = float(together.sum())
    if total <= 0 or together.min() < 0:  # negative leave-one-out scores have no share of a sum
        return None
    return float(
        sum(together[layer, head] for layer, head in run.scores.least(USUAL_ALPHA)) / total
    )


def missing_stages(run: Record) -> list[str]:
    """Commands for the stages that a run still lacks."""
    missing = []
    if not run.entries("evaluation"):
        missing.append("train")
    if not run.splits:
        missing.append("evaluate")
    return missing


def meta_findings(found: dict[str, Any]) -> list[tuple[str, str]]:
    """One line per pair: whether meta-training helped, after the last step on most examples."""
    lines = []
    for name, pair in found["pairs"].items():
        last = max(pair["table"], key=lambda entry: (entry["shots"], entry["steps"]))
        words = []
        for start, difference in last["differences"].items():
            if difference is None or difference.get("low") is None:
                continue  # one seed says nothing about another
            clear = difference["low"] > 0 or difference["high"] < 0
            side = "better" if difference["mean"] > 0 else "worse"
            verdict = f"{side} than" if clear else "not clearly different from"
            ends = interval((difference["low"], difference["high"]))
            words.append(f"{verdict} {start} ({points(difference['mean'])} {ends})")
        if words:
            after = f"after {last['steps']} steps on {last['shots']} examples"
            lines.append((f"{name}: meta-training is {', '.join(words)}", after))
    return lines
