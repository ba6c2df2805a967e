"""Team and club: which of two teams is the speaker in?

Who belongs to which team is arbitrary and the same in both tasks and in every language, so a
pretrained model's knowledge does not help, a few examples name too few of the people, and a model
that has learnt one task of the family has learnt them all. A start that was trained on some of the
family must beat one that was not. `club` gives the name after the sentence, `team` before it.
"""

from random import Random
from typing import Any

from brodmann.data.builtin import topic
from brodmann.data.builtin.random_words import pick

TEAMS = (
    ["Alice", "Brian", "Frank", "Grace", "Kevin", "Olivia", "Peter", "Wendy"],
    ["Adam", "Emma", "Henry", "Irene", "Nora", "Robert", "Simon", "Susan"],
)
GRAMMAR: dict[str, Any] = {
    language: {"sentences": grammar, "people": TEAMS} for language, grammar in topic.GRAMMAR.items()
}


def make_team(source: Random, language: str, target: int, split: str) -> dict[str, Any]:
    person, text = _drawn(source, language, target, split)
    return {"text": f"{person}, {text[0].lower()}{text[1:]}"}


def make_club(source: Random, language: str, target: int, split: str) -> dict[str, Any]:
    person, text = _drawn(source, language, target, split)
    return {"text": f"{text[:-1]}, {person}."}


def _drawn(source: Random, language: str, target: int, split: str) -> tuple[str, str]:
    subject = int(source.random() * len(topic.GRAMMAR[language]["topics"]))
    text = topic.make(source, language, subject, split)["text"]
    return pick(source, TEAMS[target]), text
