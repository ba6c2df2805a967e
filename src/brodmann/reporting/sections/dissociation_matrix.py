"""Dissociation: what every task loses with each task's heads off (Li et al. 2023, Figures 2, 4, 8;
Tables 3, 9-11)."""

from typing import Any

import numpy as np

from brodmann.reporting.blocks import (
    Bars,
    Fold,
    Items,
    Lines,
    Matrix,
    Section,
    Words,
    interval,
    p_value,
    percent,
)
from brodmann.reporting.findings import unlearnt_tasks
from brodmann.reporting.record import Record, Study
from brodmann.reporting.separation import HARDLY, pair_findings
from brodmann.results import Dissociation, reasons_in_words


def section(study: Study) -> Section | None:
    measured = [run for run in study.runs if run.dissociation is not None]
    if not measured:
        return None
    first, *others = measured
    blocks = views(first)
    for run in others:
        blocks.append(Fold(f"The same for {run.name}", views(run)))
    title = "Dissociation" if not others else f"Dissociation: {first.name}"
    return Section("dissociation", title, blocks)


def views(run: Record) -> list[Any]:
    result = run.dissociation
    assert result is not None
    weak = [task for task in result.tasks if task in unlearnt_tasks(run)]
    share = f"{100 * result.alpha:g} %"
    blocks: list[Any] = [
        Words(
            f"Each task is scored with the top {share} of heads of one task switched off. A task "
            "that falls further without its own heads than without another's has separated from it."
        ),
        pruning_matrix(result),
        Bars(
            result.tasks,
            [None if d is None else 100 * d for d in result.per_task],
            [
                None if ends is None else [100 * end for end in ends]
                for ends in result.intervals["per_task"]
            ],
            "D, % of the intact score",
            "Dissociation of each task: how much more it loses without its own heads than without "
            f"another task's, on average (95 % interval over {_over(result)}).",
            [_remark(result, i, weak) for i in range(len(result.tasks))],
        ),
        Items(certainty(result), "How certain is D?"),
    ]
    if len(result.tasks) > 2:
        blocks.append(pairwise(result))
    blocks.append(finding_list(result, weak))
    if len(result.curve) > 1 and any(point["mean"] is not None for point in result.curve):
        blocks.append(curve(result))
    per_layer = [[float(count) for count in row] for row in result.heads_per_layer]
    most = max(max(row) for row in per_layer) or 1.0
    spread = [float(value) for value in result.layer_spread]
    layers = [f"layer {layer}" for layer in range(len(spread))]
    blocks.append(
        Fold(
            "Overlap and layers",
            [
                overlap(result),
                Matrix(
                    [*result.tasks, "spread over tasks"],
                    layers,
                    [*per_layer, spread],
                    f"Where each task's top {share} of heads stand: heads per layer, and their "
                    "standard deviation over tasks.",
                    [*[[value / most for value in row] for row in per_layer], [None] * len(spread)],
                    digits=0,
                    percent=False,
                    numbered=False,
                ),
            ],
        )
    )
    return blocks


def pruning_matrix(result: Dissociation) -> Matrix:
    base = np.array(result.base)
    random = [float(np.mean(draws)) if draws else None for draws in result.random]
    rows: list[list[float | None]] = [
        [*result.performance[i], random[i], result.base[i]] for i in range(len(base))
    ]
    return Matrix(
        result.tasks,
        [*(f"–{name}" for name in result.tasks), "random", "intact"],
        rows,
        "Score (%) of the task in the row with the heads of the task in the column off; random: as "
        "many heads drawn at random. The stronger the colour, the more of the intact score is "
        "lost.",
        [[_lost(value, base[i]) for value in row] for i, row in enumerate(rows)],
        bold_diagonal=True,
    )


def _lost(value: float | None, base: float) -> float | None:
    if value is None or base <= 0:
        return None
    return float(min(max(1 - value / base, 0.0), 1.0))


def pairwise(result: Dissociation) -> Matrix:
    most = max((abs(d) for row in result.pairwise for d in row if d is not None), default=0) or 1.0
    return Matrix(
        result.tasks,
        result.tasks,
        result.pairwise,
        "Pairwise D (%): how much more the task in the row loses without its own heads than "
        "without those of the task in the column.",
        [[None if d is None else max(d, 0.0) / most for d in row] for row in result.pairwise],
    )


def overlap(result: Dissociation) -> Matrix:
    return Matrix(
        result.tasks,
        result.tasks,
        result.overlap,
        f"Overlap (%): share of the top {100 * result.alpha:g} % of heads that two tasks have in "
        "common.",
        result.overlap,
        digits=0,
    )


def certainty(result: Dissociation) -> list[tuple[str, str]]:
    """What could have made D another one: examples judged, examples of importance, chance."""
    if result.mean is None:
        return [("D is undefined.", reasons_in_words(result.undefined))]
    items = []
    ends = result.intervals["mean"]
    if ends is not None:
        words = f"D = {percent(result.mean)} % {interval(ends)}"
        items.append((words, f"95 % interval over {_over(result)}"))
    if result.redrawn is not None:
        spread, redraws = result.redrawn["spread"]["mean"], result.redrawn["redraws"]
        kept = 100 * float(np.mean(result.redrawn["kept"]))
        words = f"Other importance examples move D by {percent(spread)} points (one sd)"
        items.append((words, f"{redraws} redraws, which keep {kept:.0f} % of the chosen heads"))
    if result.null is not None and result.null["p"] is not None:
        null = result.null
        words = f"{p_value(null['p'])} against the same heads, dealt to the tasks at random"
        beyond = f"95 % of {null['values']} ways to deal them give at most"
        items.append((words, f"{beyond} {percent(null['highest'])} %"))
    return items


def _over(result: Dissociation) -> str:
    return " and ".join(result.intervals.get("over", ["validation examples"]))


def finding_list(result: Dissociation, weak: list[str]) -> Fold | Items:
    """What every pair shows, by both intervals."""
    items = []
    between = result.intervals.get("pairwise")
    for (i, j), finding in pair_findings(result, weak).items():
        both = " and ".join(
            "undefined"
            if result.pairwise[a][b] is None
            else f"{percent(result.pairwise[a][b])} % "
            + interval(between[a][b] if between else None)
            for a, b in ((i, j), (j, i))
        )
        shared = f"{100 * result.overlap[i][j]:.0f} % of their heads shared"
        items.append((f"{result.tasks[i]} – {result.tasks[j]}: {finding}", f"D {both}; {shared}"))
    every = Items(items, "Pairs")
    return every if len(items) <= 3 else Fold(f"{len(items)} pairs in words", [every])


def curve(result: Dissociation) -> Lines:
    series: dict[str, list[tuple[float, float]]] = {task: [] for task in result.tasks}
    mean = []
    for point in result.curve:
        if point["mean"] is not None:
            mean.append((100 * point["alpha"], 100 * point["mean"]))
        for task, value in zip(result.tasks, point["per_task"], strict=True):
            if value is not None:
                series[task].append((100 * point["alpha"], 100 * value))
    return Lines(
        {**series, "(mean)": mean},
        "share of heads switched off (%)",
        "D (%)",
        "Dissociation over the share of heads.",
        [(100 * result.alpha, "main")],
    )


def _remark(result: Dissociation, place: int, weak: list[str]) -> str:
    name = result.tasks[place]
    if name in result.undefined:
        return f"undefined ({result.undefined[name]})"
    p = result.p_values[place]
    words = [] if p is None or not result.random[place] else [f"{p_value(p)} against random"]
    if name in weak:
        words.append(HARDLY)
    return ", ".join(words)
