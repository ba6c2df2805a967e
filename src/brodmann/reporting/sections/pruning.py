"""The pruning curve: scores as more and more heads are switched off."""

from typing import Any

from brodmann.reporting.blocks import Block, Lines, Section, Table, Words
from brodmann.reporting.record import Study
from brodmann.text import counted, percent

LOST = 0.01  # a loss up to this is small enough to be worth a sentence


def section(study: Study) -> Section | None:
    found = [run.measures["pruning-curve"] for run in study.runs if "pruning-curve" in run.measures]
    if not found:
        return None
    return Section("pruning", "Pruning curve", curves(found[0]))


def curves(result: dict[str, Any]) -> list[Block]:
    """One picture and one table per task."""
    blocks: list[Block] = []
    for name, task in result["tasks"].items():
        blocks.append(Words(_lead(name, task), "lead"))
        least = [(0.0, 100 * task["base"])]
        random = [(0.0, 100 * task["base"])]
        least += [(100 * p["share"], 100 * p["least"]) for p in task["points"]]
        random += [(100 * p["share"], 100 * p["random"]) for p in task["points"]]
        guess = [(0.0, 100 * task["trivial"]), (90.0, 100 * task["trivial"])]
        series = {"least important heads": least, "random heads": random}
        blocks.append(
            Lines(
                series | {"most frequent label": guess},
                "heads switched off (%)",
                f"{task['metric']} (%)",
                f"{task['metric']} of {name} on {counted(task['examples'], 'example')} with heads "
                f"off; random: mean of {counted(result['draws'], 'draw')}.",
            )
        )
        rows = [
            [percent(p["share"]), str(p["heads"]), percent(p["least"]), percent(p["random"])]
            for p in task["points"]
        ]
        columns = ["off (%)", "heads", "least important (%)", "random (%)"]
        blocks.append(Table(columns, rows, f"All heads on: {percent(task['base'])} %."))
    return blocks


def _lead(name: str, task: dict[str, Any]) -> str:
    """What the curve says: how many heads can go for how much."""
    small = [p for p in task["points"] if task["base"] - p["least"] <= LOST]
    if task["base"] <= task["trivial"]:
        return (
            f"{name}: the model answers no better than the most frequent label "
            f"({percent(task['trivial'])} %), so the curve says nothing about its heads."
        )
    if not small:
        first = task["points"][0]
        return (
            f"{name}: switching off {percent(first['share'])} % of the heads already costs "
            f"{100 * (task['base'] - first['least']):.1f} points."
        )
    most = small[-1]
    return (
        f"{name}: the {most['heads']} least important heads ({percent(most['share'])} %) can be "
        f"switched off for at most {100 * LOST:.0f} point on these examples."
    )
