"""Documents as rows: one dict per number or case, ready for a table."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from brodmann.files import Document

Row: TypeAlias = dict[str, str | float | int | bool | None]
AVERAGE = "average"  # of all tasks


def rows_of_scores(splits: Mapping[str, Document]) -> list[Row]:
    """Every metric of every task; the primary one has an interval."""
    rows: list[Row] = []
    for split, tasks in splits.items():
        for task, entry in tasks.items():
            for metric, score in entry["scores"].items():
                primary = metric == entry["metric"]
                low, high = (entry.get("interval") if primary else None) or (None, None)
                rows.append(
                    {
                        "split": split,
                        "task": task,
                        "metric": metric,
                        "score": score,
                        "low": low,
                        "high": high,
                        "primary": primary,
                        "examples": entry["examples"],
                    }
                )
    return rows


def rows_of_comparison(found: Document) -> list[Row]:
    """One row per arm and task, and one for the average, with the difference to the baseline."""
    rows: list[Row] = []
    for arm, own in found["arms"].items():
        means = {**own["per_task"], AVERAGE: own["average"]}
        against = own["against"] or {}
        differences = {**against.get("per_task", {}), AVERAGE: against.get("average") or {}}
        for task, (mean, spread) in means.items():
            entry = differences.get(task, {})
            low, high = entry.get("interval") or (None, None)
            rows.append(
                {
                    "arm": arm,
                    "task": task,
                    "mean": mean,
                    "sd": spread,
                    "seeds": len(own["seeds"]),
                    "difference": entry.get("difference"),
                    "low": low,
                    "high": high,
                    "p": entry.get("p"),
                }
            )
    return rows


def rows_of_grid(found: Document) -> list[Row]:
    """One row per cell: what was varied, its state, and the score of each task."""
    rows: list[Row] = []
    for cell in found["cells"]:
        row: Row = {"cell": cell["label"], "state": cell["state"]}
        row |= {key: _plain(value) for key, value in cell.get("varied", {}).items()}
        validation = cell.get("splits", {}).get("validation", {})
        row |= {task: entry["score"] for task, entry in validation.items()}
        dissociation = cell.get("dissociation") or {}
        row["D"] = dissociation.get("mean")
        rows.append(row)
    return rows


def rows_of_transfer(found: Document) -> list[Row]:
    """One row per task, amount and start."""
    rows: list[Row] = []
    for task, amounts in found["tasks"].items():
        for amount, starts in amounts.items():
            for start, own in starts.items():
                against = own.get("against") or {}
                rows.append(
                    {
                        "task": task,
                        "amount": amount,
                        "start": start,
                        "mean": own["mean"][0],
                        "sd": own["mean"][1],
                        "seeds": len(own["scores"]),
                        "p": against.get("p"),
                    }
                )
    return rows


def rows_of_meta(found: Document) -> list[Row]:
    """One row per unseen pair, number of examples and steps, and start."""
    return [
        {
            "pair": pair,
            "examples": entry["shots"],
            "steps": entry["steps"],
            "start": start,
            "mean": mean,
            "sd": spread,
        }
        for pair, own in found["pairs"].items()
        for entry in own["table"]
        for start, scores in entry["starts"].items()
        for mean, spread in [scores["mean"] or (None, None)]  # nothing if every seed diverged
    ]


def rows_of_adaptation(found: Document) -> list[Row]:
    """The scores of new tasks, and of old ones before and after."""
    rows = rows_of_scores(found.get("scores", {}))
    old = found.get("old", {})
    for task, before in old.get("before", {}).items():
        after = old.get("after", {}).get(task)
        metric = old["metrics"][task]
        rows.append({"split": "validation", "task": task, "metric": metric, "score": after})
        rows[-1] |= {"before": before, "primary": True}
    return rows


def rows_of_relation(found: Document, by: str) -> list[Row]:
    """One row per task, one column per task; for attention maps, one row per head."""
    names: Sequence[str] = found["tasks"]
    if "maps" in found:
        return [
            {"task": task, "layer": layer, "head": head, "cosine": cosine}
            for task, layers in zip(names, found["maps"], strict=True)
            for layer, heads in enumerate(layers)
            for head, cosine in enumerate(heads)
        ]
    matrix = found.get("matrix") or found[by]
    matrix = matrix["matrix"] if isinstance(matrix, Mapping) else matrix
    return [
        {"task": name, **dict(zip(names, values, strict=True))}
        for name, values in zip(names, matrix, strict=True)
    ]


def rows_of_pruning(found: Document) -> list[Row]:
    """The score of each task before and after."""
    return [{"task": task, **entry} for task, entry in found["scores"].items()]


def rows_of_compression(found: Document) -> list[Row]:
    """One row per task or, if no model was written, per trial and task."""
    if "confirmed" in found:
        return [{"task": task, **_row(entry)} for task, entry in found["confirmed"].items()]
    return [
        {"speed": trial["speed"], "holds": trial["holds"], "task": task, **_row(loss)}
        for trial in found["trials"]
        for task, loss in trial["losses"].items()
    ]


def _row(loss: Mapping[str, Any]) -> Row:
    return {key: _plain(value) for key, value in loss.items()}


def rows_of_study(section: str, found: Document) -> list[Row]:
    """Rows of any study: a new kind without rows of its own shows its scores, if it has any."""
    if section in ROWS_OF:
        return ROWS_OF[section](found)
    return rows_of_scores(found.get("splits", {}))


def rows_of_plan(found: Document) -> list[Row]:
    """One row per stage of a run, per run of a study, or per recipe."""
    if "recipes" in found:
        return [{key: _plain(value) for key, value in one.items()} for one in found["recipes"]]
    if "cells" in found:
        return [_row_of_planned_cell(cell) for cell in found["cells"]]
    operations, took = found.get("operations", {}), (found.get("took") or {}).get("seconds", {})
    return [
        {
            "stage": stage,
            "seconds": seconds,
            "operations": operations.get(stage),
            "took": took.get(stage),
        }
        for stage, seconds in found.get("seconds", {}).items()
    ]


def _row_of_planned_cell(cell: Document) -> Row:
    return {
        "run": cell["label"],
        "steps": cell["steps"],
        "tokens": cell["tokens"],
        "seconds": sum(cell["seconds"].values()),
        "operations": sum(cell["operations"].values()),
        "disk": cell["disk"],
    }


def rows_of_tables(documents: Sequence[Document]) -> list[Row]:
    """One row per number of the papers' tables, beside the paper's own."""
    rows: list[Row] = []
    for document in documents:
        paper = document["view"]["paper"]
        names = {**paper, **document["ours"]}
        for row in names:
            columns = {**paper.get(row, {}), **document["ours"].get(row, {})}
            for column in columns:
                ours = document["ours"].get(row, {}).get(column)
                rows.append(
                    {
                        "view": document["view"]["name"],
                        "row": row,
                        "column": column,
                        "ours": ours,
                        "paper": paper.get(row, {}).get(column),
                    }
                )
    return rows


ROWS_OF: dict[str, Callable[[Any], list[Row]]] = {  # section of a study → rows of its document
    "grid": rows_of_grid,
    "compare": rows_of_comparison,
    "transfer": rows_of_transfer,
    "meta": rows_of_meta,
    "adapt": rows_of_adaptation,
    "distill": rows_of_pruning,
}


def _plain(value: Any) -> str | float | int | bool | None:
    return value if isinstance(value, str | float | int | bool | None) else str(value)


def rows_of_calibration(found: Mapping[str, Document]) -> list[Row]:
    """One row per task; shares of texts refused are means over the other tasks."""
    rows: list[Row] = []
    for task, entry in found.items():
        refused = [other["refused"] for other in entry["other_tasks"].values()]
        rows.append(
            {
                "task": task,
                "examples": entry["examples"],
                "temperature": entry.get("temperature"),
                "ece_before": entry.get("before", {}).get("ece"),
                "ece": entry.get("after", {}).get("ece"),
                "brier_before": entry.get("before", {}).get("brier"),
                "brier": entry.get("after", {}).get("brier"),
                "covered": entry.get("regions", {}).get("covered"),
                "set_size": entry.get("regions", {}).get("size"),
                "own_refused": entry["own_texts"]["refused"],
                "others_refused": sum(refused) / len(refused) if refused else None,
            }
        )
    return rows
