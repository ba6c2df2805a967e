"""A grid of runs: scores and D over what was varied (Li et al. 2023, Figures 2, 8, 9, 10)."""

from statistics import mean, stdev
from typing import Any

from brodmann.reporting.blocks import (
    Bars,
    Lines,
    Section,
    Table,
    Words,
    counted,
    interval,
    percent,
    points,
)
from brodmann.reporting.record import Study
from brodmann.results import mean_dissociation, reasons_in_words

DECADES = 100  # ratio of the largest to the smallest value from which an axis is logarithmic


def section(study: Study) -> Section | None:
    if study.grid is None:
        return None
    cells = [cell for cell in study.grid["cells"] if cell["state"] == "done"]
    blocks: list[Any] = [Words(_lead(study.grid["cells"], cells), "lead")]
    for key in numeric_keys(cells):
        for what, title in (("score", "Average score"), ("D", "Dissociation D")):
            if series := curve(cells, key, what):
                text = f"{title} over {key}; band: one standard deviation over seeds."
                values = [point[0] for line in series.values() for point in line]
                rate = is_rate(key, values)
                blocks.append(Lines(series, key, f"{title} (%)", text, log_x=rate))
    over = study.grid["over_seeds"]
    found = {
        _named(key, facts): facts["mean"]
        for key, facts in over.items()
        if facts["mean"] is not None
    }
    if found and len(blocks) == 1:
        blocks.append(
            Bars(
                list(found),
                [100 * value[0] for value in found.values()],
                [_around(value) for value in found.values()],
                "D (%)",
                "Dissociation of every setting: mean over seeds, with one standard deviation.",
            )
        )
    blocks.append(table(study.grid["cells"]))
    if against := study.grid.get("differences"):
        blocks.append(differences(against))
    told = [cell["provenance"]["versions"] for cell in cells if "provenance" in cell]
    versions: dict[str, str] = told[0] if told else {}
    if versions:
        blocks.append(Words(", ".join(f"{k} {v}" for k, v in versions.items()), "note"))
    return Section("sweep", "The grid", blocks)


def _lead(every: list[dict[str, Any]], cells: list[dict[str, Any]]) -> str:
    failed = len(every) - len(cells)
    words = counted(len(every), "run") + (f", {failed} of them failed" if failed else "")
    scored = [(value, cell) for cell in cells if (value := average(cell)) is not None]
    same = len({tuple(cell["varied"].get("tasks", ())) for cell in cells}) == 1
    if len(scored) > 1 and same:  # averages over other tasks do not compare
        value, best = max(scored, key=lambda pair: pair[0])
        words += f"; the highest average score is {percent(value)} % ({best['label']})"
    return words + "."


def _around(value: list[float | None]) -> list[float] | None:
    mean_value, spread = value
    if mean_value is None or spread is None:
        return None
    return [100 * (mean_value - spread), 100 * (mean_value + spread)]


def _named(key: str, facts: dict[str, Any]) -> str:
    """A setting, and over how many of its runs D was averaged where it is undefined in some."""
    if not facts["left_out"]:
        return key
    return f"{key} ({facts['seeds']} of {facts['seeds'] + facts['left_out']} runs)"


def differences(entries: list[dict[str, Any]]) -> Table:
    """Every setting against the first one over the same tasks, paired by seed."""
    rows = []
    for entry in entries:
        apart = entry["dissociation"]
        rows.append(
            [
                entry["setting"],
                entry["against"],
                str(entry["average"]["seeds"]),
                *_difference(entry["average"]),
                *(("–", "–") if apart is None else _difference(apart)),
            ]
        )
    columns = ["setting", "against", "seeds", "average (points)", "p", "D (points)", "p"]
    caption = (
        "Differences paired by seed with their 95 % intervals; p: two-sided t-test over 3 seeds or "
        "more."
    )
    return Table(columns, rows, caption)


def _difference(entry: dict[str, Any]) -> tuple[str, str]:
    shown = f"{points(entry['difference'])} {interval(entry['interval'])}".strip()
    return shown, "–" if entry["p"] is None else f"{entry['p']:.3f}"


def table(cells: list[dict[str, Any]]) -> Table:
    """A column for everything that varies, and one for each task."""
    keys = [
        key
        for key in dict.fromkeys(key for cell in cells for key in cell["varied"])
        if len({str(cell["varied"].get(key)) for cell in cells}) > 1
    ]
    tasks = list(dict.fromkeys(task for cell in cells for task in _scores(cell)))
    rows = []
    for number, cell in enumerate(cells, start=1):
        found = cell.get("dissociation") or {}
        varied = [cell["varied"].get(key, "") for key in keys]
        weak = ", ".join(found.get("undertrained", {}))
        notes = [cell.get("error", "")] if cell["state"] != "done" else []
        notes += [f"hardly trained: {weak}"] if weak else []
        mean = mean_dissociation(found) if found else None
        if found and mean is None:
            notes.append(f"D undefined ({reasons_in_words(found['undefined'])})")
        rows.append(
            [
                str(number),
                *("+".join(v) if isinstance(v, list) else str(v) for v in varied),
                *(percent(_scores(cell).get(task)) for task in tasks),
                "undefined" if found and mean is None else percent(mean),
                interval((found.get("intervals") or {}).get("mean")),
                "; ".join(notes),
            ]
        )
    columns = ["run", *keys, *(f"{task} (%)" for task in tasks), "D (%)", "95 % interval", ""]
    return Table(columns, rows, "Every run of the grid with its validation scores.")


def _scores(cell: dict[str, Any]) -> dict[str, float]:
    entries = cell.get("splits", {}).get("validation", {})
    return {task: entry["score"] for task, entry in entries.items()}


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


def is_rate(key: str, values: list[float]) -> bool:
    """Whether ratios count rather than differences: learning rates, and what spans decades."""
    if min(values) <= 0:
        return False
    return key.rpartition(".")[2].endswith("rate") or max(values) / min(values) >= DECADES


def curve(
    cells: list[dict[str, Any]], key: str, what: str
) -> dict[str, list[tuple[float, float, float]]]:
    """A line for every combination of the other settings; points are means over seeds."""
    points: dict[str, dict[float, list[float]]] = {}
    for cell in cells:
        found = cell.get("dissociation")
        measured = mean_dissociation(found) if found else None
        value = average(cell) if what == "score" else measured
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
    scores = list(_scores(cell).values())
    return mean(scores) if scores else None
