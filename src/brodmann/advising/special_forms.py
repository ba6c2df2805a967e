"""Forms that only some kinds of task have: tags per word, answers in a text, choices."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from brodmann.advising.cell_forms import Cells
from brodmann.data.sources.label_columns import as_label

SURE, FAIR = 0.9, 0.6  # above: "sure"; above: "likely"; below: "unsure"
NUMBERED = re.compile(r"^(.*?)[ _\-.]?(\d|[a-eA-E])$")
IN_CONTEXT = 0.8  # share of the answers that are found in another column


@dataclass(frozen=True)
class Belief:
    """What a table seems to be."""

    kind: str
    columns: dict[str, str | list[str]]  # role → column
    sure: float  # from 0 to 1
    reasons: tuple[str, ...]
    others: tuple[str, ...] = ()  # other readings, in words
    converts: str = ""  # how rows must be rewritten before a task can read them
    separator: str = ""

    @property
    def confidence(self) -> str:
        return "sure" if self.sure >= SURE else "likely" if self.sure >= FAIR else "unsure"


def with_form(cells: Sequence[Cells], *forms: str) -> list[Cells]:
    return [one for one in cells if one.form in forms]


def roles_of(texts: Sequence[Cells], **others: str) -> dict[str, str | list[str]]:
    """The texts' roles, and those of other columns."""
    columns: dict[str, str | list[str]] = {"text": texts[0].name}
    if len(texts) > 1 and "choices" not in others:
        columns["text_pair"] = texts[1].name
    return {**columns, **others}


def guess_tokens(cells: Sequence[Cells]) -> Belief | None:
    spans = with_form(cells, "spans")
    texts = with_form(cells, "text")
    if spans and texts:
        why = f"'{spans[0].name}' holds character spans with labels in '{texts[0].name}'"
        return Belief("tokens", {"tokens": texts[0].name, "tags": spans[0].name}, 0.95, (why,))
    lists = with_form(cells, "words", "tags", "label sets", "texts")
    for words in lists:
        aligned = [
            other
            for other in lists
            if other is not words
            and other.distinct < words.distinct
            and _aligned(words.values, other.values)
        ]
        if not aligned:
            continue
        tags = max(aligned, key=lambda one: (_is_tagged(one), one.distinct, one.name == "tags"))
        first = next(c for c in lists if c.values == words.values)
        tags = next(c for c in lists if c.values == tags.values)  # CoNLL columns have two names
        why = f"'{tags.name}' has one of {tags.distinct} tags per word of '{first.name}'"
        more = [c.name for c in aligned if c.values != tags.values]
        others = (f"tags = one of {', '.join(more)}",) if more else ()
        sure = 0.95 if not more else 0.75
        return Belief("tokens", {"tokens": first.name, "tags": tags.name}, sure, (why,), others)
    return None


