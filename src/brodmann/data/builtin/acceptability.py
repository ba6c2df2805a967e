"""Acceptability: is the sentence well formed?

A bad sentence is a good one with a single violation: two neighbouring words are swapped, a verb or
a determiner does not agree with its noun, or an auxiliary has the wrong form of the verb. Each word
form is as frequent in good sentences as in bad ones; only its context is wrong.
"""

from random import Random
from typing import Any

from brodmann.data.builtin.random_words import chance, gendered, inflect, pick, sentence

# Forms: determiner, noun, auxiliary and verb "singular/plural"; a Spanish determiner has four forms
# (masculine singular, feminine singular, and both plurals). Digits give the gender
# (`gendered`). Actions: participle/infinitive, then the object.
# Spanish objects have no adjective: before or after the noun, both orders would be right.
GRAMMAR: dict[str, Any] = {
    "en": {
        "main": "{words}.",
        "determiners": ["this/these", "that/those", "one/two", "every/several"],
        "people": [
            "girl/girls",
            "boy/boys",
            "farmer/farmers",
            "nurse/nurses",
            "neighbour/neighbours",
            "painter/painters",
            "driver/drivers",
            "gardener/gardeners",
            "soldier/soldiers",
            "student/students",
            "uncle/uncles",
            "cousin/cousins",
            "clerk/clerks",
            "guest/guests",
        ],
        "places": [
            "near the tree/near the trees",
            "behind the wall/behind the walls",
            "beside the car/beside the cars",
            "from the village/from the villages",
            "with the dog/with the dogs",
            "with the red bag/with the red bags",
        ],
        "present": [
            "sleeps/sleep",
            "sings/sing",
            "waits/wait",
            "smiles/smile",
            "works/work",
            "laughs/laugh",
            "is tired/are tired",
            "is late/are late",
            "is happy/are happy",
            "was asleep/were asleep",
        ],
        "auxiliaries": [["has/have"], ["will", "can", "must"]],
        "actions": [
            ["eaten/eat", "the soup"],
            ["taken/take", "the money"],
            ["broken/break", "the window"],
            ["written/write", "a long letter"],
            ["drawn/draw", "a small map"],
            ["chosen/choose", "the new chair"],
            ["forgotten/forget", "the answer"],
            ["seen/see", "the green house"],
            ["given/give", "an old coat away"],
            ["stolen/steal", "the clock"],
            ["drunk/drink", "the cold milk"],
            ["hidden/hide", "the key"],
            ["worn/wear", "a heavy hat"],
            ["sung/sing", "a sad song"],
        ],
        "endings": [
            "in the garden",
            "at the station",
            "on the bridge",
            "after the lesson",
            "in the evening",
            "before the party",
            "at home",
            "during the winter",
        ],
    },
    "es": {
        "main": "{words}.",
        "determiners": [
            "este/esta/estos/estas",
            "ese/esa/esos/esas",
            "el/la/los/las",
            "aquel/aquella/aquellos/aquellas",
        ],
        "people": [
            "1niña/niñas",
            "0niño/niños",
            "0granjero/granjeros",
            "1enfermera/enfermeras",
            "0vecino/vecinos",
            "1pintora/pintoras",
            "0conductor/conductores",
            "1jardinera/jardineras",
            "0soldado/soldados",
            "1alumna/alumnas",
            "0tío/tíos",
            "1prima/primas",
            "0empleado/empleados",
            "1invitada/invitadas",
        ],
        "places": [
            "junto al árbol/junto a los árboles",
            "detrás del muro/detrás de los muros",
            "de la foto/de las fotos",
            "del pueblo/de los pueblos",
            "con el perro/con los perros",
            "con la bolsa/con las bolsas",
        ],
        "present": [
            "duerme/duermen",
            "canta/cantan",
            "espera/esperan",
            "sonríe/sonríen",
            "trabaja/trabajan",
            "descansa/descansan",
            "juega/juegan",
            "baila/bailan",
            "llora/lloran",
            "lee/leen",
        ],
        "auxiliaries": [["ha/han"], ["puede/pueden", "debe/deben", "quiere/quieren"]],
        "actions": [
            ["comido/comer", "la sopa"],
            ["encontrado/encontrar", "el dinero"],
            ["roto/romper", "la ventana"],
            ["escrito/escribir", "una carta"],
            ["dibujado/dibujar", "un mapa"],
            ["elegido/elegir", "la silla"],
            ["olvidado/olvidar", "la respuesta"],
            ["visto/ver", "la casa"],
            ["regalado/regalar", "un abrigo"],
            ["vendido/vender", "el reloj"],
            ["bebido/beber", "la leche"],
            ["escondido/esconder", "la llave"],
            ["llevado/llevar", "un sombrero"],
            ["cantado/cantar", "una canción"],
        ],
        "endings": [
            "en el jardín",
            "en la estación",
            "sobre el puente",
            "después de la clase",
            "por la tarde",
            "antes de la fiesta",
            "en casa",
            "durante el invierno",
        ],
    },
}
ACCEPTABLE = 1
# Order is the most common violation because it is the easiest to learn from few examples.
VIOLATIONS = ["order", "order", "order", "verb", "determiner", "form"]


def determiner_form(number: int, gender: int, forms: str) -> str:
    return inflect(forms, number if forms.count("/") == 1 else 2 * number + gender)


def swap_neighbours(source: Random, tokens: list[str]) -> list[str]:
    """Swap two neighbours, but not the last words, some of which may be swapped legally."""
    place = int(source.random() * (len(tokens) - 3))
    return [*tokens[:place], tokens[place + 1], tokens[place], *tokens[place + 2 :]]


def make(source: Random, language: str, target: int, split: str) -> dict[str, Any]:
    grammar = GRAMMAR[language]
    violation = "" if target == ACCEPTABLE else pick(source, VIOLATIONS)
    noun, gender = gendered(pick(source, grammar["people"]))
    number = int(chance(source, 0.5))
    determiners = pick(source, grammar["determiners"])
    if violation != "determiner":
        determiner = determiner_form(number, gender, determiners)
    elif determiners.count("/") > 1 and chance(source, 0.5):
        determiner = determiner_form(number, 1 - gender, determiners)
    else:
        determiner = determiner_form(1 - number, gender, determiners)
    subject = [determiner, inflect(noun, number)]
    if chance(source, 0.4):
        subject += inflect(pick(source, grammar["places"]), int(chance(source, 0.5))).split()

    verb_number = 1 - number if violation == "verb" else number
    # The future and the modals of English have one form for both numbers: a wrong number would be
    # no violation, so the verb must be one that shows it.
    modal = chance(source, 0.5)
    auxiliary = pick(source, grammar["auxiliaries"][int(modal)])
    simple = chance(source, 0.4)
    if violation == "verb" and "/" not in auxiliary:
        simple = True
    if simple and violation != "form":
        predicate = inflect(pick(source, grammar["present"]), verb_number).split()
    else:
        verb, goal = pick(source, grammar["actions"])
        form = 1 - int(modal) if violation == "form" else int(modal)
        predicate = [inflect(auxiliary, verb_number), inflect(verb, form), *goal.split()]
    tokens = subject + predicate + pick(source, grammar["endings"]).split()
    if violation == "order":
        tokens = swap_neighbours(source, tokens)
    return {"text": sentence(grammar["main"], words=" ".join(tokens))}
