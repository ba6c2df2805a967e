"""What users get as answers: which keys an answer may have, for editors and type checkers."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypedDict

# A text; a pair, or the words of a text; or columns.
Input: TypeAlias = str | Sequence[str] | Mapping[str, object]


class Entity(TypedDict, total=False):
    """Words of a text that one label marks."""

    label: str
    text: str
    score: float  # the lowest probability of its tags
    first: int  # its first and its last word, from 0
    last: int
    start: int  # characters, if the input was a text
    end: int


class Answer(TypedDict, total=False):
    """One task's answer to one input; which keys it has depends on the kind of the task.

    Where a model abstains, `abstained` is true and the values of the answer are None.
    """

    label: str  # classification
    labels: list[str]  # multilabel
    value: float  # regression
    choice: int  # choice: its place, from 0; `text` is what it says
    text: str
    answer: str  # span: "" if the context holds none
    start: int | None
    end: int | None
    tokens: list[str]  # tokens: one tag per word
    tags: list[str]
    entities: list[Entity]
    score: float  # probability of the answer
    probabilities: dict[str, float] | list[float]  # by label, or by choice
    set: list[str] | list[int]  # with `coverage`: labels or choices, one of them right this often
    interval: list[float | None]  # the same for a value
    in_domain: float  # of a calibrated model
    abstained: bool
