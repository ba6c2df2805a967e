"""A grid of runs: scores and D over what was varied (Li et al. 2023, Figures 2, 8, 9, 10)."""

from statistics import mean, stdev
from typing import Any

from brodmann.reporting.blocks import Bars, Lines, Section, Table, interval, percent
from brodmann.reporting.record import Study


def section(study: Study) -> Section | None:
    if study.grid is None:
        return None
    cells = [cell for cell in study.grid["cells"] if cell["state"] == "done"]
    blocks: list[Any] = []
    for key in numeric_keys(cells):
        blocks += [
            Lines(curve(cells, key, what), key, f"{title} (%)", f"{title} over {key}.")
            for what, title in (("score", "Average score"), ("D", "Dissociation D"))
            if curve(cells, key, what)
        ]
    over = study.grid["over_seeds"]
    found = {key: facts["mean"] for key, facts in over.items() if facts["mean"] is not None}
    if found and not blocks:
        blocks.append(
            Bars(
                list(found),
                [100 * value[0] for value in found.values()],
                [
                    None if value[1] is None else
                    [100 * (value[0] - value[1]), 100 * (value[0] + value[1])]
                    for value in found.values()
                ],
                "D (%)",
                "Dissociation of every setting: mean over seeds, with one standard deviation.",
            )
        )  # fmt: skip
    rows = [_row(cell) for cell in study.grid["cells"]]
    caption = "Every run of the grid; validation scores in the order of its tasks."
    blocks.append(Table(("run", "scores (%)", "D (%)", "95 % interval", ""), rows, caption))
    return Section("sweep", "The grid", blocks)


def numeric_keys(cells: list[dict[str, Any]]) -> list[str]:
    """Settings other than the seed that take at least two numbers."""
    keys = dict.fromkeys(key for cell in cells for key in cell["varied"])
    found = []
    for key in keys:
        values = [cell["varied"].get(key) for cell in cells]
        numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
        if key not in ("seed", "tasks") and numbers and len(set(values)) > 1:
            found.append(key)
    return found


def curve(
    cells: list[dict[str, Any]], key: str, what: str
) -> dict[str, list[tuple[float, float, float]]]:
    """A line for every combination of the other settings; points are means over seeds."""
    points: dict[str, dict[float, list[float]]] = {}
    for cell in cells:
        value = average(cell) if what == "score" else (cell.get("dissociation") or {}).get("mean")
        if value is None:
            continue
        others = [
            "+".join(v) if k == "tasks" else f"{k.rpartition('.')[2]} = {v}"
            for k, v in cell["varied"].items()
            if k not in ("seed", key)
        ]
        line = points.setdefault(" ".join(others), {})
        line.setdefault(float(cell["varied"][key]), []).append(100 * value)
    return {
        name: [(x, mean(ys), stdev(ys) if len(ys) > 1 else 0.0) for x, ys in sorted(line.items())]
        for name, line in points.items()
        if len(line) > 1
    }


def average(cell: dict[str, Any]) -> float | None:
    scores = [entry["score"] for entry in cell.get("splits", {}).get("validation", {}).values()]
    return mean(scores) if scores else None


def _row(cell: dict[str, Any]) -> list[str]:
    if cell["state"] != "done":
        return [cell["label"], "failed", "", "", cell.get("error", "")]
    entries = cell.get("splits", {}).get("validation", {}).values()
    scores = "  ".join(percent(entry["score"]) for entry in entries)
    found = cell.get("dissociation")
    if found is None:
        return [cell["label"], scores, "", "", ""]
    weak = ", ".join(found["undertrained"])
    note = f"undertrained: {weak}" if weak else ""
    ends = interval(found["intervals"]["mean"])
    return [cell["label"], scores, percent(found["mean"]), ends, note]
