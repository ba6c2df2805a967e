"""Draw words and join them into sentences, the same on every machine.

Only `Random.random()` is guaranteed to give the same numbers in every version of Python;
`choice`, `sample` and `shuffle` have changed before. So every draw here is built on it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, TypeVar

Item = TypeVar("Item")

GENDER = re.compile(r"^[01](?=\D)")
SLOT = re.compile(r"\{\w+\}")
WORD = re.compile(r"\w+|[^\w\s]")
# Spanish contracts these two pairs of words; no English text contains them.
CONTRACTIONS = ((re.compile(r"\b([Dd])e el\b"), r"\1el"), (re.compile(r"\b([Aa]) el\b"), r"\1l"))
CONTRACTED = ("del", "al")


def pick(source: Random, items: Sequence[Item]) -> Item:
    return items[int(source.random() * len(items))]


def pick_other(source: Random, items: Sequence[Item], unlike: Item) -> Item:
    return pick(source, [item for item in items if item != unlike])


def chance(source: Random, probability: float) -> bool:
    return source.random() < probability


def shuffled(source: Random, items: Sequence[Item]) -> list[Item]:
    """All items in random order (Fisher and Yates)."""
    result = list(items)
    for last in range(len(result) - 1, 0, -1):
        other = int(source.random() * (last + 1))
        result[last], result[other] = result[other], result[last]
    return result


def inflect(forms: str, form: int) -> str:
    """One form of a word written "rojo/roja"; a word with a single form never changes."""
    choices = forms.split("/")
    return choices[form] if len(choices) > 1 else choices[0]


def gendered(noun: str) -> tuple[str, int]:
    """Split "1la cama" into noun and gender (0 masculine, 1 feminine); English has no digit."""
    return (noun[1:], int(noun[0])) if GENDER.match(noun) else (noun, 0)


def sentence(template: str, **slots: str) -> str:
    """Fill the template, contract, and start with a capital letter."""
    text = re.sub(r"\s+", " ", template.format(**slots)).strip()
    for pattern, replacement in CONTRACTIONS:
        text = pattern.sub(replacement, text)
    start = 1 if text[0] in "¿¡" else 0
    return text[:start] + text[start].upper() + text[start + 1 :]


def words(text: str) -> list[str]:
    """Lower-cased words and punctuation marks, as a simple tokenizer would split them."""
    return WORD.findall(text.lower())


def strings(grammar: Any) -> Iterator[str]:
    """Every string inside a nested grammar; keys of a mapping are names, not text."""
    if isinstance(grammar, str):
        yield grammar
    elif isinstance(grammar, Mapping):
        for value in grammar.values():
            yield from strings(value)
    elif isinstance(grammar, Sequence):
        for value in grammar:
            yield from strings(value)


def grammar_words(grammar: Any) -> set[str]:
    """Every word or punctuation mark that the strings of a grammar can produce."""
    found: set[str] = set()
    for text in strings(grammar):
        found.update(words(SLOT.sub(" ", GENDER.sub("", text)).replace("/", " ")))
    return found