def _aligned(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether lists have the same length in every row, and more than one item in some."""
    pairs = list(zip(one, other, strict=True))
    filled = [(a, b) for a, b in pairs if isinstance(a, list) and isinstance(b, list)]
    same = all(len(a) == len(b) for a, b in filled)
    return len(filled) == len(pairs) and same and any(len(a) > 1 for a, _ in filled)


def _is_tagged(cells: Cells) -> bool:
    """Whether its labels are BIO tags."""
    items = {as_label(item) for value in cells.present for item in value}
    return "O" in items and any(item[:2] in ("B-", "I-") for item in items)


def guess_span(cells: Sequence[Cells]) -> Belief | None:
    texts = with_form(cells, "text")
    listed = with_form(cells, "texts", "label sets", "words")
    for answers in [*with_form(cells, "answers"), *listed, *texts]:
        for context in texts:
            if context is answers or context.words < 5:
                continue
            share = _found_in(answers.values, context.values)
            questions = [
                one
                for one in texts
                if one is not answers and one is not context and one.words < context.words
            ]
            if share < IN_CONTEXT or not questions:
                continue
            question = min(questions, key=lambda one: _question_rank(one))
            why = (
                f"{100 * share:.0f} % of the answers in '{answers.name}' are found in "
                f"'{context.name}'"
            )
            columns = {
                "question": question.name,
                "context": context.name,
                "answer": answers.name,
            }
            start = next((c for c in cells if _starts(c, answers, context)), None)
            if start is not None:
                columns["answer_start"] = start.name
            return Belief("span", dict(columns), 0.9, (why,))
    return None


def _question_rank(cells: Cells) -> tuple[int, float]:
    """Lower for a column of questions: they end in question marks."""
    asked = mean(str(value).rstrip().endswith("?") for value in cells.present)
    return (0 if asked > 0.3 else 1, -cells.words)


def _texts_of(answer: Any) -> list[str]:
    found = answer.get("text", []) if isinstance(answer, dict) else answer
    return [str(one) for one in (found if isinstance(found, list) else [found])]


def _found_in(answers: Sequence[Any], contexts: Sequence[Any]) -> float:
    """Share of the non-empty answers that are shorter parts of their contexts."""
    pairs = [
        (text, str(context))
        for answer, context in zip(answers, contexts, strict=True)
        if answer is not None and context is not None
        for text in _texts_of(answer)[:1]
    ]
    pairs = [(text, context) for text, context in pairs if text]
    if len(pairs) < 5 or len({text for text, _ in pairs}) < 4:
        return 0.0
    return mean(text in context and 2 * len(text) < len(context) for text, context in pairs)


def _starts(cells: Cells, answers: Cells, context: Cells) -> bool:
    """Whether a column of numbers is where the answers begin."""
    if cells.form not in ("number", "identifier", "label") or answers.form == "answers":
        return False
    checked = []
    for start, answer, text in zip(cells.values, answers.values, context.values, strict=True):
        if start is None or answer is None or text is None:
            continue
        try:
            place = int(float(str(start)))
        except ValueError:
            return False
        first = _texts_of(answer)[0]
        checked.append(str(text)[place : place + len(first)] == first)
    return bool(checked) and all(checked)


def guess_choice(cells: Sequence[Cells]) -> Belief | None:
    texts = with_form(cells, "text")
    labels = with_form(cells, "label", "number", "text")
    for listed in with_form(cells, "texts", "words"):
        for label in labels:
            if not _chooses(label.values, listed.values):
                continue
            question = [one for one in texts if one is not label]
            if question:
                why = f"'{label.name}' says which of the texts in '{listed.name}' is right"
                columns = roles_of(question, choices=listed.name, label=label.name)
                return Belief("choice", columns, 0.9, (why,))
    for members, sure in [*_numbered(texts), *_alike(texts)]:
        names = [one.name for one in members]
        asked = [one for one in texts if one.name not in names]
        lists = [list(row) for row in zip(*(one.values for one in members), strict=True)]
        fits = [one for one in labels if one.name not in names and _chooses(one.values, lists)]
        whole = bool(fits) and len({as_label(v) for v in fits[0].present}) == len(members)
        if len(members) > 1 and asked and whole:
            why = f"'{fits[0].name}' says which of {' and '.join(names)} is right"
            columns = {**roles_of(asked[:1], label=fits[0].name), "choices": names}
            others = ("classification, if these are texts to compare",)
            return Belief("choice", columns, sure, (why,), others)
    return None


def _numbered(texts: Sequence[Cells]) -> list[tuple[list[Cells], float]]:
    """Columns of texts whose names differ in a number or letter."""
    groups: dict[str, list[Cells]] = {}
    for one in texts:
        if (match := NUMBERED.match(one.name)) is not None:
            groups.setdefault(match[1].lower(), []).append(one)
    return [
        (own, 0.85 if len(own) > 2 else 0.7) for own in groups.values() if len(own) < len(texts)
    ]


def _alike(texts: Sequence[Cells]) -> list[tuple[list[Cells], float]]:
    """Neighbouring columns of texts of the same length, beside at least one other."""
    found = []
    for count in range(len(texts) - 1, 1, -1):
        for start in range(len(texts) - count + 1):
            own = list(texts[start : start + count])
            lengths = [one.words for one in own]
            if max(lengths) < 1.15 * min(lengths):
                found.append((own, 0.55))
    return found


def _chooses(labels: Sequence[Any], lists: Sequence[Any]) -> bool:
    """Whether every label is the place of an item from 0, or the item itself, and all occur."""
    pairs = list(zip(labels, lists, strict=True))
    if not all(isinstance(one, list) and label is not None for label, one in pairs):
        return False
    if all(label in one for label, one in pairs):
        return True
    named = [as_label(label) for label, _ in pairs]
    if not all(name.isdecimal() for name in named):
        return False
    places = [int(name) for name in named]
    inside = all(p < len(one) for p, (_, one) in zip(places, pairs, strict=True))
    return inside and 0 in places and len(set(places)) > 1
