"""Plans and reproductions in the terminal."""

from collections.abc import Iterator
from typing import Any

from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.text import Text

from brodmann.papers.tables import (
    caution,
    cell_text,
    changed_words,
    corner,
    how_to_read,
    left_out,
    shown_columns,
)
from brodmann.results import parameters_in_words, size_in_words
from brodmann.terminal.width import Table


def plan_parts(plan: dict[str, Any]) -> Iterator[Any]:
    """A row a stage: operations, planned time and, once it has run, what it took."""
    counts = plan["parameters"]
    many = "trainings" in plan
    length = f"{plan['trainings']:,} trainings" if many else f"{plan['steps']:,} steps"
    yield (
        f"{parameters_in_words(counts)}, {counts['trainable'] / 1e6:.1f} M trained; "
        f"{length}, {plan['tokens']['training'] / 1e6:.2f} M tokens trained on, "
        f"{plan['tokens']['read'] / 1e6:.2f} M read"
    )
    table = Table(title="plan", title_justify="left", header_style="bold", box=None)
    headings = ["stage", "operations", "time"]
    took = (plan.get("took") or {}).get("seconds", {})
    if took:
        headings += ["took", "off by"]
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "stage" else "right", no_wrap=True)
    for stage, seconds in plan["seconds"].items():
        cells = [stage, f"{plan['operations'][stage]:.2g}", duration(seconds)]
        table.add_row(*cells, *(_beside(seconds, took.get(stage)) if took else []))
    total = sum(plan["seconds"].values())
    cells = ["all", f"{sum(plan['operations'].values()):.2g}", duration(total)]
    there = {stage: seconds for stage, seconds in took.items() if stage in plan["seconds"]}
    ran = sum(plan["seconds"][stage] for stage in there)  # a run may have left stages out
    table.add_row(*cells, *(_beside(ran, sum(there.values())) if took else []))
    yield table
    memory = plan["memory"]
    words = (
        f"memory: {memory['process'] / 1e9:.2f} GB for the process; weights, gradients and moments "
        f"{memory['weights'] / 1e9:.2f} GB, activations {memory['activations'] / 1e9:.2f} GB"
    )
    measured = (plan.get("took") or {}).get("memory")
    yield words + (f"; it reached {measured / 1e9:.2f} GB" if measured else "")
    if "disk" in plan:
        yield disk_in_words(plan["disk"])


def disk_in_words(disk: dict[str, int]) -> str:
    training, afterwards, free = (
        size_in_words(disk[key]) for key in ("training", "afterwards", "free")
    )
    words = f"disk: {training} while it trains, {afterwards} afterwards; {free} free"
    return words + (", which is not enough" if disk["free"] < disk["training"] else "")


def plan_of_many_parts(plan: dict[str, Any]) -> Iterator[Any]:
    """A row a run and, of those that have run, what they took."""
    table = Table(title="plan", title_justify="left", header_style="bold", box=None)
    took = any(cell.get("took") for cell in plan["cells"])
    for heading in ("run", "operations", "time", *(("took", "off by") if took else ())):
        table.add_column(heading, justify="left" if heading == "run" else "right")
    planned, spent = 0.0, 0.0
    for cell in plan["cells"]:
        there = cell.get("took") or {}
        ran = sum(cell["seconds"][stage] for stage in there)
        planned, spent = planned + ran, spent + sum(there.values())
        cells = [f"{sum(cell['operations'].values()):.2g}", duration(sum(cell["seconds"].values()))]
        more = _beside(ran, sum(there.values())) if took else []
        table.add_row(escape(cell["label"]), *cells, *more)
    more = _beside(planned, spent) if took else []
    table.add_row("all", f"{plan['operations']:.2g}", duration(plan["seconds"]), *more)
    yield table
    yield (
        f"{plan['parameters'] / 1e6:.1f} M parameters; {plan['steps']:,} steps, "
        f"{plan['tokens'] / 1e6:.2f} M tokens trained on"
    )
    words = (
        f"{plan['runs']} runs, {plan['calibrated']} of them measured (the others take the same "
        f"steps); {plan['memory'] / 1e9:.2f} GB"
    )
    yield words + (f"; they reached {plan['reached'] / 1e9:.2f} GB" if plan.get("reached") else "")
    if "disk" in plan:
        yield disk_in_words(plan["disk"])


