"""Answers beside the right ones, unit by unit: what each kind says about the mistakes of a model.

A unit is what is right or wrong by itself: a text with one label, one label of a text with several,
a word, an entity. `judge` in the file of a kind lists the units of all examples, and `case` shows
one example as readers see it. What is counted from that is in `analysis`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from brodmann.files import Array

NOTHING = -1  # in place of a label: none is right there, or none was given
LETTERS = 280  # of a text as it is shown
BEFORE = 60  # letters shown before the place that matters


@dataclass(frozen=True)
class Beliefs:
    """What a model believes about labels: one probability per class, beside the label given."""

    names: Sequence[str]  # of the classes
    example: Array  # (decision,)
    given: Array  # (decision,) class according to the data
    chances: Array  # (decision, class)
    alike: bool = False  # classes without a meaning of their own, such as the places of choices


@dataclass
class Judged:
    """All answers of a task beside the right ones. A probability that is not known is NaN."""

    unit: str  # in words
    names: Sequence[str]  # of the labels; empty if answers are no labels
    example: Array  # (unit,)
    truth: Array  # (unit,) place among the names, or NOTHING
    answer: Array  # (unit,) likewise
    wrong: Array  # (example,) 0 if right; number of mistakes, or distance from the right value
    sure: Array  # (example,) probability of what is wrong: how sure the model was of its mistake
    certainty: Array  # (example,) probability of the least certain part of the answer
    sorts: Mapping[str, int] = field(default_factory=dict)  # sort of mistake → how often
    beliefs: Iterable[Beliefs] | None = None  # None: not known for single labels
    values: Array | None = None  # (example, 2) right and given, of numbers


@dataclass(frozen=True)
class Case:
    """One example as readers see it: `truth` and `answer` quote no text, `quoted` may."""

    truth: str
    answer: str
    text: str
    quoted: tuple[str, str] | None = None  # truth and answer in the words of the text


def unknown(count: int) -> Array:
    """One probability per example, none of which is known."""
    return np.full(count, np.nan)


def excerpt(text: str, around: int = 0, letters: int = LETTERS) -> str:
    """At most `letters` letters of a text on one line, with the place `around` among them."""
    first = max(0, around - BEFORE) if around + BEFORE > letters else 0
    if len(text) <= letters:
        first = 0
    found = " ".join(text[first : first + letters].split())
    return ("…" if first else "") + found + ("…" if first + letters < len(text) else "")


def pair_excerpt(example: Mapping[str, str], letters: int = LETTERS) -> str:
    """The text of an example or, of a pair, both texts."""
    if "text_pair" not in example:
        return excerpt(example["text"], letters=letters)
    both = (excerpt(example[role], letters=letters // 2) for role in ("text", "text_pair"))
    return " | ".join(both)
