"""A built-in suite of small language tasks, generated from the project's own grammar and words.

It lets a newcomer train without downloading anything, and lets a method be tested against a known
answer, because the relations of its tasks are known:

- `TWINS` are one skill under two names: the same grammar, other label names, other draws. A method
  that separates tasks must find nothing here.
- `FAMILY` are two tasks that rest on one arbitrary fact, which no pretrained model knows: a start
  trained on one of them, in any language, must help with the other.
- `SHARES_NOTHING` are two tasks without a common content word and without a common skill: one
  judges a whole review, the other tags single tokens of news about invented names.

Labels follow from the grammar, without noise, and every label is equally frequent. In the pair
tasks and in `acceptability`, each sentence is drawn the same way for every label, so a bag of words
stays at chance.

A text always belongs to the same split, by its hash: splits never overlap, not even between twins,
the rows of a split do not depend on the size of another, and a smaller split is the beginning of a
larger one.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from brodmann.data.builtin import (
    acceptability,
    entailment,
    entities,
    names,
    paraphrase,
    planted,
    question,
    sentiment,
    similarity,
    topic,
)
from brodmann.data.builtin.random_words import CONTRACTED, grammar_words, shuffled, words

Row = dict[str, Any]
Maker = Callable[[Random, str, int, str], Row]

LANGUAGES = ("en", "es")
TWINS = ("sentiment", "opinion")
SHARES_NOTHING = ("sentiment", "entities")
FAMILY = ("team", "club")
# Tenths of all texts that belong to each split.
SPLITS = {"train": range(6), "validation": range(6, 8), "test": range(8, 10)}
# This many draws in a row without a new text mean that the grammar is nearly exhausted.
PATIENCE = 2000


@dataclass(frozen=True)
class BuiltinTask:
    """Description of a task; `columns` maps each role to the field of a row that plays it."""

    kind: str
    columns: dict[str, str]
    labels: tuple[str, ...] | None
    group: str
    description: str


SINGLE = {"text": "text", "label": "label"}
PAIR = {"text": "text", "text_pair": "text_pair", "label": "label"}
READING = {field: field for field in ("question", "context", "answer", "answer_start")}
TAGGING = {"tokens": "tokens", "tags": "tags"}
TAGS = ("O", *(f"{side}-{kind}" for kind in ("PER", "LOC", "ORG", "DATE") for side in "BI"))

TASKS: dict[str, BuiltinTask] = {
    "sentiment": BuiltinTask(
        "classification",
        SINGLE,
        ("negative", "positive"),
        "single sentence",
        "Is the verdict of a short review good or bad? (generated)",
    ),
    "opinion": BuiltinTask(
        "classification",
        SINGLE,
        ("dislike", "like"),
        "single sentence",
        "The twin of sentiment: the same skill under another name (generated)",
    ),
    "topic": BuiltinTask(
        "classification",
        SINGLE,
        ("sport", "food", "music", "money"),
        "single sentence",
        "Which of four subjects is a sentence about? (generated)",
    ),
    "acceptability": BuiltinTask(
        "classification",
        SINGLE,
        ("unacceptable", "acceptable"),
        "single sentence",
        "Is a sentence well formed? (generated)",
    ),
    "paraphrase": BuiltinTask(
        "classification",
        PAIR,
        ("different", "paraphrase"),
        "pair",
        "Do two sentences report the same event? (generated)",
    ),
    "entailment": BuiltinTask(
        "classification",
        PAIR,
        ("entailment", "neutral", "contradiction"),
        "pair",
        "Does one sentence follow from another, contradict it, or neither? (generated)",
    ),
    "similarity": BuiltinTask(
        "regression",
        PAIR,
        None,
        "pair",
        "How much do two scenes have in common, from 0 to 5? (generated)",
    ),
    "question": BuiltinTask(
        "span",
        READING,
        None,
        "reading",
        "Find the answer to a question in a short passage (generated)",
    ),
    "entities": BuiltinTask(
        "tokens",
        TAGGING,
        TAGS,
        "tagging",
        "Tag people, places, organisations and dates (generated)",
    ),
    "team": BuiltinTask(
        "classification",
        SINGLE,
        ("red", "blue"),
        "planted",
        "Which team is the speaker in? Arbitrary, as in club and in every language (generated)",
    ),
    "club": BuiltinTask(
        "classification",
        SINGLE,
        ("red", "blue"),
        "planted",
        "The same teams as in team, in other sentences (generated)",
    ),
}

MAKERS: dict[str, Maker] = {
    "sentiment": sentiment.make,
    "opinion": sentiment.make,
    "topic": topic.make,
    "acceptability": acceptability.make,
    "paraphrase": paraphrase.make,
    "entailment": entailment.make,
    "similarity": similarity.make,
    "question": question.make,
    "entities": entities.make,
    "team": planted.make_team,
    "club": planted.make_club,
}
# What is balanced: the labels, or the scores, or whether a value or a name is asked for, or which
# sentences name something.
TARGETS = {"similarity": len(similarity.SCORES), "question": 2, "entities": 5}

GRAMMARS: dict[str, dict[str, Any]] = {
    "sentiment": sentiment.GRAMMAR,
    "opinion": sentiment.GRAMMAR,
    "topic": topic.GRAMMAR,
    "acceptability": acceptability.GRAMMAR,
    "paraphrase": paraphrase.GRAMMAR,
    "entailment": entailment.GRAMMAR,
    "similarity": similarity.GRAMMAR,
    "question": question.GRAMMAR,
    "entities": entities.GRAMMAR,
    "team": planted.GRAMMAR,
    "club": planted.GRAMMAR,
}


def generate(
    name: str, language: str = "en", *, sizes: Mapping[str, int], seed: int = 0
) -> dict[str, list[Row]]:
    """The rows of each split in `sizes`: the same for the same arguments on every machine."""
    check(name, language)
    unknown = [split for split in sizes if split not in SPLITS]
    if unknown:
        raise ValueError(f"unknown split {unknown[0]!r}: expected one of {', '.join(SPLITS)}")
    return {split: split_rows(name, language, split, size, seed) for split, size in sizes.items()}


def check(name: str, language: str) -> None:
    if name not in TASKS:
        raise ValueError(f"unknown builtin task {name!r}: expected one of {', '.join(TASKS)}")
    if language not in LANGUAGES:
        raise ValueError(f"unknown language {language!r}: expected one of {', '.join(LANGUAGES)}")


def split_rows(name: str, language: str, split: str, size: int, seed: int) -> list[Row]:
    source = Random(f"builtin/{name}/{language}/{split}/{seed}")
    labels = TASKS[name].labels
    targets = range(TARGETS.get(name, len(labels or ())))
    rows: list[Row] = []
    known: set[str] = set()
    # Blocks that contain every target once: any beginning of the split is balanced.
    block: list[int] = []
    while len(rows) < size:
        block = block or shuffled(source, targets)
        target = block.pop()
        for _ in range(PATIENCE):
            row = MAKERS[name](source, language, target, split)
            key = input_key(row)
            if key not in known and belongs(key, split):
                break
        else:
            raise ValueError(
                f"builtin/{name} in {language!r} gave {len(rows)} distinct {split} examples "
                f"and then no new one: {size} were asked for"
            )
        known.add(key)
        if TASKS[name].kind == "classification" and labels is not None:
            row["label"] = labels[target]
        rows.append(row)
    return rows


def input_key(row: Row) -> str:
    """The input of a row as one string, which must not occur twice."""
    parts = [row.get(field, "") for field in ("text", "text_pair", "question", "context")]
    return "\n".join([*parts, *row.get("tokens", ())])


def belongs(key: str, split: str) -> bool:
    # The label is not part of the key, so twins agree about the split of a text.
    return int(hashlib.sha256(key.encode()).hexdigest(), 16) % 10 in SPLITS[split]


def task_vocabulary(name: str, language: str) -> set[str]:
    """Every lower-cased word and punctuation mark that the texts of one task can contain."""
    check(name, language)
    grammar = GRAMMARS[name][language]
    found = entities.all_words(language) if name == "entities" else grammar_words(grammar)
    if language == "es":
        found.update(CONTRACTED)
    if name in ("entailment", "question", "entities"):
        found |= grammar_words(names.FIRST_NAMES[language])
    return found


def vocabulary(language: str) -> list[str]:
    """Every word and punctuation mark the grammar can produce, lower-cased and sorted."""
    check("sentiment", language)
    return sorted(set().union(*(task_vocabulary(name, language) for name in TASKS)))


def fingerprint(name: str) -> str:
    """A hash over some rows of a task, to detect figures measured on other rows."""
    digest = hashlib.sha256()
    for language in LANGUAGES:
        rows = generate(name, language, sizes={"train": 200, "validation": 100, "test": 100})
        digest.update(json.dumps(rows, sort_keys=True, ensure_ascii=False).encode())
    return digest.hexdigest()


__all__ = [
    "FAMILY",
    "LANGUAGES",
    "SHARES_NOTHING",
    "SPLITS",
    "TASKS",
    "TWINS",
    "BuiltinTask",
    "fingerprint",
    "generate",
    "task_vocabulary",
    "vocabulary",
    "words",
]
