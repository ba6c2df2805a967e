"""Paraphrase: do two sentences report the same event?

Both sentences choose their wording freely: synonyms, active or passive, the time first or last.
A different event differs in one or two respects, and may use exactly the same words with the roles
swapped, so neither the words of one sentence nor their overlap reveals the label.
"""

from random import Random
from typing import Any

from brodmann.data.builtin.random_words import chance, gendered, inflect, pick, pick_other, sentence

# Every inner list holds wordings of one meaning; its neighbours are meanings that exclude it.
# Verbs: past/participle (Spanish: past, then the participle in both genders).
GRAMMAR: dict[str, Any] = {
    "en": {
        "people": [
            ["the doctor", "the physician"],
            ["the teacher", "the instructor"],
            ["the lawyer", "the attorney"],
            ["the policeman", "the police officer"],
            ["the author", "the writer"],
            ["the shopkeeper", "the shop owner"],
            ["the sailor", "the seaman"],
            ["the builder", "the construction worker"],
            ["the actor", "the performer"],
            ["the farmer"],
            ["the nurse"],
            ["the mayor"],
        ],
        "verbs": [
            ["phoned/phoned", "called/called"],
            ["helped/helped", "assisted/assisted"],
            ["hired/hired", "employed/employed"],
            ["praised/praised", "complimented/complimented"],
            ["fooled/fooled", "tricked/tricked"],
            ["chased/chased", "pursued/pursued"],
            ["saved/saved", "rescued/rescued"],
            ["hit/hit", "struck/struck"],
            ["scared/scared", "frightened/frightened"],
            ["invited/invited"],
        ],
        "times": [
            ["half an hour ago", "thirty minutes ago"],
            ["a minute ago", "sixty seconds ago"],
            ["yesterday"],
            ["a week ago", "seven days ago"],
            ["two weeks ago", "a fortnight ago"],
            ["half a year ago", "six months ago"],
            ["a year ago", "twelve months ago"],
            ["ten years ago", "a decade ago"],
        ],
        "places": [
            ["in the forest", "in the woods"],
            ["in the apartment", "in the flat"],
            ["in the basement", "in the cellar"],
            ["at the cinema", "at the movie theatre"],
            ["on the coast", "on the seashore"],
            ["in the shop", "in the store"],
            ["at the airport"],
            ["in the hospital"],
        ],
        "shapes": [
            "{time}, {agent} {past} {patient} {place}.",
            "{agent} {past} {patient} {place} {time}.",
            "{time}, {patient} was {participle} by {agent} {place}.",
            "{patient} was {participle} by {agent} {place} {time}.",
            "it was {agent} who {past} {patient} {place} {time}.",
        ],
    },
    "es": {
        "people": [
            ["0el médico", "0el doctor"],
            ["1la maestra", "1la profesora"],
            ["0el abogado", "0el letrado"],
            ["1la policía", "1la agente de policía"],
            ["0el escritor", "0el autor"],
            ["1la tendera", "1la dueña de la tienda"],
            ["0el marinero", "0el marino"],
            ["0el albañil", "0el obrero de la construcción"],
            ["1la actriz", "1la intérprete"],
            ["0el granjero"],
            ["1la enfermera"],
            ["1la alcaldesa"],
        ],
        "verbs": [
            ["avisó/avisado/avisada", "alertó/alertado/alertada"],
            ["ayudó/ayudado/ayudada", "auxilió/auxiliado/auxiliada"],
            ["contrató/contratado/contratada", "empleó/empleado/empleada"],
            ["elogió/elogiado/elogiada", "alabó/alabado/alabada"],
            ["engañó/engañado/engañada", "timó/timado/timada"],
            ["insultó/insultado/insultada", "ofendió/ofendido/ofendida"],
            ["salvó/salvado/salvada", "rescató/rescatado/rescatada"],
            ["golpeó/golpeado/golpeada", "agredió/agredido/agredida"],
            ["asustó/asustado/asustada", "espantó/espantado/espantada"],
            ["invitó/invitado/invitada"],
        ],
        "times": [
            ["hace media hora", "hace treinta minutos"],
            ["hace un minuto", "hace sesenta segundos"],
            ["ayer"],
            ["hace una semana", "hace siete días"],
            ["hace dos semanas", "hace quince días"],
            ["hace medio año", "hace seis meses"],
            ["hace un año", "hace doce meses"],
            ["hace diez años", "hace una década"],
        ],
        "places": [
            ["en el coche", "en el automóvil"],
            ["en el piso", "en el apartamento"],
            ["en el bosque"],
            ["en la costa", "en el litoral"],
            ["en la tienda", "en el comercio"],
            ["en el colegio", "en la escuela"],
            ["en el aeropuerto"],
            ["en el hospital"],
        ],
        "shapes": [
            "{time}, {agent} {past} a {patient} {place}.",
            "{agent} {past} a {patient} {place} {time}.",
            "{time}, {patient} fue {participle} por {agent} {place}.",
            "{patient} fue {participle} por {agent} {place} {time}.",
            "fue {agent} quien {past} a {patient} {place} {time}.",
        ],
    },
}
PARAPHRASE = 1
ROLES = {
    "agent": "people",
    "patient": "people",
    "verb": "verbs",
    "time": "times",
    "place": "places",
}
DIFFERENCES = ["roles", "agent", "patient", "verb", "time", "place"]
TWO_RESPECTS = 0.4  # share of the different pairs

Event = dict[str, list[str]]  # role -> the wordings of its meaning


def render(source: Random, grammar: dict[str, Any], event: Event) -> str:
    words = {role: pick(source, wordings) for role, wordings in event.items()}
    words["agent"], _ = gendered(words["agent"])
    words["patient"], gender = gendered(words["patient"])  # a passive participle agrees with it
    past, *participles = words.pop("verb").split("/")
    words |= {"past": past, "participle": inflect("/".join(participles), gender)}
    return sentence(pick(source, grammar["shapes"]), **words)


def changed(source: Random, grammar: dict[str, Any], event: Event) -> Event:
    """Another event that differs from this one in a single respect."""
    difference = pick(source, DIFFERENCES)
    if difference == "roles":
        return event | {"agent": event["patient"], "patient": event["agent"]}
    people = (event["agent"], event["patient"])
    meanings = [meaning for meaning in grammar[ROLES[difference]] if meaning not in people]
    return event | {difference: pick_other(source, meanings, event[difference])}


def make(source: Random, language: str, target: int, split: str) -> dict[str, Any]:
    grammar = GRAMMAR[language]
    event = {role: pick(source, grammar[words]) for role, words in ROLES.items()}
    event["patient"] = pick_other(source, grammar["people"], event["agent"])
    text = render(source, grammar, event)
    if target != PARAPHRASE:
        original = event
        event = changed(source, grammar, event)
        if chance(source, TWO_RESPECTS):
            again = changed(source, grammar, event)
            event = again if again != original else event
    other = text
    while other == text:
        other = render(source, grammar, event)
    return {"text": text, "text_pair": other}
