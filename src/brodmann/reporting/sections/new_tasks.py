"""New tasks for a trained model: scores of each start before any training (Pilault et al. 2021,
Table 8), after it (Table 3), and what happened to the old tasks."""

from typing import Any

from brodmann.reporting.adaptation import ALIKE, advice_against_loss, loss_in_words, start_rows
from brodmann.reporting.blocks import Block, Section, Table, Words
from brodmann.reporting.record import Study
from brodmann.text import counted, interval, percent, points


def section(study: Study) -> Section | None:
    run = next((run for run in study.runs if "adaptation" in run.measures), None)
    if run is None:
        return None
    found = run.measures["adaptation"]
    return Section("new-tasks", "New tasks", [*zero_shot(found), *adapted(found)])


def zero_shot(found: dict[str, Any]) -> list[Block]:
    """Scores of each start on the new tasks before any training, and after it."""
    tasks = list(found["zero_shot"])
    rows = [[start, *map(percent, scores)] for start, scores in start_rows(found)]
    after = found.get("scores", {}).get("validation", {})
    if after:
        rows.append(["after training", *(percent(after[task]["score"]) for task in tasks)])
    columns = ["start", *(f"{task}: {found['metrics'][task]} (%)" for task in tasks)]
    heads = "its own new output head" if found["head"] == "new" else "the start's output head"
    start = "with" if found.get("alike") else "started like each of its tasks, with"
    caption = f"New tasks on a trained model, {start} {heads}: zero-shot, before any training"
    caption += ", and after it." if after else "."
    if found.get("alike"):
        caption += f" {ALIKE}"
    return [Table(columns, rows, caption, alike=True)]


def adapted(found: dict[str, Any]) -> list[Block]:
    """Scores for each share of the data, and what happened to the old tasks."""
    blocks: list[Block] = []
    if "shares" in found:
        blocks.append(by_share(found, list(found["zero_shot"])))
    if found.get("old", {}).get("after"):
        blocks.append(old_tasks(found["old"]))
    if lost := loss_in_words(found):
        blocks.append(Words(f"{lost} {advice_against_loss(found)}", "warning"))
    return blocks


def by_share(found: dict[str, Any], tasks: list[str]) -> Table:
    rows = [
        [
            share,
            *(f"{percent(row['scores'][t])} ({counted(row['examples'][t], 'example')})"
              for t in tasks),
        ]
        for share, row in found["shares"].items()
    ]  # fmt: skip
    columns = ["training data", *(f"{task}: {found['metrics'][task]} (%)" for task in tasks)]
    caption = "Trained from the start once for each share of the data; each inside the next larger."
    return Table(columns, rows, caption)


def old_tasks(old: dict[str, Any]) -> Table:
    ends = old.get("interval", {})
    rows = [
        [f"{task} ({old['metrics'][task]})", percent(before), percent(old["after"][task]),
         points(old["after"][task] - before), interval(ends.get(task))]
        for task, before in old["before"].items()
    ]  # fmt: skip
    caption = (
        "The model's old tasks (%, validation) before and after the new ones were learnt; the "
        "interval is of the change, over examples."
    )
    return Table(("old task", "before", "after", "change", "95 % interval"), rows, caption)
