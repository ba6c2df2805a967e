"""Datasets whose rows are not yet one of our kinds, put into it the way their authors define them.

A shape takes one row with the dataset's own fields and returns one with the kind's columns (under
the roles' own names), or None for a row that the kind cannot express; how many those were is
reported. A row's answer may be missing: a test set whose labels are kept back has the same shape.
"""

from collections.abc import Callable
from typing import Any

from brodmann.errors import InputError

Row = dict[str, Any]
COPA_QUESTIONS = {"cause": "What was the cause of this?", "effect": "What happened as a result?"}
PLACEHOLDER = "@placeholder"


def wic(row: Row) -> Row:
    """Words in context: the word stands between asterisks in both sentences."""
    texts = []
    for number in (1, 2):
        sentence, start, end = (row[f"{name}{number}"] for name in ("sentence", "start", "end"))
        if not 0 <= start < end <= len(sentence):
            raise InputError(f"start{number} = {start}, end{number} = {end}: not in its sentence")
        texts.append(f"{sentence[:start]}* {sentence[start:end]} *{sentence[end:]}")
    return {**row, "text": texts[0], "text_pair": texts[1]}


def wsc(row: Row) -> Row:
    """Winograd schemas: the noun phrase stands between asterisks, the pronoun between hashes.

    Places are counted in words; where the words there are others (the published file has such a
    row), the nearest place that has them counts.
    """
    words = row["text"].split()
    marks: list[tuple[int, int, str]] = []
    for number, mark in ((1, "*"), (2, "#")):
        span = str(row[f"span{number}_text"]).split()
        first = _nearest(words, span, int(row[f"span{number}_index"]))
        if first is None:
            raise InputError(f"span{number}_text: {' '.join(span)!r:.60} is not in the text")
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
    """Without punctuation around it, case and a possessive: "Emma's," is "emma"."""
    return word.strip(".,;:!?\"'()`").casefold().removesuffix("'s")


def copa(row: Row) -> Row:
    """The premise with the question in words, and two choices."""
    if row["question"] not in COPA_QUESTIONS:
        raise InputError(f"question: expected cause or effect, found {row['question']!r:.60}")
    text = f"{row['premise']} {COPA_QUESTIONS[row['question']]}"
    return {**row, "text": text, "choices": [row["choice1"], row["choice2"]]}


def multirc(row: Row) -> Row:
    """One answer to judge a row; the answers to one question are scored together."""
    place = row["idx"]
    return {
        **row,
        "text": row["paragraph"],
        "text_pair": f"{row['question']} {row['answer']}",
        "set": f"{place['paragraph']}/{place['question']}",
    }


def record(row: Row) -> Row:
    """The query once for every entity of the passage; several may be right."""
    if PLACEHOLDER not in row["query"]:
        raise InputError(f"query: no {PLACEHOLDER} in {row['query']!r:.60}")
    entities = list(dict.fromkeys(row["entities"]))
    return {
        **row,
        "text": row["passage"],
        "choices": [row["query"].replace(PLACEHOLDER, entity) for entity in entities],
        "choice_names": entities,
        "label": [entities.index(answer) for answer in row["answers"] if answer in entities],
    }


def mrqa(row: Row) -> Row:
    """Every place where an answer was detected, and the answers as they were given.

    The hub counts the last character of an answer in; only its first one is needed here.
    """
    detected = row["detected_answers"]
    texts, starts = [], []
    for spans in detected["char_spans"]:
        for start, end in zip(spans["start"], spans["end"], strict=True):
            texts.append(row["context"][start : end + 1])  # as it stands there, whatever its case
            starts.append(start)
    return {
        **row,
        "answer": {"text": texts, "answer_start": starts},
        "aliases": list(row.get("answers") or detected["text"]),
    }


def hotpot(row: Row) -> Row | None:
    """All paragraphs under their titles, and the answer's first place, best in a supporting one.

    Left out: yes/no questions, and those whose answer is in no paragraph.
    """
    titles, paragraphs = row["context"]["title"], row["context"]["sentences"]
    supporting = set(row["supporting_facts"]["title"])
    parts, places, length = [], [], 0
    for title, sentences in zip(titles, paragraphs, strict=True):
        part = f"{title}: {''.join(sentences).strip()}"
        place = part.find(row["answer"])
        if place >= 0:
            places.append((title not in supporting, length + place))
        parts.append(part)
        length += len(part) + 1
    if row["answer"] in ("yes", "no") or not places:
        return None
    return {
        **row,
        "context": "\n".join(parts),
        "answer": {"text": [row["answer"]], "answer_start": [min(places)[1]]},
    }


SHAPES: dict[str, Callable[[Row], Row | None]] = {
    "wic": wic,
    "wsc": wsc,
    "copa": copa,
    "multirc": multirc,
    "record": record,
    "mrqa": mrqa,
    "hotpot": hotpot,
}


def shaped(row: Row, shape: str) -> Row | None:
    """The row in that shape; a field that is missing or of another type is named."""
    try:
        return SHAPES[shape](row)
    except KeyError as error:
        present = ", ".join(sorted(row))
        raise InputError(f"the shape '{shape}' needs the field {error}, found {present}") from None
    except (TypeError, AttributeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"not a row of the shape '{shape}' ({error})") from None
