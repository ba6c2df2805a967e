"""Question: find the answer to a question in a short passage about three people.

Two of them have a fact of the kind that is asked for, and a second fact may be in a sentence
without the name, so the reader must join names to facts; half of the questions ask for the name.
"""

import re
from random import Random
from typing import Any

from brodmann.data.builtin.names import FIRST_NAMES
from brodmann.data.builtin.random_words import chance, inflect, pick, sentence, shuffled

# A fact: a verb phrase, how to ask for its value, and values. No value is part of another.
# Forms of a value or word: woman's/man's.
GRAMMAR: dict[str, Any] = {
    "en": {
        "facts": [
            {
                "says": "lives in {value}",
                "asks": "where does {name} live?",
                "values": [
                    "Lisbon",
                    "Vienna",
                    "Dublin",
                    "Athens",
                    "Cairo",
                    "Boston",
                    "Toronto",
                    "Madrid",
                ],
            },
            {
                "says": "works as {value}",
                "asks": "what does {name} work as?",
                "values": [
                    "a nurse",
                    "a plumber",
                    "a judge",
                    "a tailor",
                    "a librarian",
                    "a bus driver",
                    "a chemist",
                    "a dancer",
                ],
            },
            {
                "says": "plays {value}",
                "asks": "what does {name} play?",
                "values": [
                    "the flute",
                    "the harp",
                    "the drums",
                    "chess",
                    "golf",
                    "handball",
                    "the violin",
                    "table tennis",
                ],
            },
            {
                "says": "has {value} at home",
                "asks": "which pet does {name} have at home?",
                "values": [
                    "a white rabbit",
                    "two canaries",
                    "an old cat",
                    "a turtle",
                    "a noisy parrot",
                    "three goldfish",
                    "a young dog",
                    "a hamster",
                ],
            },
            {
                "says": "likes to drink {value}",
                "asks": "what does {name} like to drink?",
                "values": [
                    "black coffee",
                    "apple juice",
                    "green tea",
                    "cold milk",
                    "hot chocolate",
                    "mineral water",
                    "lemonade",
                    "red wine",
                ],
            },
            {
                "says": "was born in {value}",
                "asks": "when was {name} born?",
                "values": [
                    "January",
                    "March",
                    "April",
                    "June",
                    "July",
                    "August",
                    "October",
                    "November",
                ],
            },
        ],
        "joined": [
            "{name} {first} and {second}.",
            "{name}, who {second}, {first}.",
            "{name} {first}. {pronoun} {second}.",
        ],
        "who": "who {fact}?",
        "pronouns": "she/he",
    },
    "es": {
        "facts": [
            {
                "says": "vive en {value}",
                "asks": "¿dónde vive {name}?",
                "values": [
                    "Lisboa",
                    "Viena",
                    "Dublín",
                    "Atenas",
                    "Bogotá",
                    "Lima",
                    "Toronto",
                    "Sevilla",
                ],
            },
            {
                "says": "trabaja de {value}",
                "asks": "¿de qué trabaja {name}?",
                "values": [
                    "enfermera/enfermero",
                    "fontanera/fontanero",
                    "jueza/juez",
                    "modista/sastre",
                    "bibliotecaria/bibliotecario",
                    "conductora/conductor",
                    "química/químico",
                    "bailarina/bailarín",
                ],
            },
            {
                "says": "practica {value}",
                "asks": "¿qué practica {name}?",
                "values": [
                    "la flauta",
                    "el arpa",
                    "la batería",
                    "el ajedrez",
                    "el golf",
                    "el balonmano",
                    "el violín",
                    "el tenis de mesa",
                ],
            },
            {
                "says": "tiene {value} en casa",
                "asks": "¿qué mascota tiene {name} en casa?",
                "values": [
                    "un conejo blanco",
                    "dos canarios",
                    "un gato viejo",
                    "una tortuga",
                    "un loro ruidoso",
                    "tres peces",
                    "un perro joven",
                    "un hámster",
                ],
            },
            {
                "says": "suele beber {value}",
                "asks": "¿qué suele beber {name}?",
                "values": [
                    "café solo",
                    "zumo de manzana",
                    "té verde",
                    "leche fría",
                    "chocolate caliente",
                    "agua mineral",
                    "limonada",
                    "vino tinto",
                ],
            },
            {
                "says": "nació en {value}",
                "asks": "¿cuándo nació {name}?",
                "values": [
                    "enero",
                    "marzo",
                    "abril",
                    "junio",
                    "julio",
                    "agosto",
                    "octubre",
                    "noviembre",
                ],
            },
        ],
        "joined": [
            "{name} {first} y {second}.",
            "{name}, que {second}, {first}.",
            "{name} {first}. Además, {second}.",
        ],
        "who": "¿quién {fact}?",
        "pronouns": "",
    },
}
PEOPLE = 3


def make(source: Random, language: str, target: int, split: str) -> dict[str, Any]:
    """Make an example; `target` 0 asks for a value, 1 for a name."""
    grammar = GRAMMAR[language]
    named = [(name, man) for man, names in enumerate(FIRST_NAMES[language]) for name in names]
    people = shuffled(source, named)[:PEOPLE]
    kinds = list(range(len(grammar["facts"])))
    asked_kind = pick(source, kinds)
    # The person asked about and one rival share this kind of fact; no two people share a value.
    chosen = [
        [asked_kind, pick(source, [kind for kind in kinds if kind != asked_kind])],
        [asked_kind, pick(source, [kind for kind in kinds if kind != asked_kind])],
        shuffled(source, kinds)[:2],
    ]
    orders = [shuffled(source, range(len(fact["values"]))) for fact in grammar["facts"]]
    passages: list[str] = []
    asked = ("", "", "")  # name, phrase, value
    for (name, man), own_kinds, position in zip(people, chosen, range(PEOPLE), strict=True):
        phrases: list[str] = []
        for kind in own_kinds:
            fact = grammar["facts"][kind]
            value = inflect(fact["values"][orders[kind][position]], man)
            phrases.append(fact["says"].format(value=value))
            if position == 0 and kind == asked_kind:
                asked = (name, phrases[-1], value)
        if chance(source, 0.5):
            phrases.reverse()
        pronoun = inflect(grammar["pronouns"], man).capitalize()
        template = pick(source, grammar["joined"])
        passages.append(
            sentence(template, name=name, first=phrases[0], second=phrases[1], pronoun=pronoun)
        )
    context = " ".join(shuffled(source, passages))
    name, phrase, value = asked
    if target == 0:
        question = sentence(grammar["facts"][asked_kind]["asks"], name=name)
        answer = value
    else:
        question = sentence(grammar["who"], fact=phrase)
        answer = name
    found = re.search(rf"\b{re.escape(answer)}\b", context)
    assert found is not None, (answer, context)
    return {
        "question": question,
        "context": context,
        "answer": answer,
        "answer_start": found.start(),
    }
