"""Plans of runs as tables; afterwards, beside what they took."""

from collections.abc import Mapping
from typing import Any

from brodmann.reporting.blocks import Block, Table, Words
from brodmann.text import NOTHING, counted, duration, millions, parameters, percentage, signed, size


def plan(found: Mapping[str, Any]) -> list[Block]:
    """One row per stage: operations, planned time and, once it has run, the time it took."""
    counts, tokens = found["parameters"], found["tokens"]
    length = f"{found['trainings']:,} trainings" if "trainings" in found else ""
    length = length or counted(found["steps"], "step")
    words = (
        f"{parameters(counts)}, {millions(counts['trainable'])} trained; {length}; "
        f"trains on {millions(tokens['training'], 2)} tokens and evaluates "
        f"{millions(tokens['read'], 2)}"
    )
    took = (found.get("took") or {}).get("seconds", {})
    rows = [
        _row(stage, found["operations"][stage], seconds, seconds, took.get(stage), bool(took))
        for stage, seconds in found["seconds"].items()
    ]
    measured = {stage: seconds for stage, seconds in took.items() if stage in found["seconds"]}
    planned = sum(found["seconds"][stage] for stage in measured)  # a run may skip stages
    operations, whole = sum(found["operations"].values()), sum(found["seconds"].values())
    rows.append(_row("all", operations, whole, planned, sum(measured.values()), bool(took)))
    blocks: list[Block] = [Words(words), _table("stage", rows, bool(took)), _memory(found)]
    if "disk" in found:
        blocks.append(Words(_disk(found["disk"])))
    return blocks


def plan_of_many(found: Mapping[str, Any]) -> list[Block]:
    """One row per run and, for those that have run, the time they took."""
    took = any(cell.get("took") for cell in found["cells"])
    rows = []
    planned, spent = 0.0, 0.0
    for cell in found["cells"]:
        measured = cell.get("took") or {}
        ran = sum(cell["seconds"][stage] for stage in measured)
        seconds = sum(measured.values())
        planned, spent = planned + ran, spent + seconds
        operations = sum(cell["operations"].values())
        whole = sum(cell["seconds"].values())
        rows.append(_row(cell["label"], operations, whole, ran, seconds, took))
    rows.append(_row("all", found["operations"], found["seconds"], planned, spent, took))
    words = (
        f"{millions(found['parameters'])} parameters; "
        f"{counted(found['steps'], 'step')} on {millions(found['tokens'], 2)} tokens"
    )
    runs = (
        f"{found['runs']} runs, {found['calibrated']} of them measured (the others take the same "
        f"steps); {size(found['memory'])}"
    )
    if found.get("reached"):
        runs += f"; they reached {size(found['reached'])}"
    blocks: list[Block] = [_table("run", rows, took), Words(words), Words(runs)]
    if "disk" in found:
        blocks.append(Words(_disk(found["disk"])))
    return blocks


def estimate(found: Mapping[str, Any]) -> list[Block]:
    """One row per recipe, and what sharing saves."""
    rows = []
    for row in [*found["recipes"], {"recipe": "all", **found}]:
        again = f" ({row['there']} twice)" if row["there"] else ""
        rows.append(
            (
                row["recipe"],
                f"{row['runs']:,}{again}",
                _scaled(row.get("tokens"), 1e6, 0),
                _scaled(row.get("parameters"), 1e6, 0),
                _scaled(row.get("memory"), 1e9, 1),
                f"{row['operations']:.2g}",
                NOTHING if row["hours"] is None else f"{row['hours']:,.1f}",
            )
        )
    columns = ("recipe", "runs", "M tokens", "M parameters", "GB", "operations", "hours")
    caption = f"Estimate at the {found['scale']} scale, counted without data or weights."
    blocks: list[Block] = [Table(columns, rows, caption, strong=[len(rows) - 1])]
    if found["speed"] is None:
        text = (
            "for hours, add --speed OPERATIONS: those per second that training really reaches there"
        )
        blocks.append(Words(text))
    if found["operations_alone"]:
        saved = 1 - found["operations"] / found["operations_alone"]
        if saved >= 0.005:
            text = "sharing first steps, or runs between recipes, saves"
            blocks.append(Words(f"{text} {percentage(round(saved, 2))}"))
    if found["assumed"]:
        text = "unknown lengths, assumed to be the longest possible"
        blocks.append(Words(f"{text}: {', '.join(found['assumed'])}"))
    return blocks


def _scaled(value: float | None, unit: float, digits: int) -> str:
    return f"{value / unit:,.{digits}f}" if value else NOTHING


def _row(
    name: str, operations: float, seconds: float, planned: float, took: float | None, beside: bool
) -> tuple[str, ...]:
    """A row; `planned` is the planned time of what has run, shown `beside` the time it took."""
    cells = (name, f"{operations:.2g}", duration(seconds))
    if not beside:
        return cells
    if not took:
        return (*cells, NOTHING, NOTHING)
    return (*cells, duration(took), f"{signed(100 * (planned / took - 1), 0)} %")


def _table(first: str, rows: list[tuple[str, ...]], took: bool) -> Table:
    columns = (first, "operations", "time", *(("took", "off by") if took else ()))
    caption = "The plan, beside what has run." if took else ""
    return Table(columns, rows, caption, strong=[len(rows) - 1])


def _memory(found: Mapping[str, Any]) -> Words:
    memory = found["memory"]
    words = (
        f"memory: {size(memory['process'])} for the process; weights, gradients and moments "
        f"{size(memory['weights'])}, activations {size(memory['activations'])}"
    )
    reached = (found.get("took") or {}).get("memory")
    return Words(words + (f"; it reached {size(reached)}" if reached else ""))


def _disk(disk: Mapping[str, int]) -> str:
    training, afterwards, free = (size(disk[key]) for key in ("training", "afterwards", "free"))
    words = f"disk: {training} while it trains, {afterwards} afterwards; {free} free"
    return words + (", which is not enough" if disk["free"] < disk["training"] else "")
