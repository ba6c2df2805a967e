"""The answer first: scores, who shares well, how far tasks have separated, what to try next."""

from typing import Any

from brodmann.reporting.blocks import Items, Section, Table, Words, interval, percent
from brodmann.reporting.findings import cautions, next_steps, separation, sharing
from brodmann.reporting.record import Record, Study


def section(study: Study) -> Section | None:
    run = study.first
    if run is None:
        return None
    blocks: list[Any] = []
    apart = separation(run.dissociation)
    if apart:
        blocks.append(Words(apart[0][0], "lead"))
        blocks.append(Items([(apart[0][1], ""), *apart[1:]]))
    if shared := sharing(study):
        blocks.append(Items(shared, "Sharing against single-task training"))
    if run.validation:
        blocks.append(score_table(run))
    if careful := cautions(run):
        blocks.append(Items(careful, "Be careful"))
    if steps := next_steps(study):
        blocks.append(Items(steps, "What to try next"))
    return Section("answer", "In short", blocks) if blocks else None


def score_table(run: Record) -> Table:
    split = "validation"
    rows = []
    for task, entry in run.validation.items():
        learnt = entry["score"] - entry["trivial"]
        rows.append(
            (
                task,
                entry["metric"],
                percent(entry["score"]),
                interval(entry.get("interval")),
                percent(entry["trivial"]),
                f"{100 * learnt:+.1f}",
                f"{entry['examples']:,}",
            )
        )
    columns = ("task", "metric", "score (%)", "95 % interval", "without reading", "gain", "judged")
    caption = (
        f"Scores on the {split} split. “Without reading” is the best answer that ignores the text. "
        "The interval is over examples; another seed would move the score as well."
    )
    return Table(columns, rows, caption)
