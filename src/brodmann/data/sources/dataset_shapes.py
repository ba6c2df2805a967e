"""Convert rows of special datasets to one of our kinds, as the datasets' authors define them.

A shape takes one row with the dataset's own fields and returns one with the kind's columns (named
by role), or None for a row that the kind cannot express; the number of those is reported. The
answer may be missing: unlabelled rows have the same shape.
"""

from collections.abc import Callable
from typing import Any

from brodmann.errors import InputError

Row = dict[str, Any]
COPA_QUESTIONS = {"cause": "What was the cause of this?", "effect": "What happened as a result?"}
PLACEHOLDER = "@placeholder"


class MissingFieldError(InputError):
    """The row is not a raw row of the dataset; it may already be in the task's own columns."""


def text_of(row: Row, field: str, *, empty: bool = False) -> str:
    value = row[field]
    if not isinstance(value, str) or not (value.strip() or empty):
        raise InputError(f"{field}: expected a text, found {value!r:.60}")
    return value


def texts_of(row: Row, field: str) -> list[str]:
    values = row[field]
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise InputError(f"{field}: expected a list of texts, found {values!r:.60}")
    return values


def number_of(row: Row, field: str) -> int:
    value = row[field]
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{field}: expected a whole number, found {value!r:.60}")
    return value


def table_of(row: Row, field: str) -> Row:
    value = row[field]
    if not isinstance(value, dict):
        raise InputError(f"{field}: expected a table of fields, found {value!r:.60}")
    return value


def wic(row: Row) -> Row:
    """Words in context: the word is put between asterisks in both sentences."""
    texts = []
    for place in ("1", "2"):
        sentence = text_of(row, f"sentence{place}")
        start, end = number_of(row, f"start{place}"), number_of(row, f"end{place}")
        if not 0 <= start < end <= len(sentence):
            raise InputError(f"start{place} = {start}, end{place} = {end}: outside its sentence")
        texts.append(f"{sentence[:start]}* {sentence[start:end]} *{sentence[end:]}")
    return {**row, "text": texts[0], "text_pair": texts[1]}


def wsc(row: Row) -> Row:
    """Winograd schemas: the noun phrase is put between asterisks, the pronoun between hashes.

    Positions count words; if other words are there (the published file has such a row), the nearest
    position with the right words counts.
    """
    words = text_of(row, "text").split()
    marks: list[tuple[int, int, str]] = []
    for place, mark in (("1", "*"), ("2", "#")):
        span = text_of(row, f"span{place}_text").split()
        first = _nearest(words, span, number_of(row, f"span{place}_index"))
        if first is None:
            raise InputError(f"span{place}_text: {' '.join(span)!r:.60} is not in the text")
        marks.append((first, first + len(span), mark))
    for first, last, mark in sorted(marks, reverse=True):
        words[first:last] = [mark, *words[first:last], mark]
    return {**row, "text": " ".join(words)}


def _nearest(words: list[str], span: list[str], index: int) -> int | None:
    wanted = [_bare(word) for word in span]
    places = [
        place
        for place in range(len(words) - len(span) + 1)
        if [_bare(word) for word in words[place : place + len(span)]] == wanted
    ]
    return min(places, key=lambda place: abs(place - index), default=None)


def _bare(word: str) -> str:
    """The word without surrounding punctuation, case and possessive: "Emma's," is "emma"."""
    return word.strip(".,;:!?\"'()`").casefold().removesuffix("'s")


def copa(row: Row) -> Row:
    """The premise with the question in words, and two choices."""
    asked = row["question"]
    if not isinstance(asked, str) or asked not in COPA_QUESTIONS:
        raise InputError(f"question: expected cause or effect, found {asked!r:.60}")
    text = f"{text_of(row, 'premise')} {COPA_QUESTIONS[asked]}"
    return {**row, "text": text, "choices": [text_of(row, f"choice{i}") for i in (1, 2)]}


