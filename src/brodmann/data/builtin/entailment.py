"""Entailment: does the second sentence follow from the first, contradict it, or neither?

The first sentence describes one or two things. The second states one property of one of them,
plainly or negated, exactly or in general terms ("in the kitchen": "inside the house").
It is drawn first, and in the same way for every label, so by itself it reveals nothing;
then the first sentence is chosen so that the label holds. Neutral: nothing was stated about
that property of that thing, though it may have been stated about another.
"""

from random import Random
from typing import Any

from brodmann.data.builtin.names import FIRST_NAMES
from brodmann.data.builtin.random_words import chance, gendered, inflect, pick, pick_other, sentence

# A property has groups of values. All values exclude each other; a group of several also has a
# general wording, its last item, which is true of all of them. Digits give the gender.
GRAMMAR: dict[str, Any] = {
    "en": {
        "things": [
            "box",
            "table",
            "lamp",
            "vase",
            "bowl",
            "clock",
            "tray",
            "chair",
            "basket",
            "mirror",
        ],
        "properties": [
            {"copula": "is", "groups": [["red"], ["blue"], ["green"], ["black"], ["white"]]},
            {
                "copula": "is",
                "groups": [
                    ["in the kitchen", "in the bedroom", "in the bathroom", "inside the house"],
                    ["in the garden", "in the street", "in the park", "outdoors"],
                ],
            },
            {
                "copula": "is",
                "groups": [
                    ["from Italy", "from France", "from a European country"],
                    ["from Japan", "from China", "from an Asian country"],
                ],
            },
            {"copula": "is", "groups": [["clean"], ["dirty"]]},
            {"copula": "is", "groups": [["new"], ["old"]]},
            {"copula": "is", "groups": [["cheap"], ["expensive"]]},
            {"copula": "is", "groups": [["big"], ["small"]]},
        ],
        "thing": "{owner}'s {thing}",
        "plain": "{copula} {value}",
        "negated": "{copula} not {value}",
        "premises": ["{first_thing} {first}, and it {second}."],
        "contrasts": [
            "{first_thing} {first}, but {second_thing} {second}.",
            "{first_thing} {first}, and {second_thing} {second}.",
        ],
        "hypotheses": ["{thing} {claim}.", "{thing} {claim}.", "we know that {thing} {claim}."],
    },
    "es": {
        "things": [
            "1la caja",
            "1la mesa",
            "1la lámpara",
            "0el jarrón",
            "0el cuenco",
            "0el reloj",
            "1la bandeja",
            "1la silla",
            "0el cesto",
            "0el espejo",
        ],
        "properties": [
            {
                "copula": "es",
                "groups": [
                    ["rojo/roja"],
                    ["azul"],
                    ["verde"],
                    ["negro/negra"],
                    ["blanco/blanca"],
                ],
            },
            {
                "copula": "está",
                "groups": [
                    ["en la cocina", "en el dormitorio", "en el baño", "dentro de la casa"],
                    ["en el jardín", "en la calle", "en el parque", "al aire libre"],
                ],
            },
            {
                "copula": "viene",
                "groups": [
                    ["de Italia", "de Francia", "de un país europeo"],
                    ["de Japón", "de China", "de un país asiático"],
                ],
            },
            {"copula": "está", "groups": [["limpio/limpia"], ["sucio/sucia"]]},
            {"copula": "es", "groups": [["nuevo/nueva"], ["viejo/vieja"]]},
            {"copula": "es", "groups": [["barato/barata"], ["caro/cara"]]},
            {"copula": "es", "groups": [["grande"], ["pequeño/pequeña"]]},
        ],
        "thing": "{thing} de {owner}",
        "plain": "{copula} {value}",
        "negated": "no {copula} {value}",
        "premises": ["{first_thing} {first} y {second}."],
        "contrasts": [
            "{first_thing} {first}, pero {second_thing} {second}.",
            "{first_thing} {first}, y {second_thing} {second}.",
        ],
        "hypotheses": ["{thing} {claim}.", "{thing} {claim}.", "sabemos que {thing} {claim}."],
    },
}
ENTAILMENT, NEUTRAL, CONTRADICTION = 0, 1, 2
NEGATED, GENERAL, TWO_THINGS, SAME_PROPERTY = 0.15, 0.4, 0.25, 0.5

Property = dict[str, Any]
Thing = tuple[str, str]  # owner, thing


def specific(group: list[str]) -> list[str]:
    return group[:-1] if len(group) > 1 else group


def any_value(source: Random, prop: Property) -> str:
    return pick(source, specific(pick(source, prop["groups"])))


def value_for(source: Random, prop: Property, group: list[str], claim: str, agree: bool) -> str:
    """A specific value that makes the claim, specific or general, true or false."""
    general = claim not in specific(group)
    if agree:
        return pick(source, specific(group)) if general else claim
    while True:
        other = pick(source, prop["groups"])
        value = pick(source, specific(other))
        if value != claim and not (general and other == group):
            return value


def name_of(grammar: dict[str, Any], thing: Thing) -> str:
    return str(grammar["thing"].format(owner=thing[0], thing=gendered(thing[1])[0]))


def state(grammar: dict[str, Any], form: str, prop: Property, value: str, thing: Thing) -> str:
    _, gender = gendered(thing[1])
    return str(grammar[form].format(copula=prop["copula"], value=inflect(value, gender)))


def make(source: Random, language: str, target: int, split: str) -> dict[str, Any]:
    grammar = GRAMMAR[language]
    owners = [name for names in FIRST_NAMES[language] for name in names]
    thing: Thing = (pick(source, owners), pick(source, grammar["things"]))
    prop = pick(source, grammar["properties"])
    group = pick(source, prop["groups"])
    claim = group[-1] if chance(source, GENERAL) else pick(source, specific(group))
    negated = chance(source, NEGATED)
    hypothesis = sentence(
        pick(source, grammar["hypotheses"]),
        thing=name_of(grammar, thing),
        claim=state(grammar, "negated" if negated else "plain", prop, claim, thing),
    )

    unrelated = pick_other(source, grammar["properties"], prop)
    if target == NEUTRAL:
        about = [unrelated, any_value(source, unrelated)]
    else:
        agree = (target == ENTAILMENT) != negated
        about = [prop, value_for(source, prop, group, claim, agree)]
    said = [(thing, about[0], about[1])]

    two_things = chance(source, TWO_THINGS)
    if two_things:
        owner = pick_other(source, owners, thing[0])
        other_thing = (owner, pick(source, [thing[1], pick(source, grammar["things"])]))
        third = pick_other(source, grammar["properties"], prop)
        extra = prop if chance(source, SAME_PROPERTY) else third
        said.append((other_thing, extra, any_value(source, extra)))
    else:
        rest = [known for known in grammar["properties"] if known not in (prop, about[0])]
        extra = pick(source, rest)
        said.append((thing, extra, any_value(source, extra)))
    if chance(source, 0.5):
        said.reverse()
    (first_thing, *first), (second_thing, *second) = said
    premise = sentence(
        pick(source, grammar["contrasts" if two_things else "premises"]),
        first_thing=name_of(grammar, first_thing),
        first=state(grammar, "plain", first[0], first[1], first_thing),
        second_thing=name_of(grammar, second_thing),
        second=state(grammar, "plain", second[0], second[1], second_thing),
    )
    return {"text": premise, "text_pair": hypothesis}
