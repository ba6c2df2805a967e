"""The page of `advise`: its chapters, made of the same tables as the terminal's lines."""

from collections.abc import Mapping
from typing import Any

from brodmann.reporting.advice_tables import advice, and_list, beliefs, heads_text
from brodmann.reporting.blocks import (
    Bars,
    Block,
    Code,
    Fold,
    Items,
    Lines,
    Matrix,
    Section,
    Table,
    Words,
)
from brodmann.text import NOTHING, percent, points

Facts = Mapping[str, Any]


def advice_sections(facts: Facts) -> list[Section]:
    """The chapters of the page."""
    found = [Section("answer", "The answer", [*advice(facts), *_commands(facts)])]
    if facts["verdict"]["gains"]:
        found.append(Section("gains", "Gains on untouched examples", [_bars(facts)]))
    found.append(Section("looked", "What the files are", beliefs(facts["looked"])))
    if facts["trials"]:
        found.append(Section("trials", "What was tried", _trials(facts)))
    if facts["relations"]:
        found.append(Section("relations", "How the tasks relate", _relations(facts["relations"])))
    if facts["curves"]:
        found.append(Section("labels", "How many more labels are worth it", _curves(facts)))
    if facts["heads"]:
        found.append(Section("heads", "Heads that the tasks share", _heads(facts)))
    return found


def _commands(facts: Facts) -> list[Block]:
    lines = [f"brodmann serve {model['folder']}" for model in facts["models"]]
    lines += [f"brodmann run {path}" for path in facts["configurations"]]
    return [Code("\n".join(lines), "Serve the models, or train them again")] if lines else []


def _bars(facts: Facts) -> Bars:
    gains = facts["verdict"]["gains"]
    return Bars(
        list(gains),
        [100 * one["mean"] for one in gains.values()],
        [[100 * one["low"], 100 * one["high"]] for one in gains.values()],
        "points",
        "Gain of the chosen arrangement over each task's own model.",
        [one["verdict"] for one in gains.values()],
    )


def _trials(facts: Facts) -> list[Block]:
    rows = [
        (
            one["arrangement"],
            str(one["seeds"]),
            NOTHING if one["gain"] is None else points(one["gain"]),
            one["state"] + (f": {one['reason']}" if one["reason"] else ""),
        )
        for one in facts["trials"]
    ]
    caption = (
        "Mean gain over the tasks on the choosing part. It is what the choice maximised, so it is "
        "larger than what new examples show."
    )
    signals = [
        (
            name,
            percent(one["trivial"]),
            percent(one["probe"]),
            percent(one["alone"]),
            "yes" if one["present"] else "no",
        )
        for name, one in facts["signals"].items()
    ]
    columns = ("task", "trivial", "linear probe", "own model", "signal")
    text = "The floor: scores (%) on the choosing part without sharing anything, first seed."
    return [
        Table(("arrangement", "seeds", "gain", "state"), rows, caption),
        Table(columns, signals, text),
    ]


def _relations(found: Facts) -> list[Block]:
    names = found["tasks"]
    blocks: list[Block] = []
    for key, text in (
        ("words", "Share of the column's words that the row has too."),
        ("representations", "Cosine of mean representations around their mean, from 0 to 1."),
    ):
        values = found[key]
        blocks.append(Matrix(names, names, values, text, values, percent=True))
    groups = [(and_list(group), "") for group in found["clusters"]]
    return [*blocks, Items(groups, f"Groups (silhouette {found['silhouette']:.2f})")]


def _curves(facts: Facts) -> list[Block]:
    blocks: list[Block] = []
    for name, one in facts["curves"].items():
        series = {"alone": list(zip(one["examples"], [100 * v for v in one["alone"]], strict=True))}
        if one["shared"] is not None:
            shared = [100 * value for value in one["shared"]]
            series["shared"] = list(zip(one["examples"], shared, strict=True))
        text = (
            f"{name}: the last doubling of the labels brought {points(one['last_doubling'])} points"
            ", and another one may bring as much at most if the curve flattens."
        )
        blocks.append(Lines(series, "training examples", "score (%)", text, log_x=True))
    return blocks


def _heads(facts: Facts) -> list[Block]:
    blocks: list[Block] = []
    for one in facts["heads"]:
        rows = [(pair, percent(share)) for pair, share in one["overlap"].items()]
        blocks.append(Words(heads_text(one)))
        text = (
            f"Share (%) of one task's top {percent(one['by_chance'])} % of the heads that is in "
            f"the other's; {percent(one['by_chance'])} % by chance. Tasks with a small overlap "
            "can each be pruned far without hurting the other."
        )
        blocks.append(Fold("Pairs of tasks", [Table(("pair", "overlap"), rows, text)]))
    return blocks