def multirc(row: Row) -> Row:
    """One answer to judge per row; the answers to one question are scored together."""
    new = {
        **row,
        "text": text_of(row, "paragraph"),
        "text_pair": f"{text_of(row, 'question')} {text_of(row, 'answer', empty=True)}",
    }
    if "idx" in row:
        place = table_of(row, "idx")
        new["set"] = f"{number_of(place, 'paragraph')}/{number_of(place, 'question')}"
    return new


def record(row: Row) -> Row:
    """The query once for every entity of the passage; several may be right."""
    query = text_of(row, "query")
    if PLACEHOLDER not in query:
        raise InputError(f"query: no {PLACEHOLDER} in {query!r:.60}")
    entities = list(dict.fromkeys(texts_of(row, "entities")))
    new = {
        **row,
        "text": text_of(row, "passage"),
        "choices": [query.replace(PLACEHOLDER, entity) for entity in entities],
        "choice_names": entities,
    }
    if "answers" in row:
        answers = texts_of(row, "answers")
        new["label"] = [entities.index(answer) for answer in answers if answer in entities]
    return new


def mrqa(row: Row) -> Row:
    """Every position where an answer was detected, and the answers as they were given.

    On the hub, the end of an answer is its last character.
    """
    context = text_of(row, "context")
    if "detected_answers" not in row:
        return row
    detected = table_of(row, "detected_answers")
    texts, starts = [], []
    for spans in detected["char_spans"]:
        for start, end in zip(spans["start"], spans["end"], strict=True):
            if not 0 <= start <= end < len(context):
                raise InputError(f"char_spans: {start} to {end} is not in the context")
            texts.append(context[start : end + 1])  # as it is written there, whatever its case
            starts.append(start)
    if not texts:
        raise InputError("char_spans: no answer was detected")
    given = texts_of(row, "answers") if "answers" in row else texts_of(detected, "text")
    return {**row, "answer": {"text": texts, "answer_start": starts}, "aliases": list(given)}


def hotpot(row: Row) -> Row | None:
    """All paragraphs under their titles, and the answer's first position, if possible in a
    supporting one.

    Left out: yes/no questions, and those whose answer is in no paragraph.
    """
    if isinstance(row["context"], str):
        raise MissingFieldError("context: expected the paragraphs with their titles, found a text")
    parts = table_of(row, "context")
    titles, paragraphs = texts_of(parts, "title"), parts["sentences"]
    lines = [f"{t}: {''.join(s).strip()}" for t, s in zip(titles, paragraphs, strict=True)]
    new = {**row, "context": "\n".join(lines)}
    if "answer" not in row:
        return new
    answer, length, places = text_of(row, "answer"), 0, []
    supporting = set(texts_of(table_of(row, "supporting_facts"), "title"))
    for title, line in zip(titles, lines, strict=True):
        if answer in line:
            places.append((title not in supporting, length + line.index(answer)))
        length += len(line) + 1
    if answer in ("yes", "no") or not places:
        return None
    return {**new, "answer": {"text": [answer], "answer_start": [min(places)[1]]}}


SHAPES: dict[str, Callable[[Row], Row | None]] = {
    "wic": wic,
    "wsc": wsc,
    "copa": copa,
    "multirc": multirc,
    "record": record,
    "mrqa": mrqa,
    "hotpot": hotpot,
}
# Columns beyond those its kind needs that a shape always creates.
MAKES = {
    "wic": ("text_pair",),
    "multirc": ("text_pair", "set"),
    "record": ("choice_names",),
    "mrqa": ("aliases",),
}


def shaped(row: Row, shape: str) -> Row | None:
    """The row in that shape; InputError names a field that is missing or of another type."""
    try:
        return SHAPES[shape](row)
    except KeyError as error:
        raise MissingFieldError(f"the shape '{shape}' needs the field {error}") from None
    except (TypeError, AttributeError, IndexError) as error:
        raise InputError(f"not a row of the shape '{shape}' ({error})") from None
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"not a row of the shape '{shape}' ({error})") from None
