"""Results as tables a person can read in a terminal."""

import textwrap
from collections.abc import Iterator
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.columns import Columns
from rich.markup import escape
from rich.panel import Panel
from rich.text import Text

from brodmann.analysis.dissociation import findings
from brodmann.models.encoders import architecture_of
from brodmann.reporting.adaptation import advice_against_loss, loss_in_words, start_rows
from brodmann.results import VERDICTS, mean_dissociation
from brodmann.terminal.numbers import (
    arm_dissociation,
    difference,
    differences_table,
    dissociation,
    gains_table,
    interval,
    mean_lines,
    mean_spread,
    percent,
    seeds_in_words,
    with_ends,
)
from brodmann.terminal.width import Table

SHADES = " ░▒▓█"


def score_table(tasks: list[Any], splits: dict[str, Any]) -> Table:
    """Scores in percent with their 95 % interval, beside what answers without reading would get."""
    table = Table(title="scores (%)", title_justify="left", header_style="bold", box=None)
    for title in ("task", "split", "metric", "score", "95 %", "trivial"):
        right = title in ("score", "95 %", "trivial")
        table.add_column(title, justify="right" if right else "left", no_wrap=True)
    for task in tasks:
        name = escape(task.name)
        for split, results in splits.items():
            entry = results.get(task.name)
            if entry is None:
                continue
            for metric in task.spec.metrics or (entry["metric"],):
                score = percent(entry["scores"][metric])
                if metric == entry["metric"]:
                    bold = f"[bold]{score}[/bold]"
                    rest = (bold, interval(entry.get("interval")), percent(entry["trivial"]))
                    table.add_row(name, split, metric, *rest)
                else:
                    table.add_row("", "", metric, score, "", "")
                name = ""
    return table


def head_maps(scores: Any, alpha: float) -> Iterator[Any]:
    """A shaded grid a task, layers from top to bottom; the top heads are bold green."""
    panels = []
    for task in scores.tasks:
        values, chosen = scores.of(task), set(scores.top(alpha, task))
        most = float(values.max())
        most = most if most > 0 else 1.0  # leave-one-out may find no head that helps
        text = Text()
        for layer in reversed(range(scores.shape[0])):
            text.append(f"{layer:>2} ", style="dim")
            for head in range(scores.shape[1]):
                shade = _shade(float(values[layer, head]) / most)
                text.append(shade * 2, style="bold green" if (layer, head) in chosen else "")
            text.append("\n" if layer else "")
        panels.append(Panel(text, title=escape(task), expand=False, padding=(0, 1)))
    yield Columns(panels)
    yield Text(
        f"head importance, layer 0 below, fuller is more; green: the top {100 * alpha:g} %",
        style="dim",
    )


def _shade(share: float) -> str:
    """Square root, since a few heads often outweigh the rest."""
    place = int(np.sqrt(min(max(share, 0.0), 1.0)) * (len(SHADES) - 1) + 0.5)
    return SHADES[place]


