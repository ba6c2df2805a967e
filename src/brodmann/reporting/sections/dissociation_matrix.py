"""Dissociation: what every task loses with each task's heads off (Li et al. 2023, Figures 2, 4, 8;
Tables 3, 9-11)."""

from collections.abc import Collection, Sequence

import numpy as np

from brodmann.models.encoders import architecture_of
from brodmann.reporting.blocks import Bars, Block, Fold, Items, Lines, Matrix, Section, Words
from brodmann.reporting.findings import unlearnt_tasks
from brodmann.reporting.record import Study
from brodmann.reporting.separation import HARDLY, pair_findings
from brodmann.results import Dissociation
from brodmann.text import p_value, percent, percentage, reasons, with_interval


def section(study: Study) -> Section | None:
    measured = [(run, run.dissociation) for run in study.runs if run.dissociation is not None]
    if not measured:
        return None
    (first, result), *others = measured
    blocks = views(result, unlearnt_tasks(first))
    if first.d_of_other_map:
        blocks.insert(0, Words("Measured on an earlier map of heads than the atlas.", "caution"))
    for run, result in others:
        blocks.append(Fold(f"The same for {run.name}", views(result, unlearnt_tasks(run))))
    title = "Dissociation" if not others else f"Dissociation: {first.name}"
    return Section("dissociation", title, blocks)


def views(result: Dissociation, hardly_trained: Collection[str]) -> list[Block]:
    """The result in short, then pair by pair, over other shares, and layer by layer."""
    blocks = summary(result, hardly_trained)
    if len(result.tasks) > 2:
        blocks.append(pairwise(result))
    if len(result.curve) > 1 and any(point["mean"] is not None for point in result.curve):
        blocks.append(curve(result))
    blocks.append(Fold("Overlap and layers", [overlap(result), layers(result)]))
    return blocks


def summary(result: Dissociation, hardly_trained: Collection[str] | None = None) -> list[Block]:
    """Scores with heads off, D of each task and of all, every pair, and reasons for care.

    `hardly_trained` are the tasks whose D says little; by default those the result itself names.
    """
    named = result.undertrained if hardly_trained is None else hardly_trained
    weak = [task for task in result.tasks if task in named]
    words = (
        f"Each task is scored with the top {percentage(result.alpha)} of heads of one task "
        "switched off. A task that falls further without its own heads than without another's has "
        "separated from it."
    )
    return [
        Words(words),
        pruning_matrix(result),
        per_task(result, weak),
        Items(certainty(result), "How certain is D?"),
        finding_list(result, weak),
        *(Words(text, "caution") for text in cautions(result)),
    ]


def per_task(result: Dissociation, weak: Sequence[str]) -> Bars:
    return Bars(
        result.tasks,
        [None if d is None else 100 * d for d in result.per_task],
        [
            None if ends is None else [100 * end for end in ends]
            for ends in result.intervals["per_task"]
        ],
        "D, % of the intact score",
        "Dissociation of each task: how much more it loses without its own heads than without "
        f"another task's, on average (95 % interval over {_over(result)}).",
        [_remark(result, place, weak) for place in range(len(result.tasks))],
    )


def cautions(result: Dissociation) -> list[str]:
    """Why some of the numbers are missing or mean little."""
    found = []
    if architecture_of(result.settings.get("architecture")).separate:
        found.append(
            "every task has its own encoder here: heads are compared by their positions only"
        )
    for name, reason in result.undefined.items():
        also = f" ({name} is {HARDLY})" if name in result.undertrained else ""
        found.append(f"{name} has no D: {reason}{also}")
    found += [
        f"{name} is {HARDLY}, its D means little: {reason}"
        for name, reason in result.undertrained.items()
        if name not in result.undefined
    ]
    return found


def layers(result: Dissociation) -> Matrix:
    """Where each task's chosen heads are."""
    rows = [[float(count) for count in row] for row in result.heads_per_layer]
    most = max(max(row) for row in rows) or 1.0
    spread = [float(value) for value in result.layer_spread]
    return Matrix(
        [*result.tasks, "spread over tasks"],
        [f"layer {layer}" for layer in range(len(spread))],
        [*rows, spread],
        f"Where each task's top {percentage(result.alpha)} of heads are: heads per layer, and "
        "their standard deviation over tasks.",
        [*[[value / most for value in row] for row in rows], [None] * len(spread)],
        digits=0,
        percent=False,
        numbered=False,
    )


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
        "many heads drawn at random.",
        [[_lost(value, base[i]) for value in row] for i, row in enumerate(rows)],
        bold_diagonal=True,
        colours="The stronger the colour, the more of the intact score is lost.",
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
        f"Overlap (%): share of the top {percentage(result.alpha)} of heads that two tasks have in "
        "common.",
        result.overlap,
        digits=0,
    )


def certainty(result: Dissociation) -> list[tuple[str, str]]:
    """What could have changed D: evaluated examples, importance examples, chance."""
    if result.mean is None:
        return [("D is undefined.", reasons(result.undefined))]
    ends = result.intervals["mean"]
    words = with_interval(f"D = {percent(result.mean)} %", ends)
    items = [(words, "" if ends is None else f"95 % interval over {_over(result)}")]
    if result.redrawn is not None:
        spread, redraws = result.redrawn["spread"]["mean"], result.redrawn["redraws"]
        kept = percent(float(np.mean(result.redrawn["kept"])), 0)
        words = f"Drawing other examples for the map changes D by {percent(spread)} points (one sd)"
        items.append((words, f"{redraws} redraws, which keep {kept} % of the chosen heads"))
    if result.null is not None and result.null["p"] is not None:
        null = result.null
        words = f"{p_value(null['p'])} against the same heads, assigned to the tasks at random"
        beyond = f"95 % of {null['values']} assignments give at most"
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
            else with_interval(
                f"{percent(result.pairwise[a][b])} %", between[a][b] if between else None
            )
            for a, b in ((i, j), (j, i))
        )
        shared = f"{percent(result.overlap[i][j], 0)} % of their heads shared"
        one, other = (
            name + (f" ({HARDLY})" if name in weak and HARDLY not in finding else "")
            for name in (result.tasks[i], result.tasks[j])
        )
        items.append((f"{one} – {other}: {finding}", f"D {both}; {shared}"))
    if len(items) <= 3:
        return Items(items, "Pairs")
    return Fold(f"{len(items)} pairs in words", [Items(items)])


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


def _remark(result: Dissociation, place: int, weak: Sequence[str]) -> str:
    name = result.tasks[place]
    if name in result.undefined:
        return f"undefined ({result.undefined[name]})"
    p = result.p_values[place]
    words = [] if p is None or not result.random[place] else [f"{p_value(p)} against random"]
    if name in weak:
        words.append(HARDLY)
    return ", ".join(words)
