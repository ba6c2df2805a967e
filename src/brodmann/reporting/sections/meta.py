"""Meta-learning: how fast each start learns a pair of task and language it never saw."""

from typing import Any

from brodmann.reporting.blocks import Lines, Section, Table, Words, mean_spread, percent
from brodmann.reporting.record import Study


def section(study: Study) -> Section | None:
    run = next((run for run in study.runs if "meta" in run.measures), None)
    if run is None:
        return None
    found = run.measures["meta"]
    blocks: list[Any] = [Words(_how(found))]
    for name, pair in found["pairs"].items():
        starts = list(pair["table"][0]["starts"])
        most = max(entry["shots"] for entry in pair["table"])
        curve = [entry for entry in pair["table"] if entry["shots"] == most]
        if len(curve) > 1:
            series = {
                start: [
                    (
                        float(place),
                        100 * entry["starts"][start]["mean"][0],
                        100 * (entry["starts"][start]["mean"][1] or 0.0),
                    )
                    for place, entry in enumerate(curve)
                ]
                for start in starts
            }
            text = f"{name}: adapting on {most} examples, mean ± sd over {found['seeds']} seeds."
            labels = [str(entry["steps"]) for entry in curve]
            blocks.append(Lines(series, "steps", f"{pair['metric']} (%)", text, x_labels=labels))
        rows = [
            [
                f"{entry['shots']} examples, {entry['steps']} steps",
                *(mean_spread(entry["starts"][start]["mean"]) for start in starts),
                *(_difference(entry["differences"][start]) for start in entry["differences"]),
            ]
            for entry in pair["table"]
        ]
        against = [f"meta − {start} [95 %]" for start in pair["table"][0]["differences"]]
        head = "with a new output head" if pair["new_head"] else "with the output head it shares"
        caption = f"{name} ({pair['metric']}, %), never trained on, {head}; 0 steps are zero-shot."
        blocks.append(Table(["", *starts, *against], rows, caption))
    return Section("meta", "Unseen pairs of task and language", blocks)


def _how(found: dict[str, Any]) -> str:
    tuned = f"on {found['tuning']}" if found["tuning"] else "beforehand"
    chosen = ", ".join(f"{start} {entry['chosen']:g}" for start, entry in found["rates"].items())
    return (
        f"Trained on {', '.join(found['trained_on'])}. The rate of adapting was chosen {tuned} "
        f"among {found['settings_tried']}: {chosen}."
    )


def _difference(entry: dict[str, Any]) -> str:
    mean = percent(entry["mean"])
    if entry["low"] is None:
        return mean
    return f"{mean} [{percent(entry['low'])}, {percent(entry['high'])}]"
