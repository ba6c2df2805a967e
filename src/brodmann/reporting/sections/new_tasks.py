"""New tasks for a trained model: what each start scores before any training (Pilault et al. 2021,
Table 8), and after it."""

from typing import Any

from brodmann.reporting.blocks import Section, Table, percent
from brodmann.reporting.record import Study


def section(study: Study) -> Section | None:
    run = next((run for run in study.runs if "adaptation" in run.measures), None)
    if run is None:
        return None
    found = run.measures["adaptation"]
    tasks = list(found["zero_shot"])
    starts = list(dict.fromkeys(s for table in found["zero_shot"].values() for s in table))
    rows: list[Any] = [
        [
            start,
            *(
                percent(found["zero_shot"][task].get(start, {}).get(found["metrics"][task]))
                for task in tasks
            ),
        ]
        for start in starts
    ]
    after = found.get("scores", {}).get("validation", {})
    if after:
        rows.append(["after training", *(percent(after[task]["score"]) for task in tasks)])
    columns = ["start", *(f"{task}: {found['metrics'][task]} (%)" for task in tasks)]
    heads = "its own new output head" if found["head"] == "new" else "the start's output head"
    caption = f"New tasks on a trained model, started like each of its tasks, with {heads}."
    return Section("new-tasks", "New tasks", [Table(columns, rows, caption)])
