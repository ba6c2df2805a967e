"""What the model gets wrong on the validation examples: counts, labels, examples, label errors."""

from collections.abc import Mapping, Sequence
from typing import Any

from brodmann.analysis.label_scores import share
from brodmann.reporting.blocks import Block, Case, Cases, Fold, Matrix, Section, Table, Words
from brodmann.reporting.record import Study
from brodmann.text import (
    NOTHING,
    capital,
    counted,
    interval,
    percent,
    short,
    with_interval,
)

SHOWN_CASES = 12  # of each list on the page; the file has more
SHOWN_LABELS = 20
SHOWN_CONFUSIONS = 15
NAME = 60  # letters of a label's name

Found = Mapping[str, Any]


def section(study: Study) -> Section | None:
    """For the page of one run: side by side, lists of examples would say little."""
    if len(study.runs) != 1 or study.runs[0].mistakes is None:
        return None
    tasks = {task: one for task, one in study.runs[0].mistakes.tasks.items() if one["examples"]}
    if not tasks:
        return None
    blocks: list[Block] = [summary(tasks)]
    blocks.append(
        Words(
            "Each example below shows the right answer → the model's, the probability of the "
            "model's, and the row: its place in the validation split, counted from 0.",
            "note",
        )
    )
    for task, found in tasks.items():
        views = task_views(found)
        blocks += [Fold(_headline(task, found), views)] if len(tasks) > 1 else views
    return Section("mistakes", "What the model gets wrong", blocks)


def summary(tasks: Mapping[str, Found]) -> Table:
    """One row per task."""
    rows: list[tuple[str, ...]] = []
    for task, found in tasks.items():
        wrong, examples = found["wrong"], found["examples"]
        if wrong is None:
            much = f"off by {found['numbers']['mean_absolute_error']:.3g} on average"
            rows.append((task, NOTHING, NOTHING, "", f"{examples:,}", NOTHING, much))
            continue
        part, *ends = share(wrong, examples) or [0.0, 0.0, 0.0]
        in_all = found["suspects_in_all"]
        suspects = NOTHING if in_all is None else f"{in_all:,}"
        often = _most_frequent(found)
        rows.append(
            (task, f"{wrong:,}", percent(part), interval(ends), f"{examples:,}", suspects, often)
        )
    columns = ("task", "wrong", "wrong (%)", "95 % interval (%)", "examples")
    more = ("suspected labels", "most frequent mistake")
    caption = (
        "Validation examples with any mistake. Suspected labels: examples where the data's label "
        "may be wrong rather than the model's answer."
    )
    return Table((*columns, *more), rows, caption)


def task_views(found: Found) -> list[Block]:
    """All about the mistakes of one task."""
    blocks: list[Block] = []
    if found["numbers"] is not None:
        blocks.append(_fifths(found["numbers"]))
    if found["sorts"] and any(found["sorts"].values()):
        sorts = [(capital(sort), f"{count:,}") for sort, count in found["sorts"].items()]
        blocks.append(Table(("mistake", "times"), sorts))
    if found["matrix"] is not None:
        blocks.append(_matrix(found))
    matrix = found["matrix"]
    if found["confusions"] and (matrix is None or matrix["shown"] < matrix["of"]):
        blocks.append(_confusions(found))
    if found["labels"]:
        blocks.append(_labels(found))
    blocks += _lists(found)
    return blocks


def _headline(task: str, found: Found) -> str:
    task = short(task, NAME)
    if found["wrong"] is None:
        return f"{task}: off by {found['numbers']['mean_absolute_error']:.3g} on average"
    return f"{task}: {found['wrong']:,} of {counted(found['examples'], 'example')} wrong"


def _most_frequent(found: Found) -> str:
    if found["confusions"]:
        first = found["confusions"][0]
        return f"{_in_words(first)} ({first['count']:,})"
    sorts = [sort for sort, count in found["sorts"].items() if count]
    return f"{sorts[0]} ({found['sorts'][sorts[0]]:,})" if sorts else NOTHING


def _in_words(confusion: Found) -> str:
    truth, answer = confusion["truth"], confusion["answer"]
    if truth is None or answer is None:
        return f"{short(truth or answer, NAME)} {'wrongly given' if truth is None else 'missed'}"
    return f"{short(truth, NAME)} → {short(answer, NAME)}"


