"""Entities as character spans of a text, turned into words and BIO tags.

A span is {"start": 4, "end": 10, "label": "LOC"}: characters from `start` up to, but not including,
`end`. Label Studio's {"labels": ["LOC"]} is read, too. Text is cut into words as `predict` cuts it,
so that a model reads the same words later.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from brodmann.data.tasks import listed
from brodmann.errors import InputError

WORD = re.compile(r"\w+|[^\w\s]")

Place = tuple[int, int]  # first character, and the one after the last


def words_of(text: str) -> tuple[list[str], list[Place]]:
    """The words and punctuation marks of a text, with their places."""
    matches = list(WORD.finditer(text))
    return [match.group() for match in matches], [match.span() for match in matches]


def holds_spans(cell: Any) -> bool:
    """Whether a cell of tags is a list of character spans, perhaps as JSON; not if it is empty."""
    if isinstance(cell, str):
        return cell.lstrip().startswith("[") and cell.lstrip("[ \n\t\r").startswith("{")
    return isinstance(cell, list) and bool(cell) and isinstance(cell[0], Mapping)


def with_tags(row: Mapping[str, Any], *, widen: bool) -> tuple[dict[str, Any], int]:
    """The row (by role) with words and tags, and the number of spans widened to whole words."""
    text = row["tokens"]
    if not isinstance(text, str):
        raise InputError(
            f"tokens: character spans need the text as it was annotated, found {text!r:.60}"
        )
    words, tags, places, widened = _tagged(text, row["tags"], widen)
    return {**row, "tokens": words, "tags": tags, "spans": places, "text": text}, widened


def _tagged(text: str, cell: Any, widen: bool) -> tuple[list[str], list[str], list[Place], int]:
    words, places = words_of(text)
    tags = ["O"] * len(words)
    widened = 0
    starts, ends = [start for start, _ in places], [end for _, end in places]
    for start, end, label in sorted(_checked(one, text) for one in listed(cell, "tags", None)):
        inside = range(bisect_right(ends, start), bisect_left(starts, end))
        shown = f"the span {start} to {end} ({label}, {text[start:end]!r:.60})"
        if not inside:
            raise InputError(f"tags: {shown} has no word")
        if any(tags[i] != "O" for i in inside):
            raise InputError(
                f"tags: {shown} overlaps another: a word has one tag, so keep one of the two"
            )
        first, last = places[inside[0]][0], places[inside[-1]][1]
        if first < start or end < last:
            if not widen:
                where = "begins" if first < start else "ends"
                word = words[inside[0] if first < start else inside[-1]]
                raise InputError(
                    f"tags: {shown} {where} inside the word '{word:.40}': correct the span, or set "
                    'misaligned = "widen" to tag whole words'
                )
            widened += 1
        for i in inside:
            tags[i] = f"{'B' if i == inside[0] else 'I'}-{label}"
    return words, tags, places, widened


def _checked(span: Any, text: str) -> tuple[int, int, str]:
    """(start, end, label); spaces at its edges are left out."""
    if not isinstance(span, Mapping):
        raise InputError(f"tags: expected spans such as {{start, end, label}}, found {span!r:.60}")
    numbers = []
    for key in ("start", "end"):
        value: Any = span.get(key)
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        if isinstance(value, bool) or not whole:
            raise InputError(f"tags: {key}: expected a whole number, found {value!r:.60}")
        numbers.append(int(value))
    start, end = numbers
    if not 0 <= start < end <= len(text):
        raise InputError(
            f"tags: the span {start} to {end} is outside its text of {len(text):,} characters"
        )
    label = _label(span)
    marked = text[start:end]
    start += len(marked) - len(marked.lstrip())
    return start, max(start, end - len(marked) + len(marked.rstrip())), label


def _label(span: Mapping[str, Any]) -> str:
    found = span.get("label", span.get("labels"))
    if isinstance(found, Sequence) and not isinstance(found, str) and len(found) == 1:
        found = found[0]
    if not isinstance(found, str) or not found.strip():
        raise InputError(f"tags: label: expected one name, found {found!r:.60}")
    return found.strip()