def dissociation_table(result: Any) -> Table:
    """Tasks are numbered, so that the columns of many tasks stay narrow."""
    table = Table(
        title=f"scores (%) with the top {100 * result.alpha:g} % of heads of task 1, 2, … off",
        title_justify="left",
        header_style="bold",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("evaluated", no_wrap=True)
    off = [f"–{number}" for number in range(1, len(result.tasks) + 1)]
    for title in ("base", *off, "random", "D", "95 %", "p"):
        table.add_column(title, justify="right", no_wrap=True)
    for i, name in enumerate(result.tasks):
        cells = [
            f"[bold]{100 * value:.1f}[/bold]" if i == j else f"{100 * value:.1f}"
            for j, value in enumerate(result.performance[i])
        ]
        random = f"{100 * float(np.mean(result.random[i])):.1f}" if result.random[i] else "–"
        table.add_row(
            f"{i + 1} {escape(name)}",
            percent(result.base[i]),
            *cells,
            random,
            dissociation(result.per_task[i]),
            interval(result.intervals["per_task"][i]),
            "–" if result.p_values[i] is None else f"{result.p_values[i]:.3f}",
        )
    return table


def dissociation_lines(result: Any) -> list[str]:
    """D with its interval and test, the findings in words, and what to be careful about."""
    lines = mean_lines(result)
    found = findings(result.pairwise, result.intervals)
    weak = dict.fromkeys(result.undertrained, " (hardly trained)")
    for i, one in enumerate(result.tasks):
        for j in range(i + 1, len(result.tasks)):
            both = ", ".join(with_ends(result, a, b) for a, b in ((i, j), (j, i)))
            shared = f"{100 * result.overlap[i][j]:.0f} % of their heads shared"
            words = VERDICTS[found[i][j]]
            pair = f"{one}{weak.get(one, '')} – {result.tasks[j]}{weak.get(result.tasks[j], '')}"
            lines.append(f"{escape(pair)}: {words} ({both}; {shared})")
    if architecture_of(result.settings.get("architecture")).separate:
        lines.append(
            "[yellow]note:[/yellow] every task has an encoder of its own here: heads are compared "
            "by their places only"
        )
    for name, reason in result.undefined.items():
        lines.append(f"[yellow]note:[/yellow] {escape(name)} has no D: {reason}")
    for name, reason in result.undertrained.items():
        lines.append(
            f"[yellow]note:[/yellow] {escape(name)} is hardly trained, its D means little: {reason}"
        )
    return lines


def pruned_table(result: dict[str, Any]) -> Table:
    table = Table(title="scores (%)", title_justify="left", header_style="bold")
    for title in ("task", "metric", "before", "after"):
        table.add_column(title, justify="left" if title in ("task", "metric") else "right")
    for name, entry in result["scores"].items():
        table.add_row(
            escape(name), entry["metric"], percent(entry["before"]), percent(entry["after"])
        )
    return table


def grid_table(summary: dict[str, Any]) -> Table:
    table = Table(title="cells", title_justify="left", header_style="bold")
    for title in ("cell", "scores (%)", "D of each (%)", "D (%)", "95 %", "finding"):
        table.add_column(title, overflow="fold")
    for cell in summary["cells"]:
        found = cell.get("dissociation")
        if cell["state"] == "failed":
            error = escape(textwrap.shorten(cell["error"], 60, placeholder=" …"))
            table.add_row(escape(cell["label"]), "[red]failed[/red]", "", "", "", error)
        elif found is None:
            results = cell.get("splits", {}).get("validation", {})
            scores = "  ".join(percent(entry["score"]) for entry in results.values())
            table.add_row(escape(cell["label"]), scores, "", "", "", "")
        else:
            marks = ["*" if name in found["undertrained"] else "" for name in found["tasks"]]
            marked = zip(found["base"], marks, strict=True)
            pair = len(found["tasks"]) == 2
            shown = findings(found["pairwise"], found["intervals"])[0][1] if pair else ""
            table.add_row(
                escape(cell["label"]),
                "  ".join(percent(score) + mark for score, mark in marked),
                "  ".join(dissociation(value) for value in found["per_task"]),
                dissociation(mean_dissociation(found)),
                interval(found["intervals"]["mean"]),
                VERDICTS.get(shown, ""),
            )
    return table


def grid_lines(summary: dict[str, Any]) -> list[str]:
    lines = []
    if any((cell.get("dissociation") or {}).get("undertrained") for cell in summary["cells"]):
        lines.append(
            "[dim]* hardly trained: near what answers without reading get, or a training loss near "
            "that of guessing[/dim]"
        )
    for key, over in summary["over_seeds"].items():
        each = (
            f"{escape(name)} {mean_spread(value)}"
            for name, value in zip(over["tasks"], over["per_task"], strict=True)
        )
        lines.append(f"{escape(key)}, {seeds_in_words(over)}  ({', '.join(each)})")
    for entry in summary.get("differences", []):
        parts = [f"average {difference(entry['average'])}"]
        if entry["dissociation"] is not None:
            parts.append(f"D {difference(entry['dissociation'])}")
        seeds = entry["average"]["seeds"]
        both = f"{entry['setting']} against {entry['against']}"
        lines.append(f"{escape(both)}, paired over {seeds} seeds: {', '.join(parts)}")
    if summary["failed"]:
        lines.append(f"[red]{len(summary['failed'])} failed[/red]: run again to try them again")
    return lines


def comparison_parts(result: dict[str, Any]) -> Iterator[Any]:
    """A column an arm: scores with their spread over seeds, starred where they differ by more."""
    arms = result["arms"]
    table = Table(title="scores (%)", title_justify="left", header_style="bold", box=None)
    table.add_column("task", no_wrap=True)
    for arm in arms:
        table.add_column(escape(arm), justify="right", no_wrap=True)

    def starred(value: Any, tested: dict[str, Any] | None) -> str:
        return mean_spread(value, "±") + ("*" if tested and tested["significant"] else "")

    def against(arm: str, *keys: str) -> Any:
        found = arms[arm]["against"]
        for key in keys:
            found = None if found is None else found[key]
        return found

    for task in result["tasks"]:
        cells = [starred(arms[a]["per_task"][task], against(a, "per_task", task)) for a in arms]
        table.add_row(escape(task), *cells)
    whole = [starred(arms[a]["average"], against(a, "average")) for a in arms]
    table.add_row("[bold]average[/bold]", *whole)
    table.add_row("task σ", *(mean_spread(facts["task_sigma"], "±") for facts in arms.values()))
    table.add_row("D", *(arm_dissociation(facts) for facts in arms.values()))
    for title, key in (("tasks better", "improved"), ("tasks ≥", "at_least_as_good")):
        counts = ["" if against(a) is None else str(against(a).get(key, "–")) for a in arms]
        table.add_row(title, *counts)
    yield table
    if left_out := result.get("left_out"):
        words = f"left out, not in every run: {', '.join(left_out)}"
        yield Text(words, style="dim")
    yield differences_table(result)
    tests = {against(arm)["test"]: None for arm in arms if against(arm) and "test" in against(arm)}
    yield Text(
        f"mean ± sd over seeds; * differs from {result['baseline']} at 5 % "
        f"({'; '.join(tests) or 'paired bootstrap over validation examples'})",
        style="dim",
    )
    for facts in arms.values():
        for run, reason in (facts.get("undefined") or {}).items():
            yield Text(f"{run}: D is undefined ({reason})", style="dim")


def transfer_parts(summary: dict[str, Any]) -> Iterator[Any]:
    """Two tables per task, one row per amount of data: every start, and what it gains over the
    first."""
    for task, amounts in summary["tasks"].items():
        title = f"{task}: {summary['metrics'][task]} (%)"
        table = Table(title=escape(title), title_justify="left", header_style="bold", box=None)
        starts = list(next(iter(amounts.values())))
        for heading in ("examples", *starts):
            table.add_column(escape(heading), justify="right", no_wrap=True)
        for amount, entry in amounts.items():
            cells = [
                mean_spread(entry[start]["mean"])
                + ("*" if entry[start].get("against", {}).get("significant") else "")
                for start in starts
            ]
            table.add_row(amount, *cells)
        yield table
        if len(starts) > 1:
            yield gains_table(amounts, starts)
    yield Text(
        "mean ± sd over seeds, differences paired by seed with 95 % intervals; * differs from the "
        "first start at 5 % (two-sided t-test over 3 seeds or more)",
        style="dim",
    )


def meta_parts(result: dict[str, Any]) -> Iterator[Any]:
    """A table an unseen pair: a row a number of examples and steps, a column a start."""
    for name, pair in result["pairs"].items():
        title = f"{name}: {pair['metric']} (%){', new output head' if pair['new_head'] else ''}"
        table = Table(title=escape(title), title_justify="left", header_style="bold", box=None)
        starts = list(pair["table"][0]["starts"])
        against = list(pair["table"][0]["differences"])
        for heading in ("examples", "steps", *starts, *(f"meta - {name}" for name in against)):
            table.add_column(escape(heading), justify="right")
        for entry in pair["table"]:
            table.add_row(
                str(entry["shots"]),
                str(entry["steps"]),
                *(_meta_score(entry["starts"][start]) for start in starts),
                *(_with_interval(entry["differences"][start]) for start in against),
            )
        yield table
    yield Text(
        f"mean ± sd over {result['seeds']} seed(s), differences with 95 % intervals; 0 steps are "
        f"zero-shot; rates chosen among {result['settings_tried']}"
        + (f" on {result['tuning']}, first seed" if result["tuning"] else ""),
        style="dim",
    )


def _meta_score(entry: dict[str, Any]) -> str:
    if entry["mean"] is None:
        return "diverged"
    lost = f" ({entry['diverged']} diverged)" if entry.get("diverged") else ""
    return mean_spread(entry["mean"]) + lost


def _with_interval(entry: dict[str, Any]) -> str:
    if entry["low"] is None:
        return percent(entry["mean"])
    return f"{percent(entry['mean'])} {interval((entry['low'], entry['high']))}"


def catalogue_table(entries: list[Any]) -> Table:
    """One line a dataset; its languages in one cell."""
    table = Table(header_style="bold", box=None, padding=(0, 1, 0, 0))
    for title in ("name", "kind", "group", "train", "metric", "in"):
        table.add_column(title, justify="right" if title == "train" else "left", no_wrap=True)
    for entry in entries:
        size = entry.train_size(entry.languages[0])
        first, more = entry.languages[0], len(entry.languages) - 1
        table.add_row(
            entry.name,
            entry.kind,
            entry.group,
            "–" if size is None else f"{size:,}",
            entry.metrics[0] if entry.metrics else "–",
            f"{first} +{more}" if more else first,
        )
    return table


def entry_table(facts: dict[str, Any]) -> Table:
    """One dataset in full, a key a line."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for key, value in facts.items():
        if isinstance(value, dict):
            text = ", ".join(f"{name} = {inner}" for name, inner in value.items())
        elif isinstance(value, list | tuple):
            text = ", ".join(str(inner) for inner in value)
        else:
            text = {True: "yes", False: "no"}.get(value, str(value))
        table.add_row(f"[bold]{key}[/bold]", escape(text))
    return table


def zero_shot_table(result: dict[str, Any]) -> Table:
    """A row a start, a column a new task, before any training."""
    table = Table(title="zero-shot (%)", title_justify="left", header_style="bold", box=None)
    tasks = list(result["zero_shot"])
    table.add_column("start", no_wrap=True)
    for task in tasks:
        table.add_column(escape(f"{task} ({result['metrics'][task]})"), justify="right")
    for start, scores in start_rows(result):
        table.add_row(escape(start), *map(percent, scores))
    return table


def adapted_parts(result: dict[str, Any]) -> Iterator[Any]:
    """What each share of the data gave, and what became of the old tasks."""
    if "shares" in result:
        tasks = list(result["zero_shot"])
        table = Table(title="shares (%)", title_justify="left", header_style="bold", box=None)
        table.add_column("of the data", no_wrap=True)
        for task in tasks:
            table.add_column(escape(f"{task} ({result['metrics'][task]})"), justify="right")
        for share, row in result["shares"].items():
            cells = [f"{percent(row['scores'][t])} ({row['examples'][t]:,})" for t in tasks]
            table.add_row(share, *cells)
        yield table
    if old := result.get("old"):
        table = Table(title="old tasks (%)", title_justify="left", header_style="bold", box=None)
        for heading in ("task", "before", "after", "change"):
            table.add_column(heading, justify="left" if heading == "task" else "right")
        for task, before in old["before"].items():
            after = old["after"][task]
            name = escape(f"{task} ({old['metrics'][task]})")
            table.add_row(name, percent(before), percent(after), f"{100 * (after - before):+.1f}")
        yield table
    if lost := loss_in_words(result):
        yield f"[bold yellow]warning:[/bold yellow] {escape(lost)}"
        yield escape(advice_against_loss(result))
