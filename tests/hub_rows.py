"""Small made-up rows with the fields that each dataset of the catalogue has on the hub."""

import gzip
import json
from pathlib import Path
from typing import Any

from brodmann.data.catalogue import Entry

Row = dict[str, Any]
COLOURS = ("red", "big", "old", "sad")


def hub_rows(entry: Entry, count: int = 12, *, labelled: bool = True) -> list[Row]:
    rows = [_row(entry, place) for place in range(count)]
    if not labelled:
        for row in rows:
            if "label" in row:
                row["label"] = -1
            if entry.shape == "record":
                row["answers"] = []
    return rows


def _row(entry: Entry, i: int) -> Row:
    colour = COLOURS[i % 4]
    text = f"The {colour} cat number {i} sat on the mat near Ann Lee."
    label: Any = i % len(entry.labels) if entry.labels else i % 2
    if entry.name == "scitail":  # its labels are words
        label = (entry.labels or ())[label]
    if entry.shape is not None:
        return {**_shaped(entry.shape, i, text, colour), "label": label, **entry.only}
    if entry.kind == "span":
        answer = {"text": [colour], "answer_start": [text.index(colour)]}
        if entry.name == "squad_v2" and i % 3 == 0:
            answer = {"text": [], "answer_start": []}
        return {
            "id": f"q{i}",
            "title": "Cats",
            "context": text,
            "question": f"Which cat is number {i}?",
            "answers": answer,
        }
    if entry.kind == "tokens":
        tags = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]
        return {"id": str(i), "tokens": text.split(), "ner_tags": tags}
    row = {column: f"{text} ({role})" for role, column in entry.columns.items()}
    if entry.kind == "regression":
        label = (i % 11) / 2
    return {**row, "label": label, "idx": i}


def _shaped(shape: str, i: int, text: str, colour: str) -> Row:
    if shape == "wic":
        first, second = text, f"A {colour} day."
        return {
            "word": colour,
            "sentence1": first,
            "sentence2": second,
            "start1": 4,
            "end1": 4 + len(colour),
            "start2": 2,
            "end2": 2 + len(colour),
            "idx": i,
        }
    if shape == "wsc":
        return {
            "text": f"Ann Lee, told Bo that she was {colour}.",
            "span1_index": 0,
            "span1_text": "Ann Lee",
            "span2_index": 5,
            "span2_text": "she",
            "idx": i,
        }
    if shape == "copa":
        return {
            "premise": text,
            "choice1": "It was tired.",
            "choice2": "It ran away.",
            "question": ("cause", "effect")[i % 2],
            "idx": i,
        }
    if shape == "multirc":
        place = {"paragraph": i // 6, "question": i // 3, "answer": i % 3}
        return {"paragraph": text, "question": "Where?", "answer": f"There, {i}.", "idx": place}
    if shape == "record":
        return {
            "passage": f"{text} Bo Diaz saw Ann Lee.\n@highlight\nCats sit",
            "query": "Then @placeholder left.",
            "entities": ["Ann Lee", "Bo Diaz", "Cats"],
            "answers": ["Ann Lee", "Cats"] if i % 2 else ["Bo Diaz"],
            "idx": {"passage": i // 2, "query": i},
        }
    if shape == "mrqa":
        places = [text.index(colour), text.index("cat")]
        ends = [places[0] + len(colour) - 1, places[1] + 2]  # the hub counts the last one in
        return {
            "context": text,
            "question": "Which?",
            "qid": f"q{i}",
            "detected_answers": {
                "text": [colour, "cat"],
                "char_spans": [
                    {"start": [places[0]], "end": [ends[0]]},
                    {"start": [places[1]], "end": [ends[1]]},
                ],
            },
            "answers": [colour.upper(), "a cat"],
        }
    assert shape == "hotpot"
    return {
        "id": f"q{i}",
        "question": "Which?",
        "answer": "yes" if i % 5 == 4 else colour,
        "supporting_facts": {"title": ["Cats"], "sent_id": [0]},
        "context": {"title": ["Dogs", "Cats"], "sentences": [["A red dog."], [text, " It slept."]]},
    }


def write_split(folder: Path, split: str, rows: list[Row]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / f"{split}.jsonl.gz").write_bytes(gzip.compress(lines.encode()))


def write_dataset(base: Path, entry: Entry, language: str | None = None, count: int = 12) -> Path:
    """A folder of one dataset with the splits it has on the hub, hidden labels hidden."""
    folder = base / entry.folder.format(language=language or entry.languages[0])
    for split in ("train", "validation"):
        write_split(folder, entry.splits.get(split, split), hub_rows(entry, count))
    for split in entry.hidden:
        hidden = hub_rows(entry, 6, labelled=False)
        write_split(folder, entry.splits.get(split, split), hidden)
    return folder
