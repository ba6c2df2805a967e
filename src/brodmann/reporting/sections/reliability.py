"""How far an answer can be trusted: its probability, its decision, its set, its text."""

from collections.abc import Mapping
from typing import Any

from brodmann.reporting.blocks import Block, Fold, Lines, Matrix, Section, Table, Words
from brodmann.reporting.record import Study
from brodmann.text import NOTHING, listed, percent, plain

MANY = 12  # thresholds shown per task


def section(study: Study) -> Section | None:
    blocks: list[Block] = []
    for run in study.runs:
        if "calibration" not in run.measures:
            continue
        found = run.measures["calibration"]["tasks"]
        if len(study.runs) > 1:
            blocks.append(Words(run.name, "lead"))
        blocks += [*_probabilities(found), *_decisions(found), *_sets(found), *_strangers(found)]
    return Section("reliability", "How far to trust an answer", blocks) if blocks else None


def fitted(found: Mapping[str, Any]) -> list[Block]:
    """One line per task, for terminals."""
    rows = []
    for task, entry in found["tasks"].items():
        refused = [other["refused"] for other in entry["other_tasks"].values()]
        rows.append(
            (
                task,
                *(percent(entry[k]["ece"]) if k in entry else NOTHING for k in ("before", "after")),
                percent(entry["regions"]["covered"]) if "regions" in entry else NOTHING,
                percent(entry["own_texts"]["refused"]),
                percent(sum(refused) / len(refused)) if refused else NOTHING,
            )
        )
    columns = ("task", "error", "calibrated", "90 % sets hold", "own refused", "others refused")
    caption = (
        "Calibration error of probabilities (%) before and after; how often sets and intervals "
        "made for 90 % hold the right answer (%); share of own texts and of other tasks' texts "
        "that abstain = 0.05 refuses (%). All on examples that fitted nothing."
    )
    return [Table(columns, rows, caption)]


def _probabilities(found: Mapping[str, Any]) -> list[Block]:
    judged = {task: entry for task, entry in found.items() if "after" in entry}
    if not judged:
        return []
    before, after = (_mean(entry[key]["ece"] for entry in judged.values()) for key in _TIMES)
    words = Words(
        f"A probability is off by {percent(after)} points on average ({percent(before)} before "
        "calibration)."
    )
    columns = ("task", "examples", "temperature", "error before", "error after")
    rows = [
        (
            task,
            f"{entry['examples']:,}",
            plain(entry["temperature"], 2),
            *(percent(entry[key]["ece"]) for key in _TIMES),
            *(plain(entry[key]["brier"], 3) for key in _TIMES),
        )
        for task, entry in judged.items()
    ]
    caption = (
        "A temperature above 1 makes answers less sure. Expected calibration error (%): how far a "
        "probability is from the share of right answers. Brier's score is 0 at best. “After” "
        "scores each fifth of the validation examples with a temperature fitted on the others."
    )
    table = Table((*columns, "Brier before", "Brier after"), rows, caption)
    plots: list[Block] = [curves(judged, key) for key in reversed(_TIMES)]
    return [words, table, plots[0], Fold("Before calibration", plots[1:])]


_TIMES = ("before", "after")
FEW = 10  # a share of fewer answers is chance, and its point would draw the eye


def curves(judged: Mapping[str, Any], key: str) -> Lines:
    """How often answers are right, by their probability, without points of few answers."""
    series = {
        task: [(100 * said, 100 * right) for said, right, n in entry[key]["bins"] if n >= FEW]
        for task, entry in judged.items()
    }
    least = min((point[0] for points in series.values() for point in points), default=0.0)
    words = "after" if key == "after" else "before"
    return Lines(
        series,
        "probability of the answer (%)",
        "right answers (%)",
        f"Reliability {words} calibration: below the dashed line, answers are too sure. A point "
        f"stands for {FEW} answers or more.",
        references={"as sure as right": [(least, least), (100.0, 100.0)]},
    )


def _decisions(found: Mapping[str, Any]) -> list[Block]:
    rows = []
    for task, entry in found.items():
        if (chosen := entry.get("thresholds")) is None:
            continue
        values = [f"{name} {plain(value, 2)}" for name, value in chosen["chosen"].items()]
        shown = listed(values, MANY) if values else "the usual ones are best"
        scores = (percent(chosen["usual_score"]), percent(chosen["score"]))
        rows.append((task, entry["metric"], *scores, shown))
    if not rows:
        return []
    caption = (
        "The thresholds by which `predict` decides. Each fifth of the validation examples is "
        "scored with thresholds chosen on the others; they are used only where this score is "
        "higher than the usual one."
    )
    columns = ("task", "metric", "usual (%)", "with thresholds (%)", "thresholds")
    return [Table(columns, rows, caption)]


def _sets(found: Mapping[str, Any]) -> list[Block]:
    rows = [
        (task, percent(entry["regions"]["coverage"], 0), percent(entry["regions"]["covered"]),
         NOTHING if (size := entry["regions"]["size"]) is None else plain(size, 2))
        for task, entry in found.items()
        if "regions" in entry
    ]  # fmt: skip
    if not rows:
        return []
    caption = (
        "`predict --coverage 0.9` gives the smallest set of labels, or the interval, that holds "
        "the right answer nine times in ten. Measured like the scores above; the size is the mean "
        "number of labels, or the length of the interval."
    )
    return [Table(("task", "asked for (%)", "holds the answer (%)", "size"), rows, caption)]


def _strangers(found: Mapping[str, Any]) -> list[Block]:
    """Refused shares: of own texts, and of the texts of each other task."""
    level = next(iter(found.values()))["own_texts"]["level"]
    if len(found) < 2:
        own = percent(next(iter(found.values()))["own_texts"]["refused"])
        return [Words(f"`predict --abstain {level:g}` refuses {own} % of the task's own texts.")]
    names = list(found)
    values = [
        [
            entry["own_texts"]["refused"]
            if other == task
            else entry["other_tasks"].get(other, {}).get("refused")
            for other in names
        ]
        for task, entry in found.items()
    ]
    apart = _mean(one["auroc"] for entry in found.values() for one in entry["other_tasks"].values())
    words = Words(
        f"`predict --abstain {level:g}` gives no answer to texts that are unlike a task's own. It "
        f"refuses about {percent(level, 0)} % of the task's own texts, and other texts as far as "
        "it can tell them apart."
        + (
            f" AUROC for this (0.5: chance, 1: always): {plain(apart, 3)}."
            if apart == apart
            else ""
        )
    )
    caption = (
        "Share of texts refused (%). Row: the task that answers; column: whose texts they are; "
        "–: the task does not read texts of that form."
    )
    matrix = Matrix(names, names, values, caption, values, bold_diagonal=True)
    return [words, matrix]


def _mean(values: Any) -> float:
    kept = list(values)
    return sum(kept) / len(kept) if kept else float("nan")
