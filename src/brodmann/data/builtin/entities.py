"""Entities: tag the people, places, organisations and dates of a sentence, token by token.

The names are invented, and the same name serves a person, a place and part of an organisation
("Anna Harwood", "in Harwood", "Harwood Savings Bank"), so only its context tells its type.
A quarter of them never occur in the training split; half of the draws for other splits use these.
One sentence in five names nothing, so that a model learns that a text may hold no entity.
"""

from functools import cache
from itertools import product
from random import Random
from typing import Any

from brodmann.data.builtin.names import FIRST_NAMES
from brodmann.data.builtin.random_words import chance, grammar_words, pick

# Slots: {PER} {LOC} {ORG}, {DAY} follows "on" and {MONTH} follows "in"; both are dates.
# Inside the name patterns: {name} is an invented name, {brand} an invented company name.
GRAMMAR: dict[str, Any] = {
    "en": {
        "stems": (
            "Har Stan Wes Ash Bel Mar Thorn Win Col Rad Lin Hol Bram Ever Oak Fair Nor Ald Kel Dun"
        ),
        "endings": "ton ford field wood ley worth well bury wick dale",
        "brand_stems": "Vel Nex Sol Tri Quan Zen Ax Orb Lum Cor",
        "brand_endings": "tron via dex nova tech max lix gen",
        "organisations": [
            "{brand}",
            "{brand} Group",
            "{brand} Airlines",
            "{name} University",
            "{name} Industries",
            "the University of {name}",
            "{name} Savings Bank",
            "the Bank of {name}",
        ],
        "places": ["{name}", "{name}", "{name}", "Port {name}", "North {name}", "East {name}"],
        "months": (
            "January February March April May June July August September October November December"
        ),
        "days": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
        "date": "{day} {month} {year}",
        "month": "{month} {year}",
        "titles": "Mr Mrs Dr Judge",
        "titled": "{title} {name}",
        "sentences": [
            "{PER} joined {ORG} in {MONTH} .",
            "{PER} moved from {LOC} to {LOC} in {MONTH} .",
            "On {DAY} , {PER} met two lawyers from {ORG} .",
            "{ORG} opened an office in {LOC} in {MONTH} .",
            "The mayor of {LOC} signed a contract with {ORG} on {DAY} .",
            "{PER} and {PER} left {LOC} on {DAY} .",
            "Yesterday {ORG} named {PER} as its new director .",
            "In {MONTH} , the factory in {LOC} was bought by {ORG} .",
            "{PER} worked for {ORG} before returning to {LOC} .",
            "Police in {LOC} arrested {PER} on {DAY} .",
            "A spokesman for {ORG} denied the report on {DAY} .",
            "Heavy rain closed the airport near {LOC} on {DAY} .",
            "The new bridge between {LOC} and {LOC} was finished in {MONTH} .",
            "{PER} , who was born in {LOC} , has led {ORG} since {MONTH} .",
            "Nobody at {ORG} wanted to comment .",
            "The trial of {PER} began on {DAY} in {LOC} .",
        ],
        "who": (
            "two lawyers/the police/the mayor/a spokesman/several clerks/the new director/a farmer/"
            "the owner/three drivers/a nurse/the old judge/nobody/a student/the pilot/the tailor"
        ),
        "did": (
            "signed the contract/denied the report/closed the office/left the airport/"
            "opened the letter/checked the invoices/phoned the station/bought a car/"
            "sold the apartment/walked to the bridge/worked at the factory/wrote a letter/"
            "missed the bus/moved to the coast/lost the key/arrived late/wanted to comment"
        ),
        "when": (
            "near the park/in the evening/before lunch/after the trial/during the night/"
            "outside the hospital/behind the station/at noon/beside the road/once again/"
            "in the rain/inside the theatre/two weeks ago/at the end of the week/without a hat"
        ),
        "plain": ["{who} {did} {when} .", "yesterday {who} {did} {when} ."],
    },
    "es": {
        "stems": "Al Ben Car Mon Val Tor Sal Mir Bel Cam Gal Lor Mar Ol Pal Ri San Ver Zam Ar",
        "endings": "medo villa tana banes quera dosa lares rona viedo cedo",
        "brand_stems": "Vel Nex Sol Tri Quan Zen Ax Orb Lum Cor",
        "brand_endings": "tron via dex nova tec max lix gen",
        "organisations": [
            "{brand}",
            "el Grupo {brand}",
            "Aerolíneas {brand}",
            "la Universidad de {name}",
            "Industrias {name}",
            "el Banco de {name}",
            "la Caja de Ahorros de {name}",
            "la Fundación {name}",
        ],
        "places": ["{name}", "{name}", "{name}", "Puerto {name}", "Villa {name}", "Nueva {name}"],
        "months": (
            "enero febrero marzo abril mayo junio "
            "julio agosto septiembre octubre noviembre diciembre"
        ),
        "days": "lunes martes miércoles jueves viernes sábado domingo",
        "date": "{day} de {month} de {year}",
        "month": "{month} de {year}",
        "titles": "señor doctor juez",
        "titled": "el {title} {name}",
        "sentences": [
            "{PER} entró en {ORG} en {MONTH} .",
            "{PER} se mudó de {LOC} a {LOC} en {MONTH} .",
            "El {DAY} , {PER} se reunió con dos abogados de {ORG} .",
            "{ORG} abrió una oficina en {LOC} en {MONTH} .",
            "La alcaldesa de {LOC} firmó un contrato con {ORG} el {DAY} .",
            "{PER} y {PER} salieron de {LOC} el {DAY} .",
            "Ayer {ORG} despidió a {PER} .",
            "En {MONTH} , la fábrica de {LOC} fue comprada por {ORG} .",
            "{PER} trabajó en {ORG} antes de volver a {LOC} .",
            "La policía de {LOC} detuvo a {PER} el {DAY} .",
            "Una portavoz de {ORG} negó la noticia el {DAY} .",
            "La lluvia cerró el aeropuerto de {LOC} el {DAY} .",
            "El puente nuevo entre {LOC} y {LOC} se terminó en {MONTH} .",
            "{PER} , que nació en {LOC} , dirige {ORG} desde {MONTH} .",
            "Nadie en {ORG} quiso hacer comentarios .",
            "El juicio contra {PER} empezó el {DAY} en {LOC} .",
        ],
        "who": (
            "la alcaldesa/un portavoz/el juez/la policía/el granjero/una enfermera/el vecino/"
            "la dueña/el piloto/una profesora/el médico/la camarera/el vendedor/una jueza/nadie"
        ),
        "did": (
            "firmó el contrato/negó la noticia/cerró la oficina/abrió la puerta/"
            "revisó las facturas/compró un coche/vendió el apartamento/entró en el hospital/"
            "trabajó en la fábrica/escribió una carta/perdió la llave/terminó el informe/"
            "encontró el mapa/llegó a la estación/pidió un préstamo/olvidó la maleta/"
            "recordó el juicio"
        ),
        "when": (
            "antes del almuerzo/después del juicio/durante la noche/junto al lago/"
            "detrás de la estación/por la mañana/en el parque/hace dos semanas/sobre el puente/"
            "con prisa/en la plaza/dentro del hospital/en invierno/la tarde del partido/"
            "durante la fiesta"
        ),
        "plain": ["{who} {did} {when} .", "ayer {who} {did} {when} ."],
    },
}
YEARS = range(1960, 2025)
TYPES = {"PER": "PER", "LOC": "LOC", "ORG": "ORG", "DAY": "DATE", "MONTH": "DATE"}


