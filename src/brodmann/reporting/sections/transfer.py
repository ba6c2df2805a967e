"""Few-shot transfer: how fast each start learns a new task."""

from typing import Any

from brodmann.reporting.blocks import Lines, Section, Table, mean_spread
from brodmann.reporting.record import Study


def section(study: Study) -> Section | None:
    summary = study.transfer
    if summary is None:
        return None
    blocks: list[Any] = []
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
                    + ("*" if table[amount][start].get("significant") else "")
                    for start in starts
                ),
            ]
            for amount in table
        ]
        caption = (
            f"{task}: {metric} (%), mean ± sd over seeds; a star differs from {starts[0]} at 5 % "
            "(one-sided paired bootstrap over 10 seeds or more)."
        )
        blocks.append(Table(("examples", *starts), rows, caption))
    return Section("transfer", "Few-shot transfer", blocks)
