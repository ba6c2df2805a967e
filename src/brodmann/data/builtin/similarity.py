"""Similarity: how much do two scenes have in common, from 0 to 5?

One point each for the same person, place and time of day, half a point for a related person or
place, two for the same action and one for the same action on another object. The same meaning
may be worded in two ways. Each sentence alone is drawn in the same way for every score.
"""

from itertools import product
from random import Random
from typing import Any

from brodmann.data.builtin.random_words import pick, pick_other, sentence

# People and places: families of related meanings; a meaning is a list of its wordings.
# Actions: a verb and the objects that go with it.
GRAMMAR: dict[str, Any] = {
    "en": {
        "people": [
            [
                ["a boy", "a little boy"],
                ["a girl", "a little girl"],
                ["a toddler", "a small child"],
            ],
            [["a cook", "a chef"], ["a waiter", "a café waiter"], ["a baker", "a pastry maker"]],
            [["a soldier", "an army man"], ["a sailor", "a seaman"], ["a pilot", "an airman"]],
            [
                ["a doctor", "a physician"],
                ["a nurse", "a hospital nurse"],
                ["a dentist", "a tooth doctor"],
            ],
        ],
        "actions": [
            ["is playing", "a guitar", "a piano", "a trumpet"],
            ["is eating", "an apple", "a sandwich", "a cake"],
            ["is painting", "a wall", "a door", "a fence"],
            ["is reading", "a newspaper", "a letter", "a poem"],
            ["is carrying", "a ladder", "a suitcase", "a bucket"],
            ["is feeding", "a cat", "a horse", "a parrot"],
        ],
        "places": [
            [
                ["in the forest", "in the woods"],
                ["on a hill", "on a hilltop"],
                ["by a lake", "on a lakeside"],
            ],
            [
                ["in the kitchen", "in a kitchen"],
                ["in the cellar", "in the basement"],
                ["in the attic", "in the loft"],
            ],
            [
                ["in the street", "on the road"],
                ["on a bridge", "on the bridge"],
                ["in a square", "in the town square"],
            ],
        ],
        "times": [
            ["in the morning", "after breakfast"],
            ["at noon", "at midday"],
            ["in the evening", "after sunset"],
            ["at night", "in the middle of the night"],
        ],
        "shapes": [
            "{person} {action} {place} {time}.",
            "{time}, {person} {action} {place}.",
            "{place}, {person} {action} {time}.",
        ],
    },
    "es": {
        "people": [
            [
                ["un niño", "un chiquillo"],
                ["una niña", "una chiquilla"],
                ["un bebé", "una criatura"],
            ],
            [
                ["un cocinero", "un chef"],
                ["una camarera", "una camarera de café"],
                ["un panadero", "un vendedor de pan"],
            ],
            [
                ["un soldado", "un militar"],
                ["una marinera", "una mujer de mar"],
                ["un piloto", "un aviador"],
            ],
            [
                ["un médico", "un doctor"],
                ["una enfermera", "una enfermera de hospital"],
                ["un dentista", "un odontólogo"],
            ],
        ],
        "actions": [
            ["está tocando", "una guitarra", "un piano", "una trompeta"],
            ["está comiendo", "una manzana", "un bocadillo", "un pastel"],
            ["está pintando", "una pared", "una puerta", "una valla"],
            ["está leyendo", "un periódico", "una carta", "un poema"],
            ["está llevando", "una escalera", "una maleta", "un cubo"],
            ["está alimentando a", "un gato", "un caballo", "un loro"],
        ],
        "places": [
            [
                ["en el bosque", "entre los árboles"],
                ["en una colina", "en un cerro"],
                ["junto a un lago", "a orillas de un lago"],
            ],
            [
                ["en la cocina", "en una cocina"],
                ["en el sótano", "en un sótano"],
                ["en el desván", "en la buhardilla"],
            ],
            [
                ["en la calle", "en plena calle"],
                ["en un puente", "sobre un puente"],
                ["en una plaza", "en la plaza"],
            ],
        ],
        "times": [
            ["por la mañana", "después del desayuno"],
            ["al mediodía", "a mediodía"],
            ["al anochecer", "después de la puesta del sol"],
            ["de noche", "en mitad de la noche"],
        ],
        "shapes": [
            "{person} {action} {place} {time}.",
            "{time}, {person} {action} {place}.",
            "{place}, {person} {action} {time}.",
        ],
    },
}
SCORES = tuple(half / 2 for half in range(11))
# The ways to reach each score: points for person, action, place and time.
WAYS = {
    score: [
        way for way in product((0, 0.5, 1), (0, 1, 2), (0, 0.5, 1), (0, 1)) if sum(way) == score
    ]
    for score in SCORES
}

Families = list[list[list[str]]]


def meaning_pair(source: Random, families: Families, points: float) -> tuple[list[str], list[str]]:
    """Two meanings that are the same (1 point), of one family (half a point) or unrelated."""
    family = pick(source, families)
    meaning = pick(source, family)
    if points == 1:
        return meaning, meaning
    if points == 0.5:
        return meaning, pick_other(source, family, meaning)
    return meaning, pick(source, pick_other(source, families, family))


def action_pair(source: Random, actions: list[list[str]], points: float) -> tuple[str, str]:
    verb, *goals = action = pick(source, actions)
    goal = pick(source, goals)
    if points == 2:
        return f"{verb} {goal}", f"{verb} {goal}"
    if points == 1:
        return f"{verb} {goal}", f"{verb} {pick_other(source, goals, goal)}"
    other_verb, *other_goals = pick_other(source, actions, action)
    return f"{verb} {goal}", f"{other_verb} {pick(source, other_goals)}"


def make(source: Random, language: str, target: int, split: str) -> dict[str, Any]:
    grammar = GRAMMAR[language]
    score = SCORES[target]
    person, action, place, time = pick(source, WAYS[score])
    people = meaning_pair(source, grammar["people"], person)
    actions = action_pair(source, grammar["actions"], action)
    places = meaning_pair(source, grammar["places"], place)
    times = meaning_pair(source, [[meaning] for meaning in grammar["times"]], time)
    texts: list[str] = []
    while len(texts) < 2:
        side = len(texts)
        text = sentence(
            pick(source, grammar["shapes"]),
            person=pick(source, people[side]),
            action=actions[side],
            place=pick(source, places[side]),
            time=pick(source, times[side]),
        )
        if text not in texts:
            texts.append(text)
    return {"text": texts[0], "text_pair": texts[1], "label": score}
