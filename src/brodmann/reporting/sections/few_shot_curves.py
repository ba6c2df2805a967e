"""Few-shot transfer: how fast each start learns a new task."""

from typing import Any

from brodmann.reporting.blocks import Block, Lines, Section, Table
from brodmann.reporting.record import Study
from brodmann.text import NOTHING, difference, mean_spread


def section(study: Study) -> Section | None:
    if study.transfer is None:
        return None
    return Section("transfer", "Few-shot transfer", learnt(study.transfer))


def learnt(summary: dict[str, Any]) -> list[Block]:
    """For every task, a curve over the amounts of data, and a table of what each start gains."""
    blocks: list[Block] = []
    for task, table in summary["tasks"].items():
        starts = list(next(iter(table.values())))
        metric = summary["metrics"][task]
        if len(table) > 1:
            series = {
                start: [
                    (float(place), *(100 * (v or 0.0) for v in table[amount][start]["mean"]))
                    for place, amount in enumerate(table)
                ]
                for start in starts
            }
            text = f"{task}: {metric} after learning from a few examples, mean ± sd over seeds."
            axis = "training examples"
            blocks.append(Lines(series, axis, f"{metric} (%)", text, x_labels=list(table)))
        rows = [
            [
                amount,
                *(
                    mean_spread(table[amount][start]["mean"])
                    + ("*" if table[amount][start].get("against", {}).get("significant") else "")
                    for start in starts
                ),
                *(_gain(table[amount][start].get("against")) for start in starts[1:]),
            ]
            for amount in table
        ]
        caption = (
            f"{task}: {metric} (%), mean ± sd over seeds; a star differs from {starts[0]} at 5 % "
            "(two-sided t-test over 3 seeds or more). Differences are paired by seed, in points, "
            "with their 95 % intervals."
        )
        gains = [f"{start} − {starts[0]}" for start in starts[1:]]
        blocks.append(Table(("examples", *starts, *gains), rows, caption))
    return blocks


def _gain(found: dict[str, Any] | None) -> str:
    return NOTHING if found is None else difference(found)
