"""A grid of runs: scores and D over the varied settings (Li et al. 2023, Figures 2, 8, 9, 10)."""

from statistics import mean, stdev
from typing import Any

from brodmann.analysis.dissociation import findings
from brodmann.data.kinds import lower_is_better
from brodmann.reporting.blocks import Bars, Block, Items, Lines, Section, Table, Words
from brodmann.reporting.record import Study
from brodmann.results import mean_dissociation
from brodmann.text import (
    NOTHING,
    VERDICTS,
    counted,
    difference,
    dissociation,
    interval,
    mean_spread,
    over_seeds,
    percent,
    reasons,
    setting,
)

BAND = "; band: one standard deviation over seeds."
DECADES = 100  # ratio of the largest to the smallest value from which an axis is logarithmic


def section(study: Study) -> Section | None:
    if study.grid is None:
        return None
    cells = [cell for cell in study.grid["cells"] if cell["state"] == "done"]
    blocks: list[Block] = [Words(_lead(study.grid["cells"], cells), "lead")]
    for key in numeric_keys(cells):
        for what, title in (("score", "Average score"), ("D", "Dissociation D")):
            if series := curve(cells, key, what):
                text = f"{title} over {key}" + (BAND if _several_seeds(cells) else ".")
                values = [point[0] for line in series.values() for point in line]
                rate = is_rate(key, values)
                blocks.append(Lines(series, key, f"{title} (%)", text, log_x=rate))
    if len(blocks) == 1 and (bars := separation_bars(study.grid["over_seeds"])):
        blocks.append(bars)
    blocks += summary(study.grid)
    told = [cell["provenance"]["versions"] for cell in cells if "provenance" in cell]
    versions: dict[str, str] = told[0] if told else {}
    if versions:
        blocks.append(Words(", ".join(f"{k} {v}" for k, v in versions.items()), "note"))
    return Section("sweep", "The grid", blocks)


def summary(grid: dict[str, Any]) -> list[Block]:
    """Every run, D over seeds, differences between settings, and failures."""
    blocks: list[Block] = [table(grid["cells"])]
    if grid["over_seeds"]:
        items = [
            (
                f"{key}, {over_seeds(over)}",
                ", ".join(
                    f"{task} {mean_spread(value)}"
                    for task, value in zip(over["tasks"], over["per_task"], strict=True)
                ),
            )
            for key, over in grid["over_seeds"].items()
        ]
        blocks.append(Items(items, "Dissociation over seeds"))
    if against := grid.get("differences"):
        blocks.append(differences(against))
    if failed := grid.get("failed"):
        blocks.append(Words(f"{len(failed)} failed: run again to retry them", "warning"))
    return blocks


def separation_bars(over: dict[str, Any]) -> Bars | None:
    """D of every setting that has one."""
    found = {
        _named(key, facts): facts["mean"]
        for key, facts in over.items()
        if facts["mean"] is not None
    }
    if not found:
        return None
    return Bars(
        list(found),
        [100 * value[0] for value in found.values()],
        [_around(value) for value in found.values()],
        "D (%)",
        "Dissociation of every setting: mean over seeds, with one standard deviation.",
    )


def _lead(every: list[dict[str, Any]], cells: list[dict[str, Any]]) -> str:
    failed = len(every) - len(cells)
    words = counted(len(every), "run") + (f", {failed} of them failed" if failed else "")
    scored = [(value, cell) for cell in cells if (value := average(cell)) is not None]
    same = len({tuple(cell["varied"].get("tasks", ())) for cell in cells}) == 1
    if len(scored) > 1 and same:  # averages over different tasks cannot be compared
        value, best = max(scored, key=lambda pair: pair[0])
        highest = [cell for other, cell in scored if percent(other) == percent(value)]
        if len(highest) == 1 and not _at_chance(best):
            words += f"; the highest average score is {percent(value)} % ({best['label']})"
    return words + "."


def _at_chance(cell: dict[str, Any]) -> bool:
    """Whether no task of a run scores better than an answer without reading."""
    entries = cell.get("splits", {}).get("validation", {}).values()
    known = [entry for entry in entries if entry.get("trivial") is not None]
    return bool(known) and all(
        (entry["score"] >= entry["trivial"])
        if lower_is_better(entry["metric"])
        else (entry["score"] <= entry["trivial"])
        for entry in known
    )


def _several_seeds(cells: list[dict[str, Any]]) -> bool:
    return len({cell["varied"].get("seed") for cell in cells}) > 1


def _around(value: list[float | None]) -> list[float] | None:
    mean_value, spread = value
    if mean_value is None or spread is None:
        return None
    return [100 * (mean_value - spread), 100 * (mean_value + spread)]


def _named(key: str, facts: dict[str, Any]) -> str:
    """A setting and, if D is undefined in some of its runs, the number of runs averaged."""
    if not facts["left_out"]:
        return key
    return f"{key} ({facts['seeds']} of {facts['seeds'] + facts['left_out']} runs)"