@cache
def joined(stems: str, endings: str) -> list[str]:
    return [stem + ending for stem, ending in product(stems.split(), endings.split())]


def all_words(language: str) -> set[str]:
    """Every word a sentence can contain; the parts of invented names are not words."""
    grammar = GRAMMAR[language]
    parts = ("stems", "endings", "brand_stems", "brand_endings")
    listed = grammar_words({key: value for key, value in grammar.items() if key not in parts})
    names = joined(grammar["stems"], grammar["endings"])
    brands = joined(grammar["brand_stems"], grammar["brand_endings"])
    numbers = [str(number) for number in (*range(1, 29), *YEARS)]
    return listed | {word.lower() for word in (*names, *brands, *numbers)}


def pick_invented(source: Random, stems: str, endings: str, split: str) -> str:
    names = joined(stems, endings)
    unseen = names[3::4]
    if split != "train" and chance(source, 0.5):
        return pick(source, unseen)
    place = pick(source, range(len(names) * 3 // 4))  # the others, three in each four
    return names[place // 3 * 4 + place % 3]


def fill(source: Random, language: str, slot: str, split: str) -> tuple[list[str], list[str]]:
    """Tokens and tags for one slot."""
    grammar = GRAMMAR[language]
    name = pick_invented(source, grammar["stems"], grammar["endings"], split)
    outside = 0  # leading tokens that belong to the phrase but not to the entity
    if slot == "PER":
        if chance(source, 0.75):
            text = f"{pick(source, pick(source, FIRST_NAMES[language]))} {name}"
        else:
            title = pick(source, grammar["titles"].split())
            text = grammar["titled"].format(title=title, name=name)
            outside = len(text.split()) - 1
    elif slot == "LOC":
        text = pick(source, grammar["places"]).format(name=name)
    elif slot == "ORG":
        brand = pick_invented(source, grammar["brand_stems"], grammar["brand_endings"], split)
        text = pick(source, grammar["organisations"]).format(name=name, brand=brand)
        outside = int(text[0].islower())  # an article
    else:
        month = pick(source, grammar["months"].split())
        year = str(pick(source, YEARS))
        if slot == "MONTH":
            text = pick(source, [year, grammar["month"].format(month=month, year=year)])
        else:
            date = grammar["date"].format(day=pick(source, range(1, 29)), month=month, year=year)
            text = pick(source, [date, pick(source, grammar["days"].split())])
    tokens = text.split()
    kind = TYPES[slot]
    inside = len(tokens) - outside
    return tokens, ["O"] * outside + [f"B-{kind}"] + [f"I-{kind}"] * (inside - 1)


def make(source: Random, language: str, target: int, split: str) -> dict[str, Any]:
    tokens, tags = plain(source, language) if target == 0 else named(source, language, split)
    tokens[0] = tokens[0][0].upper() + tokens[0][1:]
    return {"tokens": tokens, "tags": tags}


def plain(source: Random, language: str) -> tuple[list[str], list[str]]:
    """A sentence without any entity."""
    grammar = GRAMMAR[language]
    parts = {slot: pick(source, grammar[slot].split("/")) for slot in ("who", "did", "when")}
    tokens = pick(source, grammar["plain"]).format(**parts).split()
    return tokens, ["O"] * len(tokens)


def named(source: Random, language: str, split: str) -> tuple[list[str], list[str]]:
    """A sentence with one or more entities."""
    tokens: list[str] = []
    tags: list[str] = []
    for part in pick(source, GRAMMAR[language]["sentences"]).split():
        if part.startswith("{"):
            new_tokens, new_tags = fill(source, language, part.strip("{}"), split)
            tokens += new_tokens
            tags += new_tags
        else:
            tokens.append(part)
            tags.append("O")
    # "de el señor", "a el señor": Spanish contracts them, both outside the entity.
    for place in range(len(tokens) - 1, 0, -1):
        if tokens[place] == "el" and tokens[place - 1] in ("de", "a"):
            tokens[place - 1 : place + 1] = [{"de": "del", "a": "al"}[tokens[place - 1]]]
            del tags[place]
    return tokens, tags