def _matrix(found: Found) -> Matrix:
    names = [short(name, NAME) for name in found["matrix"]["labels"]]
    counts = found["matrix"]["counts"]
    shades = []
    for row, line in enumerate(counts):
        total = sum(line) or 1
        # Right answers in one colour, mistakes in the other: the page draws negative shades so.
        shades.append(
            [
                None if not count else (count if row == column else -count) / total
                for column, count in enumerate(line)
            ]
        )
    caption = "How often each label (row) was answered as each label (column)."
    shown, in_all = found["matrix"]["shown"], found["matrix"]["of"]
    if shown < in_all:
        caption += f" The {shown} of {in_all:,} labels that are confused most often."
    return Matrix(
        names,
        names,
        counts,
        caption,
        shades,
        digits=0,
        percent=False,
        bold_diagonal=True,
        colours="One colour is right, the other wrong; darker: a larger part of the row.",
    )


def _confusions(found: Found) -> Table:
    shown = found["confusions"][:SHOWN_CONFUSIONS]
    rows = [(_in_words(one), f"{one['count']:,}") for one in shown]
    caption = _of(len(rows), found["confusions_in_all"], "The most frequent mistakes")
    return Table(("right → answered", "times"), rows, caption)


def _labels(found: Found) -> Table:
    rows = [
        (
            short(one["label"], NAME),
            *(_score(one[name]) for name in ("precision", "recall", "f1")),
            f"{one['support']:,}",
            f"{one['given']:,}",
        )
        for one in found["labels"][:SHOWN_LABELS]
    ]
    caption = (
        f"Scores of each label with 95 % intervals (Wilson's), and how often it is right and was "
        f"answered, {_counted_by(found['unit'])}."
    )
    if found["labels_in_all"] > len(rows):
        caption += f" The most frequent {len(rows):,} of {found['labels_in_all']:,} labels."
    columns = ("label", "precision (%)", "recall (%)", "F1 (%)", "right", "answered")
    return Table(columns, rows, caption)


def _counted_by(unit: str) -> str:
    return "counted by text" if unit == "label" else f"counted by {unit}"


def _score(ends: Sequence[float] | None) -> str:
    return NOTHING if ends is None else with_interval(percent(ends[0]), ends[1:])


def _of(shown: int, in_all: int, what: str) -> str:
    more = in_all - shown
    return f"{what}." if more <= 0 else f"{what}: {shown:,} of {in_all:,}."


def _fifths(numbers: Found) -> Table:
    rows = [
        (
            f"{_digits(one['from'])} to {_digits(one['to'])}",
            f"{one['examples']:,}",
            _digits(one["mean_error"]),
            _digits(one["mean_absolute_error"]),
        )
        for one in numbers["fifths"]
    ]
    every = f"{numbers['mean_absolute_error']:.3g}"
    caption = (
        f"Answers are off by {every} on average (median {numbers['median_absolute_error']:.3g}). "
        "Mean error: above 0, answers are too high."
    )
    return Table(("right values", "examples", "mean error", "off by"), rows, caption)


def _digits(value: float) -> str:
    """Three digits of a number on any scale, with a true minus."""
    return f"{value:.3g}".replace("-", "−")


def _lists(found: Found) -> list[Block]:
    """The examples themselves, each list folded away."""
    worst, measure, wrong = "Most confident mistakes", "sure", found["wrong"]
    if wrong is None:
        worst, measure, wrong = "Largest errors", "wrong", found["examples"]
    elif all(case["sure"] is None for case in found["mistakes"]):
        worst = "Mistakes, most in one example first"
    certain = "Least certain answers"
    why = (
        "For these rows, another label is more probable than the thresholds of confident learning "
        "allow for a right one: the label may be wrong in the data, or the text is hard."
    )
    lists = [
        _folded(found["mistakes"], wrong, worst, measure, ""),
        _folded(found["uncertain"], found["examples"], certain, "certainty", ""),
        _folded(found["suspects"], found["suspects_in_all"], "Suspected label errors", "sure", why),
    ]
    return [one for one in lists if one is not None]


def _folded(
    cases: Sequence[Found], in_all: int, title: str, measure: str, words: str
) -> Fold | None:
    shown = [_case(case, measure) for case in cases[:SHOWN_CASES]]
    if not shown:
        return None
    blocks: list[Block] = [Words(words, "note")] if words else []
    number = f"{len(shown):,} of {in_all:,}" if in_all > len(shown) else f"{in_all:,}"
    return Fold(f"{title} ({number})", [*blocks, Cases(shown)])


def _case(case: Found, measure: str) -> Case:
    seen = {**case, **case.get("texts", {})}
    value = case[measure]
    words = f"off by {value:.3g}" if measure == "wrong" else f"{percent(value)} %"
    return Case(
        f"row {case['row']:,}",
        short(seen["truth"], 4 * NAME),
        short(seen["answer"], 4 * NAME),
        "" if value is None else words,
        seen.get("text", ""),
        case["wrong"] == 0,
    )
