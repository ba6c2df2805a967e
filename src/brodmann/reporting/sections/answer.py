"""The answer first: scores, gains by sharing, how far tasks have separated, what to try next."""

from collections.abc import Mapping, Sequence
from typing import Any

from brodmann.data.kinds import lower_is_better
from brodmann.data.tasks import Task
from brodmann.reporting.blocks import Block, Items, Section, Table, Words
from brodmann.reporting.findings import (
    arms_against_baseline,
    cautions,
    meta_findings,
    missing_stages,
    next_steps,
    sharing,
    unlearnt_tasks,
)
from brodmann.reporting.record import Study
from brodmann.reporting.separation import HARDLY, separation
from brodmann.text import interval, percent, points

MANY = 8  # more tasks push everything else off the first screen


def section(study: Study) -> Section | None:
    run = study.first
    if run is None:
        return None
    blocks: list[Block] = []
    if "meta" in run.measures:  # it has other stages
        if found := meta_findings(run.measures["meta"]):
            blocks.append(Items(found, "Learning unseen pairs"))
    elif missing := missing_stages(run):
        commands = ", ".join(f"`brodmann {stage}`" for stage in missing)
        blocks.append(Words(f"Not finished: {commands} is still to come.", "lead"))
    if arms := arms_against_baseline(study):
        blocks.append(Items(arms, "Ways of training"))
    if shared := sharing(study):
        blocks.append(Items(shared, "Sharing against single-task training"))
    if apart := separation(run.dissociation, unlearnt_tasks(run)):
        words, measure = apart[0]
        one = f"{run.name}: {words}" if len(study.runs) > 1 else words
        blocks.append(Words(one, "lead"))
        blocks.append(Items([(measure, ""), *apart[1:]]))
    of = f" of {run.name}" if len(study.runs) > 1 else ""
    table = [score_table(run.splits, of=of)] if run.splits else []
    blocks += table if len(run.tasks) <= MANY else []
    if careful := [*cautions(run), *((note, "") for note in study.notes)]:
        blocks.append(Items(careful, "Be careful"))
    if steps := next_steps(study):
        blocks.append(Items(steps, "What to try next"))
    blocks += [] if len(run.tasks) <= MANY else table
    return Section("answer", "In short", blocks) if blocks else None


def scores(tasks: Sequence[Task], splits: Mapping[str, Any]) -> list[Block]:
    """The scores of a run with all metrics of its tasks, and which tasks are hardly trained."""
    shown = {task.name: task.spec.metrics for task in tasks}
    weak = {
        name: entry["undertrained"]
        for name, entry in splits.get("validation", {}).items()
        if entry.get("undertrained")
    }
    words = (Words(f"{name} is {HARDLY}: {reason}", "caution") for name, reason in weak.items())
    return [score_table(splits, metrics=shown), *words]


def score_table(
    splits: Mapping[str, Any],
    *,
    of: str = "",
    metrics: Mapping[str, Sequence[str]] | None = None,
) -> Table:
    """Every evaluated split, validation first: each task's primary metric, then the others that
    `metrics` names."""
    several = len(splits) > 1
    rows: list[tuple[str, ...]] = []
    primary = []
    for split, results in splits.items():
        for task, entry in results.items():
            primary.append(len(rows))
            rows.append((task, *((split,) if several else ()), *_cells(entry)))
            for metric in (metrics or {}).get(task, ()):
                if metric != entry["metric"]:
                    more = {"metric": metric, "score": entry["scores"][metric]}
                    cells = (*_cells(more)[:2], "", "", "", "")
                    rows.append(("", *(("",) if several else ()), *cells))
    columns = ("task", *(("split",) if several else ()), "metric", "score (%)")
    columns += ("95 % interval (%)", "without reading (%)", "gain (points)", "examples")
    caption = (
        f"Scores{of}. “Without reading” is the best answer that ignores the text. The interval is "
        "over examples (accuracy and exact match: Wilson's; others: bootstrap); another seed would "
        "move the score as well."
    )
    return Table(columns, rows, caption, primary if len(primary) < len(rows) else ())


def _cells(entry: dict[str, Any]) -> tuple[str, ...]:
    """Metric, score, interval, trivial, gain, examples; an error is not a percentage."""
    metric, score, trivial = entry["metric"], entry["score"], entry.get("trivial")
    ends, examples = entry.get("interval"), entry.get("examples")
    judged = "–" if examples is None else f"{examples:,}"
    if lower_is_better(metric):
        between = "" if ends is None else f"[{ends[0]:.3g}, {ends[1]:.3g}]"
        guess = "–" if trivial is None else f"{trivial:.3g}"
        return (f"{metric} (lower is better)", f"{score:.3g}", between, guess, "–", judged)
    gain = "–" if trivial is None else points(score - trivial)
    return (metric, percent(score), interval(ends), percent(trivial), gain, judged)
