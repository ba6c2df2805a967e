"""Answers in words: SQuAD's and MLQA's published rules, written out here a second time."""

import re
import string
import unicodedata
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brodmann.data.answers import answer_score, normalized

WORDS = st.sampled_from(["the", "a", "Cat", "cat.", "red", "an", "ánimo", "1990", "–", "los", ""])
texts = st.lists(WORDS, max_size=6).map(" ".join)


def by_the_book(text: str, articles: str, unicode_marks: bool) -> str:
    text = text.lower()
    marks = set(string.punctuation)
    if unicode_marks:
        marks |= {c for c in text if unicodedata.category(c)[0] == "P"}
    text = "".join(c for c in text if c not in marks)
    return " ".join(re.sub(rf"\b({articles})\b", " ", text).split())


def f1_by_the_book(guess: str, truth: str) -> float:
    a, b = guess.split(), truth.split()
    common = sum((Counter(a) & Counter(b)).values())
    if not a or not b:
        return float(a == b)
    if not common:
        return 0.0
    precision, recall = common / len(a), common / len(b)
    return 2 * precision * recall / (precision + recall)


@settings(max_examples=100, deadline=None)
@given(texts, st.lists(texts, min_size=1, max_size=3), st.sampled_from(["en", "es"]))
def test_scores_follow_the_published_rules(guess: str, right: list[str], language: str) -> None:
    articles = {"en": "a|an|the", "es": "un|una|unos|unas|el|la|los|las"}[language]
    plain = [by_the_book(text, articles, language == "es") for text in (guess, *right)]
    score = answer_score(right, guess, language)
    assert score.exact_match == float(plain[0] in plain[1:])
    assert score.f1 == pytest.approx(max(f1_by_the_book(plain[0], truth) for truth in plain[1:]))


def test_known_answers() -> None:
    assert normalized("The  Red, cat!") == "red cat"
    assert answer_score(["the red cat", "cat"], "Cat.") == (1.0, 1.0)
    assert answer_score(["red cat"], "cat") == pytest.approx((2 / 3, 0.0))
    assert answer_score([], "") == (1.0, 1.0) and answer_score([], "cat") == (0.0, 0.0)
    assert answer_score(["the"], "") == (1.0, 1.0)  # nothing is left of either


def test_languages_have_their_own_articles_and_marks() -> None:
    assert answer_score(["la casa"], "Casa", "es") == (1.0, 1.0)
    assert answer_score(["la casa"], "Casa", "en").exact_match == 0
    assert answer_score(["der Hund"], "hund", "de").exact_match == 1
    assert answer_score(["¿qué?"], "qué", "es").exact_match == 1  # not in ASCII's punctuation
    assert answer_score(["the cat"], "cat", "es", rules="squad").exact_match == 1
    assert normalized("the cat – sat", "en", "mlqa") == "cat sat"
    assert normalized("the cat – sat", "en") == "cat – sat"
    assert normalized("الكتاب", "ar", "mlqa") == "كتاب"
    assert answer_score(["北京2008年"], "北京 2008", "zh").f1 == pytest.approx(2 * 3 / 7)
    assert normalized("ο σκύλος", "el", "mlqa") == "ο σκύλος"  # no rule of its own