def differences(entries: list[dict[str, Any]]) -> Table:
    """Differences of every setting from the first one over the same tasks, paired by seed."""
    rows = []
    for entry in entries:
        apart = entry["dissociation"]
        rows.append(
            [
                entry["setting"],
                entry["against"],
                str(entry["average"]["seeds"]),
                difference(entry["average"]),
                NOTHING if apart is None else difference(apart),
            ]
        )
    columns = ["setting", "against", "seeds", "average (points)", "D (points)"]
    caption = (
        "Differences paired by seed with their 95 % intervals; p: two-sided t-test over 3 seeds or "
        "more."
    )
    return Table(columns, rows, caption)


def table(cells: list[dict[str, Any]]) -> Table:
    """One column per varied setting, and one per task if all runs have the same."""
    keys = [
        key
        for key in dict.fromkeys(key for cell in cells for key in cell["varied"])
        if len({str(cell["varied"].get(key)) for cell in cells}) > 1
    ]
    tasks = list(dict.fromkeys(task for cell in cells for task in _scores(cell)))
    same = all(set(_scores(cell)) in (set(tasks), set()) for cell in cells)
    rows = []
    for number, cell in enumerate(cells, start=1):
        varied = {key: cell["varied"].get(key, "") for key in keys}
        shown = _marked_scores(cell)
        scores = ["  ".join(shown.values())]
        if same:
            scores = [shown.get(task, NOTHING) for task in tasks]
        rows.append(
            [
                str(number),
                *("+".join(v) if k == "tasks" else setting(v) for k, v in varied.items()),
                *scores,
                *_separation(cell),
                _notes(cell),
            ]
        )
    names = [f"{task} (%)" for task in tasks] if same else ["scores (%)"]
    columns = ["run", *keys, *names, "D (%)", "95 % interval", "D of each (%)", "finding", ""]
    caption = "Every run of the grid with its validation scores."
    if any((cell.get("dissociation") or {}).get("undertrained") for cell in cells):
        caption += (
            " * hardly trained: near what answers get without reading, or a training loss near "
            "that of guessing."
        )
    return _without_empty(Table(columns, rows, caption))


def _without_empty(block: Table) -> Table:
    """Only columns that some run fills: a grid without D has no columns of D."""
    kept = [
        place
        for place, name in enumerate(block.columns)
        if any(row[place] not in ("", NOTHING) for row in block.rows)
    ]
    rows = [[row[place] for place in kept] for row in block.rows]
    return Table([block.columns[place] for place in kept], rows, block.caption)


def _marked_scores(cell: dict[str, Any]) -> dict[str, str]:
    """Validation score by task, starred if it is hardly trained."""
    weak = (cell.get("dissociation") or {}).get("undertrained", {})
    return {
        task: percent(score) + ("*" if task in weak else "")
        for task, score in _scores(cell).items()
    }


def _separation(cell: dict[str, Any]) -> tuple[str, str, str, str]:
    """D, its interval, D of each task, and what a pair shows."""
    found = cell.get("dissociation")
    if not found:
        return NOTHING, "", "", ""
    each = "  ".join(dissociation(value) for value in found.get("per_task", ()))
    pair = len(found.get("tasks", ())) == 2 and "pairwise" in found
    shown = findings(found["pairwise"], found["intervals"])[0][1] if pair else ""
    whole = dissociation(mean_dissociation(found))
    return whole, interval(found["intervals"]["mean"]), each, VERDICTS.get(shown, "")


def _notes(cell: dict[str, Any]) -> str:
    """What went wrong, and which of the numbers mean little or nothing."""
    found = cell.get("dissociation") or {}
    notes = [f"failed: {cell.get('error', '')}"] if cell["state"] != "done" else []
    if weak := ", ".join(found.get("undertrained", {})):
        notes.append(f"hardly trained: {weak}")
    if found and mean_dissociation(found) is None:
        notes.append(f"D undefined ({reasons(found['undefined'])})")
    return "; ".join(notes)


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
    """Whether ratios count rather than differences: learning rates, and values over decades."""
    if min(values) <= 0:
        return False
    return key.rpartition(".")[2].endswith("rate") or max(values) / min(values) >= DECADES


def curve(
    cells: list[dict[str, Any]], key: str, what: str
) -> dict[str, list[tuple[float, float, float]]]:
    """One line per combination of the other settings; points are means over seeds."""
    lines: dict[str, dict[float, list[float]]] = {}
    for cell in cells:
        found = cell.get("dissociation")
        measured = mean_dissociation(found) if found else None
        value = average(cell) if what == "score" else measured
        if value is None:
            continue
        others = [
            "+".join(v) if k == "tasks" else f"{k.rpartition('.')[2]} = {setting(v)}"
            for k, v in cell["varied"].items()
            if k not in ("seed", key)
        ]
        line = lines.setdefault(" ".join(others), {})
        line.setdefault(float(cell["varied"][key]), []).append(100 * value)
    return {
        name: [(x, mean(ys), stdev(ys) if len(ys) > 1 else 0.0) for x, ys in sorted(line.items())]
        for name, line in lines.items()
        if len(line) > 1
    }


def average(cell: dict[str, Any]) -> float | None:
    scores = list(_scores(cell).values())
    return mean(scores) if scores else None
