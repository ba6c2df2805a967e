"""Guess what a table is: its kind of task and its columns, how sure that is, and why.

`look` tries the most specific forms first (tags per word, answers in a text, choices, sets of
labels) and classification or regression of one or two texts last. Names of columns only break ties
and raise confidence: the cells decide.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from statistics import mean

from brodmann.advising.cell_forms import Cells, describe_columns
from brodmann.advising.special_forms import (
    Belief,
    guess_choice,
    guess_span,
    guess_tokens,
    roles_of,
    with_form,
)
from brodmann.data.sources.label_columns import as_label
from brodmann.data.sources.table import Table
from brodmann.errors import InputError
from brodmann.text import counted

LABEL_NAMES = re.compile(
    r"label|class|categor|target|gold|sentiment|intent|topic|^y$|emotion|answer|score|rating|tag",
    re.IGNORECASE,
)
MEASURED = ("score", "rating", "similarity", "value", "mean", "valence", "strength")


def look(table: Table) -> Belief:
    """The most plausible reading of a table; InputError if it has no text or no label."""
    cells = describe_columns(table)
    for guess in (guess_tokens, guess_span, guess_choice, _several_labels):
        if (found := guess(cells)) is not None:
            return found
    return _one_label(cells, table.source)


def _several_labels(cells: Sequence[Cells]) -> Belief | None:
    texts = _texts(cells)
    sets = with_form(cells, "label sets", "tags")
    if texts and sets:
        chosen = max(sets, key=_label_rank)
        how = f"separated by '{chosen.separator}'" if chosen.separator else "as lists"
        why = f"'{chosen.name}' holds sets of labels, {how}"
        return Belief(
            "multilabel",
            roles_of(texts, label=chosen.name),
            0.9,
            (why,),
            converts="sets" if chosen.separator not in ("", "|") else "",
            separator=chosen.separator,
        )
    marks = [
        one
        for one in with_form(cells, "label")
        if {as_label(value).casefold() for value in one.present} <= {"0", "1", "true", "false"}
    ]
    if texts and len(marks) > 2:
        names = [one.name for one in marks]
        why = f"{len(names)} columns hold only 0 and 1: one per label ({', '.join(names[:4])})"
        columns = {**roles_of(texts), "label": names}
        others = ("one classification per column",)
        return Belief("multilabel", columns, 0.8, (why,), others, converts="marks")
    return None


def _one_label(cells: Sequence[Cells], source: str) -> Belief:
    texts = _texts(cells)
    labels = [one for one in with_form(cells, "label", "number") if one.distinct > 1]
    if not labels:  # many labels with few examples each: the shortest column
        short = [one for one in texts if one.words <= 3 and 2 * one.distinct <= len(one.values)]
        if len(texts) > 1 and short:
            labels = [min(short, key=lambda one: one.distinct)]
            texts = [one for one in texts if one is not labels[0]]
    if not texts:
        raise InputError(
            f"{source}: no column holds texts (its columns: {_listed(cells)}): expected at least "
            "one column of texts and one of labels"
        )
    if not labels:
        raise InputError(
            f"{source}: no column looks like labels (its columns: {_listed(cells)}): expected a "
            "column with few different values, numbers, or lists of labels"
        )
    ranked = sorted(labels, key=_label_rank, reverse=True)
    label = ranked[0]
    found = _classes(texts, label) if label.form == "label" else _numbers(texts, label)
    others = [
        f'label = "{one.name}" ({counted(one.distinct, "value")}: {one.examples()})'
        for one in ranked[1:]
    ]
    sure = found.sure - (0.25 if others and not LABEL_NAMES.search(label.name) else 0.0)
    sure -= 0.1 if others else 0.0
    return _with_pair(replace(found, sure=sure, others=(*found.others, *others)), texts)


def _classes(texts: Sequence[Cells], label: Cells) -> Belief:
    why = f"'{label.name}' has {counted(label.distinct, 'value')}: {label.examples()}"
    numbers = all(
        as_label(value).lstrip("-").replace(".", "").isdecimal() for value in label.present
    )
    columns = roles_of(texts, label=label.name)
    if numbers and label.distinct > 3:
        others = ('kind = "regression", if the numbers are a scale',)
        return Belief("classification", columns, 0.65, (why,), others)
    return Belief("classification", columns, 0.95, (why,))


def _numbers(texts: Sequence[Cells], label: Cells) -> Belief:
    columns = roles_of(texts, label=label.name)
    if label.form != "number":
        why = f"'{label.name}' repeats {counted(label.distinct, 'short text')}"
        return Belief("classification", columns, 0.5, (why,))
    why = f"'{label.name}' holds {counted(label.distinct, 'different number')}"
    return Belief("regression", columns, 0.9, (why,))


def _with_pair(belief: Belief, texts: Sequence[Cells]) -> Belief:
    if len(texts) < 2:
        return belief
    if len(texts) > 2:
        names = ", ".join(one.name for one in texts[2:])
        other = f"further columns of texts that are not read: {names}"
        return replace(belief, sure=belief.sure - 0.3, others=(*belief.others, other))
    share = _overlap(texts[0], texts[1])
    why = f"two texts per row, with {100 * share:.0f} % common words: read as a pair"
    other = f'text = ["{texts[0].name}", "{texts[1].name}"], if they are one text in two columns'
    reasons = (*belief.reasons, why)
    return replace(belief, reasons=reasons, others=(*belief.others, other), sure=belief.sure - 0.05)


def _overlap(one: Cells, other: Cells) -> float:
    shares = []
    for a, b in zip(one.values[:500], other.values[:500], strict=True):
        first, second = set(str(a).lower().split()), set(str(b).lower().split())
        shares.append(len(first & second) / max(min(len(first), len(second)), 1))
    return mean(shares)


def _texts(cells: Sequence[Cells]) -> list[Cells]:
    """Columns of texts, in the order of the table; long ones first if there are many."""
    texts = with_form(cells, "text")
    if len(texts) <= 2:
        return texts
    best = max(combinations(texts, 2), key=lambda pair: pair[0].words + pair[1].words)
    return [*best, *(one for one in texts if one not in best)]


def _label_rank(cells: Cells) -> tuple[bool, bool, bool, int]:
    """Higher for a column that is more likely the label."""
    named = LABEL_NAMES.search(cells.name) is not None
    classes = cells.form != "number" or any(word in cells.name.lower() for word in MEASURED)
    return named, classes, cells.filled > 0.98, -cells.distinct


def _listed(cells: Sequence[Cells]) -> str:
    return ", ".join(f"'{one.name}' ({one.form})" for one in cells[:8])