def estimate_parts(estimate: dict[str, Any]) -> Iterator[Any]:
    """A row a recipe; what sharing saves at the end."""
    title = f"estimate at the {estimate['scale']} scale, counted without data or weights"
    table = Table(title=title, title_justify="left", header_style="bold", box=None)
    for heading in ("recipe", "runs", "M tokens", "M parameters", "GB", "operations", "hours"):
        first = heading == "recipe"
        table.add_column(heading, justify="left" if first else "right", no_wrap=first)
    for row in [*estimate["recipes"], {"recipe": "all", **estimate}]:
        hours = "–" if row["hours"] is None else f"{row['hours']:,.1f}"
        cells = [
            f"{row['tokens'] / 1e6:,.0f}" if row.get("tokens") else "–",
            f"{row['parameters'] / 1e6:,.0f}" if row.get("parameters") else "–",
            f"{row['memory'] / 1e9:,.1f}" if row.get("memory") else "–",
        ]
        runs = f"{row['runs']:,}" + (f" ({row['there']} twice)" if row["there"] else "")
        table.add_row(row["recipe"], runs, *cells, f"{row['operations']:.2g}", hours)
    yield table
    if estimate["speed"] is None:
        yield "hours: --speed OPERATIONS, those a second that training really reaches there"
    if estimate["operations_alone"]:
        share = 1 - estimate["operations"] / estimate["operations_alone"]
        if share >= 0.005:
            yield f"runs that share their first steps, or stand in two recipes, save {share:.0%}"
    if estimate["assumed"]:
        yield (
            "lengths not known, taken as long as a text may be: "
            f"{escape(', '.join(estimate['assumed']))}"
        )


def progress_table(facts: dict[str, Any]) -> Table:
    """The cells that run now, how far each is, and the time left for all."""
    table = Table(box=None, header_style="bold")
    left = f", about {duration(facts['left'])} left" if facts["left"] is not None else ""
    table.add_column(f"{facts['done']} done, {facts['waiting']} waiting{left}", no_wrap=True)
    table.add_column("step", justify="right")
    table.add_column("")
    for label, (step, steps) in facts["running"]:
        bar = ProgressBar(total=max(steps, 1), completed=step, width=30)
        table.add_row(escape(label), f"{step:,}/{steps:,}", bar)
    return table


def _beside(planned: float, seconds: float | None) -> list[str]:
    if not seconds:
        return ["–", "–"]
    return [duration(seconds), f"{100 * (planned / seconds - 1):+.0f} %"]


def duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:,.1f} h"


def recipes_table(rows: list[dict[str, Any]]) -> Table:
    """Every recipe with what it varies, and under it its tables and figures."""
    title = "recipes, and the tables and figures that each one makes"
    table = Table(title=title, title_justify="left", header_style="bold", box=None)
    for heading in ("name", "shows", "done"):
        table.add_column(heading, no_wrap=heading == "name")
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["recipe"] or "none yet", []).append(row)
    for recipe, views in groups.items():
        varies = views[0]["varies"]
        table.add_row(Text(recipe, "bold"), f"varies {varies}" if varies else "", "")
        for row in views:
            states = [*row["done"], *(f"{scale} (changed)" for scale in row["changed"])]
            states += [f"{scale} ({s})" for s in ("begun", "failed") for scale in row[s]]
            table.add_row(f"  {row['name']}", row["shows"], ", ".join(states) or "–")
    return table


def reproduced_parts(document: dict[str, Any], width: int) -> Iterator[Any]:
    """Ours, and in brackets the paper's with the difference; as many columns at a time as fit."""
    view, ours = document["view"], document["ours"]
    yield Text(f"{view['name']}: {view['shows']}. {how_to_read(document)}")
    rows = list(dict.fromkeys([*ours, *view["paper"]]))
    cells = {
        column: [cell_text(ours.get(row, {}), view["paper"].get(row, {}), column) for row in rows]
        for column in shown_columns(document)
    }
    first = min(max(map(len, (corner(view), *rows))), max(width // 3, 12))
    groups: list[list[str]] = []
    left = 0
    for column, texts in cells.items():
        needed = 2 + max(map(len, (column, *texts)))
        if not groups or needed > left:
            groups.append([])
            left = width - first - 2
        groups[-1].append(column)
        left -= needed
    for group in groups:
        table = Table(header_style="bold", box=None)
        table.add_column(corner(view), max_width=first, overflow="fold")
        for column in group:
            table.add_column(escape(column), justify="right")
        for place, row in enumerate(rows):
            table.add_row(escape(row), *(cells[column][place] for column in group))
        yield table
    if document["changes"]:
        yield Text(f"Not the recipe as it is: {changed_words(document)}.")
    if document["hardly_learnt"]:
        yield Text(caution(document))
    if document.get("undefined"):
        yield Text(left_out(document))
    if view["note"]:
        yield Text(f"{view['note'][:1].upper()}{view['note'][1:]}.")
