"""Compression: what was promised, what it costs each task, and what stands in the way."""

from collections.abc import Mapping
from typing import Any

from brodmann.reporting.blocks import Block, Lines, Matrix, Section, Table, Words
from brodmann.reporting.record import Study
from brodmann.text import listed, millions, plain

Facts = Mapping[str, Any]
TOP_HEADS = 5  # named in words
WORST = 15  # points: trials that lose more are left out of the picture
WHY = {
    "confirmed": "On examples that the search never saw, no task loses more, with 95 % confidence.",
    "consistent": "On examples that the search never saw, no task lost more than that, but they "
    "are too few to be 95 % sure of every task.",
    "refuted": "On examples that the search never saw, a task lost more than that: do not rely on "
    "this model, or allow more and search again.",
}


def section(study: Study) -> Section | None:
    found = [run.measures["compression"] for run in study.runs if "compression" in run.measures]
    return Section("compression", "A smaller model", blocks(found[0])) if found else None


def blocks(found: Facts) -> list[Block]:
    """The verdict, the tasks, the trade-offs, and what blocks."""
    result: list[Block] = [*_verdict(found)]
    if "confirmed" in found:
        result.append(_tasks(found))
    result += _tradeoffs(found)
    result += _blocking(found)
    if "left" in found:
        result.append(_shape(found))
    return result


def _verdict(found: Facts) -> list[Block]:
    lose = f"{found['wishes']['lose']:g}"
    words: list[Block] = []
    if "speed" not in found:
        asked = [f"{k} {found['wishes'][k]:g}" for k in ("latency", "size") if found["wishes"][k]]
        at = f" at {asked[0]}" if asked else ""
        words.append(
            Words(f"No model{at} keeps every task within {lose} points. What was tried:", "lead")
        )
    else:
        before, after = found["parameters"]
        speeds = [f"{plain(value, 2)} × as fast at {k}" for k, value in found["speed"].items()]
        words.append(
            Words(
                f"Each task may lose {lose} points: {listed(speeds)} tokens; "
                f"{millions(before, 1)} → {millions(after, 1)} parameters.",
                "lead",
            )
        )
        tone = "warning" if found["verdict"] == "refuted" else "plain"
        words.append(Words(f"{found['verdict'].capitalize()}. {WHY[found['verdict']]}", tone))
    if few := found.get("unprovable"):
        words.append(
            Words(
                f"{listed(few)}: too few validation examples to show a loss of {lose} points at "
                "95 % confidence, even if nothing were lost. They are held to what was measured.",
                "caution",
            )
        )
    if cut := found.get("vocabulary"):
        words.append(
            Words(f"Vocabulary: {cut['before']:,} → {cut['after']:,} pieces, those in use.", "note")
        )
    return words


def _tasks(found: Facts) -> Table:
    rows = [
        (
            task,
            entry["metric"],
            f"{entry['examples']:,}",
            plain(100 * entry["before"], 1),
            plain(100 * entry["after"], 1),
            plain(entry["points"], 1),
            plain(entry["bound"], 1),
            found["confirmed_on"][task],
        )
        for task, entry in found["confirmed"].items()
    ]
    columns = ("task", "metric", "examples", "before", "after", "lost", "at most", "confirmed on")
    return Table(columns, rows, "Scores (%) and points lost; at most: upper bound, 95 %.")


def _tradeoffs(found: Facts) -> list[Block]:
    trials = sorted(
        (trial for trial in found["trials"] if trial["without"] is None),
        key=lambda trial: trial["speed"],
    )
    if not trials:
        return []
    tasks = list(trials[0]["losses"])
    near = [t for t in trials if max(one["points"] for one in t["losses"].values()) <= WORST]
    series = {
        task: [(1.0, 0.0), *((t["speed"], t["losses"][task]["points"]) for t in near)]
        for task in tasks
    }
    rows = [
        (
            f"{plain(trial['speed'], 2)} ×",
            *(_lost(trial["losses"][task]) for task in tasks),
            "yes" if trial["holds"] else "no",
        )
        for trial in trials
    ]
    return [
        Lines(
            series,
            "times as fast (from the measured times of its blocks)",
            "points lost",
            "Speed against what each task loses on the examples searched on.",
        ),
        Table(("speed", *tasks, "holds"), rows, "Points lost, with upper bounds, of every trial."),
    ]


def _lost(loss: Facts) -> str:
    return f"{plain(loss['points'], 1)} (≤ {plain(loss['bound'], 1)})"


def _blocking(found: Facts) -> list[Block]:
    blocking = found.get("blocking")
    if blocking is None:
        return []
    heads = listed([f"{layer}.{head}" for layer, head, _ in blocking["heads"][:TOP_HEADS]])
    text = f"{blocking['task']} blocks further cutting. Its most important heads: {heads}."
    shares = blocking["neurons"]
    if shares:
        most = max(shares, key=lambda layer: shares[layer])
        text += f" Of its neurons, those of layer {most} matter most ({100 * shares[most]:.0f} %)."
    tried = [trial for trial in found["trials"] if trial["without"] == blocking["task"]]
    held = [trial["speed"] for trial in tried if trial["holds"]]
    if held:
        text += (
            f" Without {blocking['task']}, the others hold at {plain(max(held), 2)} × "
            f"(--drop {blocking['task']})."
        )
    elif tried:
        text += " Without it, the others would not hold at a higher speed either."
    return [Words(text), _heads_of(blocking)] if blocking["heads"] else [Words(text)]


def _heads_of(blocking: Facts) -> Matrix:
    """How important each head is to the task that blocks, as on the atlas."""
    highest = blocking["heads"][0][2] or 1.0
    layers = sorted({layer for layer, _, _ in blocking["heads"]})
    count = 1 + max(head for _, head, _ in blocking["heads"])
    values: list[list[float | None]] = [[None] * count for _ in layers]
    for layer, head, importance in blocking["heads"]:
        values[layers.index(layer)][head] = importance / highest
    return Matrix(
        [f"layer {layer}" for layer in layers],
        [f"head {head}" for head in range(count)],
        values,
        f"Importance of each head to {blocking['task']}, as a share of the highest (%).",
        values,
        digits=0,
        numbered=False,
        colours="darker: more important",
    )


def _shape(found: Facts) -> Matrix:
    """What is left of every block, by layer."""
    kinds = {"attention": "heads", "feed_forward": "neurons"}
    layers = sorted({block["layer"] for block in found["blocks"]})
    values: dict[str, list[float | None]] = {name: [None] * len(layers) for name in kinds.values()}
    shades: dict[str, list[float | None]] = {name: [None] * len(layers) for name in kinds.values()}
    for block, left in zip(found["blocks"], found["left"], strict=True):
        place = layers.index(block["layer"])
        values[kinds[block["kind"]]][place] = left
        shades[kinds[block["kind"]]][place] = left / block["units"]
    return Matrix(
        list(values),
        [f"layer {layer}" for layer in layers],
        list(values.values()),
        "Heads (or groups that share their keys) and neurons that are left in each layer.",
        list(shades.values()),
        digits=0,
        percent=False,
        numbered=False,
        colours="darker: more is left",
    )
