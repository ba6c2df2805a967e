"""Meta-learning: how fast each start learns a pair of task and language it never saw."""

from typing import Any

from brodmann.reporting.blocks import Block, Lines, Section, Table, Words
from brodmann.reporting.record import Study
from brodmann.text import NOTHING, counted, mean_spread, points, with_interval


def section(study: Study) -> Section | None:
    run = next((run for run in study.runs if "meta" in run.measures), None)
    if run is None:
        return None
    return Section("meta", "Unseen pairs of task and language", pair_views(run.measures["meta"]))


def pair_views(found: dict[str, Any]) -> list[Block]:
    """For every unseen pair, its curves over steps and examples, and a table of both."""
    blocks: list[Block] = [Words(_how(found))]
    for name, pair in found["pairs"].items():
        starts = list(pair["table"][0]["starts"])
        most = max(entry["shots"] for entry in pair["table"])
        curve = [entry for entry in pair["table"] if entry["shots"] == most]
        draws = found.get("draws", 1)
        each = f", each the mean over {draws} draws of the examples" if draws > 1 else ""
        seeds = f"mean ± sd over {counted(found['seeds'], 'seed')}{each}."
        if len(curve) > 1:
            text = f"{name}: adapting on {most} examples, {seeds}"
            blocks.append(_lines(curve, starts, "steps", pair["metric"], text))
        last = max(entry["steps"] for entry in pair["table"])
        shots = [entry for entry in pair["table"] if entry["steps"] == last]
        if len(shots) > 1:
            text = f"{name}: after {last} steps, by number of examples, {seeds}"
            blocks.append(_lines(shots, starts, "shots", pair["metric"], text))
        rows = [
            [
                f"{entry['shots']} examples, {entry['steps']} steps",
                *(_scores(entry["starts"][start]) for start in starts),
                *(_difference(entry["differences"][start]) for start in entry["differences"]),
            ]
            for entry in pair["table"]
        ]
        against = [f"meta − {start} [95 %]" for start in pair["table"][0]["differences"]]
        head = "with a new output head" if pair["new_head"] else "with the output head it shares"
        caption = (
            f"{name} ({pair['metric']}, %), never trained on, {head}: {seeds} 0 steps are "
            "zero-shot. Differences have their 95 % intervals."
        )
        blocks.append(Table(["", *starts, *against], rows, caption))
    return blocks


def _lines(
    entries: list[dict[str, Any]], starts: list[str], axis: str, metric: str, caption: str
) -> Lines:
    """One line per start over steps or shots; points where every seed diverged are left out."""
    series = {
        start: [
            (float(place), 100 * mean[0], 100 * (mean[1] or 0.0))
            for place, entry in enumerate(entries)
            if (mean := entry["starts"][start]["mean"]) is not None
        ]
        for start in starts
    }
    title = {"steps": "steps", "shots": "examples"}[axis]
    labels = [str(entry[axis]) for entry in entries]
    return Lines(series, title, f"{metric} (%)", caption, x_labels=labels)


def _scores(entry: dict[str, Any]) -> str:
    if entry["mean"] is None:
        return "diverged"
    lost = f" ({entry['diverged']} diverged)" if entry.get("diverged") else ""
    return mean_spread(entry["mean"]) + lost


def _how(found: dict[str, Any]) -> str:
    tuned = f"on {found['tuning']}" if found["tuning"] else "beforehand"
    with_seed = " with the first seed, for all seeds" if found["tuning"] else ""
    chosen = ", ".join(f"{start} {entry['chosen']:g}" for start, entry in found["rates"].items())
    return (
        f"Trained on {', '.join(found['trained_on'])}. The adaptation rate was chosen {tuned} "
        f"among {found['settings_tried']}{with_seed}: {chosen}."
    )


def _difference(entry: dict[str, Any]) -> str:
    if entry["mean"] is None:
        return NOTHING
    ends = None if entry["low"] is None else (entry["low"], entry["high"])
    return with_interval(points(entry["mean"]), ends)
