"""Numbers in a terminal: D with its interval and tests, means over seeds, paired differences."""

from typing import Any

import numpy as np
from rich.markup import escape

from brodmann.results import reasons_in_words
from brodmann.terminal.width import Table


def mean_lines(result: Any) -> list[str]:
    """D and what its interval is over; how far redraws move it; its test."""
    if result.mean is None:
        return [f"[bold]D is undefined[/bold] ({escape(reasons_in_words(result.undefined))})"]
    lines = [f"[bold]D = {percent(result.mean)} % {interval(result.intervals['mean'])}[/bold]"]
    over = result.intervals.get("over", ["validation examples"])
    if result.intervals["mean"] is not None:
        lines[0] += f", 95 % over {' and '.join(over)}"
    if result.redrawn is not None:
        kept = 100 * float(np.mean(result.redrawn["kept"]))
        lines.append(
            f"with importance examples redrawn: D ± {percent(result.redrawn['spread']['mean'])} % "
            f"over {result.redrawn['redraws']} redraws, {kept:.0f} % of the heads stay"
        )
    if result.null is not None and result.null["p"] is not None:
        lines.append(
            f"p = {result.null['p']:.3f} against the same heads, dealt to the tasks at random in "
            f"{result.null['values']} ways"
        )
    return lines


def with_ends(result: Any, i: int, j: int) -> str:
    ends = result.intervals.get("pairwise")
    shown = "" if not ends or ends[i][j] is None else f" {interval(ends[i][j])}"
    return f"{dissociation(result.pairwise[i][j])}{shown}"


def dissociation(value: float | None) -> str:
    return "undefined" if value is None else percent(value)


def percent(value: float | None) -> str:
    text = "–" if value is None else f"{100 * value:.1f}"
    return "0.0" if text == "-0.0" else text


def interval(ends: Any) -> str:
    return "–" if ends is None else f"\\[{percent(ends[0])}, {percent(ends[1])}]"


def seeds_in_words(over: dict[str, Any]) -> str:
    """D over seeds; runs without one are counted, and their reasons given."""
    runs = over.get("runs", over["seeds"] + over["left_out"])
    if over["mean"] is None:
        words = f"{runs} seeds: D is undefined"
    elif over["left_out"]:
        words = f"D = {mean_spread(over['mean'])} % over {over['seeds']} of {runs} seeds"
    else:
        words = f"{over['seeds']} seeds: D = {mean_spread(over['mean'])} %"
    reasons = "; ".join(f"seed {s}: {why}" for s, why in over.get("undefined", {}).items())
    return words + (f" (undefined: {escape(reasons)})" if reasons else "")


def difference(entry: dict[str, Any]) -> str:
    """Points with their interval and p."""
    ends = "" if entry["interval"] is None else f" {interval(entry['interval'])}"
    p = "" if entry["p"] is None else f" p = {entry['p']:.3f}"
    return f"{100 * entry['difference']:+.1f}{ends}{p}"


def mean_spread(value: Any, sign: str = " ± ") -> str:
    if value is None:
        return "–"
    mean, spread = value
    return f"{100 * mean:.1f}" + ("" if spread is None else f"{sign}{100 * spread:.1f}")


def differences_table(result: dict[str, Any]) -> Table:
    """Every arm's paired difference to the baseline with its 95 % interval, in points."""
    table = Table(header_style="bold", box=None)
    arms = {arm: facts["against"] for arm, facts in result["arms"].items() if facts["against"]}
    table.add_column(escape(f"points against {result['baseline']} [95 %]"), no_wrap=True)
    for arm in arms:
        table.add_column(escape(arm), justify="right")

    def shown(entry: dict[str, Any] | None) -> str:
        return "–" if entry is None else difference({**entry, "p": None})

    for task in result["tasks"]:
        table.add_row(escape(task), *(shown(found["per_task"][task]) for found in arms.values()))
    table.add_row("[bold]average[/bold]", *(shown(found["average"]) for found in arms.values()))
    if any(found.get("dissociation") for found in arms.values()):
        table.add_row("D", *(shown(found.get("dissociation")) for found in arms.values()))
    return table


def arm_dissociation(facts: dict[str, Any]) -> str:
    """D over seeds, and over how many of the runs where it is undefined in some."""
    if facts["dissociation"] is None and facts.get("undefined"):
        return "undefined"
    defined, measured = facts.get("dissociation_over", (0, 0))
    over = f" ({defined} of {measured})" if defined < measured else ""
    return mean_spread(facts["dissociation"], "±") + over


def gains_table(amounts: dict[str, Any], starts: list[str]) -> Table:
    """What every start gains over the first, paired by seed, with its 95 % interval, in points."""
    table = Table(header_style="bold", box=None)
    table.add_column(escape(f"points against {starts[0]} [95 %]"), no_wrap=True)
    for start in starts[1:]:
        table.add_column(escape(start), justify="right")
    for amount, entry in amounts.items():
        found = [entry[start].get("against") for start in starts[1:]]
        shown = ("–" if one is None else difference(one) for one in found)
        table.add_row(amount, *shown)
    return table
