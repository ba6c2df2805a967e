"""Sentiment, and its twin `opinion`: is the verdict of a short review good or bad?

Counting good and bad words is not enough: a verdict may be negated ("was not dull at all"), or
follow a clause of the opposite sentiment ("although the view was lovely, the hotel was dreadful").
The label is the verdict on the whole; a side remark on one part never decides.
"""

from random import Random
from typing import Any

from brodmann.data.builtin.random_words import gendered, inflect, pick, sentence

# A domain: things that can be judged, and their parts. Digits give the gender (`gendered`).
# `strong` adjectives state a verdict, `mild` ones can also be negated ("not superb" is no verdict).
# Lists of two hold the negative words first, then the positive ones, as the labels are ordered.
GRAMMAR: dict[str, Any] = {
    "en": {
        "domains": [
            {
                "things": ["the film", "the movie", "the series", "the play", "the documentary"],
                "parts": ["the plot", "the acting", "the ending", "the dialogue", "the soundtrack"],
            },
            {
                "things": ["the novel", "the book", "the story", "the biography"],
                "parts": ["the style", "the first chapter", "the cover", "the translation"],
            },
            {
                "things": ["the hotel", "the hostel", "the campsite", "the guesthouse"],
                "parts": ["the room", "the bed", "the breakfast", "the view", "the bathroom"],
            },
            {
                "things": ["the restaurant", "the café", "the meal", "the dinner"],
                "parts": ["the soup", "the dessert", "the service", "the wine", "the music"],
            },
            {
                "things": ["the phone", "the tablet", "the laptop", "the camera"],
                "parts": ["the screen", "the battery", "the sound", "the design", "the manual"],
            },
        ],
        "strong": [
            [
                "terrible",
                "awful",
                "dreadful",
                "horrible",
                "lousy",
                "miserable",
                "dismal",
                "atrocious",
                "appalling",
                "hopeless",
                "a disaster",
                "a disgrace",
            ],
            [
                "wonderful",
                "superb",
                "excellent",
                "lovely",
                "delightful",
                "splendid",
                "fantastic",
                "brilliant",
                "marvellous",
                "terrific",
                "a triumph",
                "a pleasure",
            ],
        ],
        "mild": [
            ["bad", "disappointing", "annoying", "dull", "unpleasant", "poor", "mediocre"],
            ["good", "impressive", "pleasant", "enjoyable", "special", "satisfying", "great"],
        ],
        "intensifiers": ["", "", "truly", "really", "simply", "frankly"],
        "feelings": [["hated", "disliked", "detested"], ["loved", "enjoyed", "adored"]],
        "endorsements": [
            ["would avoid", "would never recommend", "would not recommend", "got tired of"],
            ["would recommend", "would gladly recommend", "never got tired of", "cannot fault"],
        ],
        "plain": [
            "{thing} was {intensifier} {strong}, and {part} was {mild} too.",
            "{thing} was {intensifier} {strong}.",
            "I {feeling} {thing}, and {part} was {intensifier} {strong}.",
            "{part} was {mild}, and I {endorsement} {thing}.",
        ],
        "negated": [
            "{thing} was not {mild_opposite} at all.",
            "{thing} was never {mild_opposite}, and neither was {part}.",
            "there was nothing {mild_opposite} about {thing} or {part}.",
            "I did not find {thing} {mild_opposite}, and {part} was not {mild_opposite} either.",
        ],
        "contrast": [
            "although {part} was {intensifier} {strong_opposite}, {thing} as a whole was {strong}.",
            "{part} was {mild_opposite}, but {thing} was {intensifier} {strong}.",
            "I {feeling} {thing}, although {part} was {strong_opposite}.",
            "{thing} was {strong}, even though {part} was {intensifier} {mild_opposite}.",
            "everyone said {thing} was {strong_opposite}, but I {feeling} it.",
            "my friends {feeling_opposite} {thing}, but I found it {strong}.",
            "{thing} was {strong}, although my sister {feeling_opposite} it.",
            "I expected {thing} to be {strong_opposite}, but it was {intensifier} {strong}.",
            "{part} was {strong_opposite}, yet I {endorsement} {thing}.",
            "{part} was not {mild}, but I {endorsement} {thing}.",
        ],
    },
    "es": {
        "domains": [
            {
                "things": [
                    "1la película",
                    "1la serie",
                    "0el documental",
                    "1la comedia",
                    "0el drama",
                ],
                "parts": ["0el argumento", "1la actuación", "0el final", "0el diálogo"],
            },
            {
                "things": ["1la novela", "0el libro", "0el cuento", "1la biografía"],
                "parts": ["0el estilo", "0el primer capítulo", "1la portada", "1la traducción"],
            },
            {
                "things": ["0el hotel", "0el hostal", "0el albergue", "1la pensión"],
                "parts": ["1la habitación", "1la cama", "0el desayuno", "1la vista", "0el baño"],
            },
            {
                "things": ["0el restaurante", "1la cafetería", "1la comida", "1la cena"],
                "parts": ["1la sopa", "0el postre", "0el servicio", "0el vino", "1la música"],
            },
            {
                "things": ["0el teléfono", "1la tableta", "0el portátil", "1la cámara"],
                "parts": ["1la pantalla", "1la batería", "0el sonido", "0el diseño", "0el manual"],
            },
        ],
        "strong": [
            [
                "terrible",
                "horrible",
                "pésimo/pésima",
                "espantoso/espantosa",
                "lamentable",
                "desastroso/desastrosa",
                "horroroso/horrorosa",
                "insoportable",
                "un desastre",
                "nefasto/nefasta",
                "una vergüenza",
                "una tortura",
            ],
            [
                "maravilloso/maravillosa",
                "excelente",
                "estupendo/estupenda",
                "fantástico/fantástica",
                "espléndido/espléndida",
                "magnífico/magnífica",
                "extraordinario/extraordinaria",
                "perfecto/perfecta",
                "encantador/encantadora",
                "genial",
                "un acierto",
                "una delicia",
            ],
        ],
        "mild": [
            [
                "malo/mala",
                "decepcionante",
                "molesto/molesta",
                "aburrido/aburrida",
                "desagradable",
                "mediocre",
                "flojo/floja",
            ],
            [
                "bueno/buena",
                "impresionante",
                "agradable",
                "notable",
                "especial",
                "bonito/bonita",
                "satisfactorio/satisfactoria",
            ],
        ],
        "intensifiers": ["", "", "realmente", "francamente", "sencillamente", "sin duda"],
        "feelings": [
            ["disgustó", "decepcionó", "pareció fatal"],
            ["encantó", "entusiasmó", "pareció una maravilla"],
        ],
        "endorsements": [
            ["nunca recomendaría", "no recomendaría", "desaconsejo", "me cansé de"],
            ["siempre recomendaría", "recomendaría", "aconsejo", "no me cansé de"],
        ],
        "plain": [
            "{thing} fue {intensifier} {strong}, y {part} también fue {mild_part}.",
            "{thing} fue {intensifier} {strong}.",
            "{thing} me {feeling}, y {part} fue {intensifier} {strong_part}.",
            "{part} fue {mild_part}, y {endorsement} {thing}.",
        ],
        "negated": [
            "{thing} no fue nada {mild_opposite}.",
            "{thing} nunca fue {mild_opposite}, y {part} tampoco.",
            "ni {thing} fue {mild_opposite} ni {part} fue {mild_part_opposite}.",
            "a nadie le pareció {mild_opposite} {thing}, y {part} tampoco.",
        ],
        "contrast": [
            "aunque {part} fue {strong_part_opposite}, {thing} en conjunto fue {strong}.",
            "{part} fue {mild_part_opposite}, pero {thing} fue {intensifier} {strong}.",
            "{thing} me {feeling}, aunque {part} fue {strong_part_opposite}.",
            "{thing} fue {strong}, a pesar de que {part} fue {intensifier} {mild_part_opposite}.",
            "todos decían que {thing} era {strong_opposite}, pero a mí me {feeling}.",
            "a mis amigos {thing} les {feeling_opposite}, pero para mí fue {strong}.",
            "{thing} fue {strong}, aunque a mi hermana le {feeling_opposite}.",
            "esperaba que {thing} fuera {strong_opposite}, pero fue {intensifier} {strong}.",
            "{part} fue {strong_part_opposite}, pero {endorsement} {thing}.",
            "{part} no fue {mild_part}, pero {endorsement} {thing}.",
        ],
    },
}
NEGATED, CONTRAST = 0.25, 0.5  # shares of the texts; the rest is plain


def make(source: Random, language: str, target: int, split: str) -> dict[str, Any]:
    grammar = GRAMMAR[language]
    domain = pick(source, grammar["domains"])
    thing, thing_gender = gendered(pick(source, domain["things"]))
    part, part_gender = gendered(pick(source, domain["parts"]))
    share = source.random()
    kind = "negated" if share < NEGATED else "contrast" if share < NEGATED + CONTRAST else "plain"
    slots = {"thing": thing, "part": part, "intensifier": pick(source, grammar["intensifiers"])}
    slots["feeling"] = pick(source, grammar["feelings"][target])
    slots["feeling_opposite"] = pick(source, grammar["feelings"][1 - target])
    slots["endorsement"] = pick(source, grammar["endorsements"][target])
    for degree in ("strong", "mild"):
        for polarity, ending in ((target, ""), (1 - target, "_opposite")):
            adjective = pick(source, grammar[degree][polarity])
            slots[degree + ending] = inflect(adjective, thing_gender)
            slots[f"{degree}_part{ending}"] = inflect(adjective, part_gender)
    return {"text": sentence(pick(source, grammar[kind]), **slots)}
