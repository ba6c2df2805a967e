r"""Compare answers in words with the right ones: SQuAD's exact match and word F1, by language.

$$F_1 = \max_r\, 2\,|a \cap r| / (|a| + |r|)$$

where $a$ are the words of the answer and $r$ those of a right one, counted with their repetitions.

Both sides are first lower-cased and stripped of punctuation, articles and extra spaces.
Reference: Rajpurkar et al. 2016, "SQuAD: 100,000+ Questions for Machine Comprehension of Text"
(evaluation script v1.1), the rules `squad`; Lewis et al. 2020, "MLQA: Evaluating Cross-lingual
Extractive Question Answering" (evaluation script), the rules `mlqa`: articles of the language,
every Unicode punctuation mark, and Chinese compared by characters. By default, English follows
SQuAD and every other language MLQA.
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

from brodmann.data.tasks import Example

ENGLISH = r"\b(a|an|the)\b"
# As in MLQA's script; Hindi and Chinese have none. In Arabic, the script removes the two letters of
# the article wherever they occur, even inside a word.
ARTICLES = {
    "en": ENGLISH,
    "es": r"\b(un|una|unos|unas|el|la|los|las)\b",
    "vi": r"\b(của|là|cái|chiếc|những)\b",
    "de": r"\b(ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b",
    "ar": "ال",
}
SQUAD_MARKS = set(string.punctuation)
AnswerRules = Literal["squad", "mlqa"]


def right_answers(example: Example) -> list[str]:
    """Right answers to compare with: aliases, which need not be in the context, or the spans."""
    return list(example.get("aliases") or (text for text, _ in example["answers"]))


def right_choices(example: Example) -> list[int]:
    return list(example.get("right", [example["label"]]))


def choice_words(example: Example) -> list[str]:
    return list(example.get("choice_names") or example["choices"])


class AnswerScore(NamedTuple):
    f1: float
    exact_match: float


def answer_score(
    right: Sequence[str], guess: str, language: str | None = None, rules: str | None = None
) -> AnswerScore:
    """The best score over several right answers; without any, only an empty answer is right."""
    rules = rules or ("squad" if language in (None, "en") else "mlqa")
    words = _words(guess, language, rules)
    references = [_words(answer, language, rules) for answer in right] or [[]]
    return AnswerScore(
        max(_word_f1(reference, words) for reference in references),
        float(any(reference == words for reference in references)),
    )


def normalized(text: str, language: str | None = None, rules: str = "squad") -> str:
    return " ".join(_words(text, language, rules))


def _words(text: str, language: str | None, rules: str) -> list[str]:
    if rules == "squad":
        kept = "".join(c for c in text.lower() if c not in SQUAD_MARKS)
        return re.sub(ENGLISH, " ", kept).split()
    kept = "".join(c for c in text.lower() if not _is_mark(c))
    if language == "zh":
        return _chinese(kept)
    return re.sub(ARTICLES.get(language or "en", r"(?!)"), " ", kept).split()


def _is_mark(character: str) -> bool:
    return character in SQUAD_MARKS or unicodedata.category(character).startswith("P")


def _chinese(text: str) -> list[str]:
    """Split into Chinese characters, one word each; other writing stays in words."""
    return re.sub(r"([\u4e00-\u9fa5])", r" \1 ", text).split()


def _word_f1(reference: list[str], guess: list[str]) -> float:
    if not reference or not guess:
        return float(reference == guess)
    common = sum((Counter(reference) & Counter(guess)).values())
    return 2 * common / (len(reference) + len(guess))
