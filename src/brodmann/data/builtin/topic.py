"""Topic: which of four subjects is a sentence about?

Some sentences also mention somebody from another topic ("while the cellist was waiting outside,
the goalkeeper ..."), or tell what that person did. The main clause decides, so words alone do not.
"""

from random import Random
from typing import Any

from brodmann.data.builtin.random_words import pick, pick_other, sentence

# Every topic: who, does what, and when or where. Any three of a topic can be combined.
GRAMMAR: dict[str, Any] = {
    "en": {
        "topics": [
            {
                "who": [
                    "the goalkeeper",
                    "the striker",
                    "the referee",
                    "the young sprinter",
                    "the tennis champion",
                    "the swimmer",
                    "the team captain",
                    "the coach",
                ],
                "what": [
                    "missed the training session",
                    "argued about the penalty",
                    "celebrated the gold medal",
                    "talked about the semifinal",
                    "twisted an ankle",
                    "remembered the defeat",
                    "studied the league table",
                    "hoped for a new record",
                    "trained hard for the tournament",
                    "lost the third match",
                ],
                "when": [
                    "before the kick-off",
                    "at the stadium",
                    "during the warm-up",
                    "on the pitch",
                    "after the final whistle",
                    "in the locker room",
                    "next to the running track",
                ],
            },
            {
                "who": [
                    "the chef",
                    "the pastry cook",
                    "the waiter",
                    "the baker",
                    "the butcher",
                    "the young cook",
                    "the cheese maker",
                    "the kitchen assistant",
                ],
                "what": [
                    "burned the onions",
                    "tasted the tomato sauce",
                    "peeled two kilos of potatoes",
                    "forgot the salt",
                    "prepared a mushroom omelette",
                    "sliced the bread",
                    "served roast chicken with rice",
                    "mixed flour and butter",
                    "added garlic to the stew",
                    "grilled the fish",
                ],
                "when": [
                    "in the restaurant kitchen",
                    "before lunch",
                    "for forty hungry guests",
                    "for a new recipe",
                    "beside the oven",
                    "for the evening menu",
                    "in a hurry",
                ],
            },
            {
                "who": [
                    "the cellist",
                    "the pianist",
                    "the choir leader",
                    "the guitarist",
                    "the drummer",
                    "the soprano",
                    "the young violinist",
                    "the composer",
                ],
                "what": [
                    "practised a difficult melody",
                    "tuned the instruments",
                    "sang an old ballad",
                    "wrote a waltz",
                    "repeated the second verse",
                    "played a slow sonata",
                    "recorded a jazz album",
                    "changed the rhythm",
                    "learned the chorus by heart",
                    "found a wrong note",
                ],
                "when": [
                    "before the concert",
                    "with the orchestra",
                    "during the rehearsal",
                    "in the opera house",
                    "without any sheet music",
                    "for the festival",
                    "in the recording studio",
                ],
            },
            {
                "who": [
                    "the banker",
                    "the investor",
                    "the accountant",
                    "the tax adviser",
                    "the stockbroker",
                    "the young trader",
                    "the insurance agent",
                    "the auditor",
                ],
                "what": [
                    "sold all the shares",
                    "asked for a loan",
                    "checked the invoices",
                    "raised the interest rate",
                    "warned of heavy losses",
                    "paid back the debt",
                    "bought government bonds",
                    "lowered the prices",
                    "doubled the profit",
                    "transferred the savings",
                ],
                "when": [
                    "during the financial crisis",
                    "before the market closed",
                    "before the annual report",
                    "for a foreign company",
                    "because of inflation",
                    "at the end of the quarter",
                    "on the stock exchange",
                ],
            },
        ],
        "look_on": [
            "while {other} was waiting outside,",
            "when {other} arrived,",
            "although {other} did not listen,",
            "as {other} walked past,",
        ],
        "openings": ["", "", "yesterday", "according to the newspaper,", "once again"],
        "main": "{opening} {who} {what} {when}.",
        "double": [
            "on the day that {other} {other_what}, {who} {what}.",
            "{who} {what} on the day that {other} {other_what}.",
            "just when {other} {other_what}, {who} {what}.",
        ],
    },
    "es": {
        "topics": [
            {
                "who": [
                    "el portero",
                    "la delantera",
                    "el árbitro",
                    "la joven velocista",
                    "el campeón de tenis",
                    "la nadadora",
                    "la capitana del equipo",
                    "el entrenador",
                ],
                "what": [
                    "faltó al entrenamiento",
                    "discutió por el penalti",
                    "celebró la medalla de oro",
                    "habló de la semifinal",
                    "se torció un tobillo",
                    "recordó la derrota",
                    "miró la clasificación de la liga",
                    "soñó con un nuevo récord",
                    "entrenó mucho para el torneo",
                    "perdió el tercer partido",
                ],
                "when": [
                    "antes del saque inicial",
                    "en el estadio",
                    "durante el calentamiento",
                    "en el campo de juego",
                    "después del pitido final",
                    "en el vestuario",
                    "junto a la pista de atletismo",
                ],
            },
            {
                "who": [
                    "la cocinera",
                    "el pastelero",
                    "el camarero",
                    "la panadera",
                    "el carnicero",
                    "el joven cocinero",
                    "la quesera",
                    "el ayudante de cocina",
                ],
                "what": [
                    "quemó las cebollas",
                    "probó la salsa de tomate",
                    "peló dos kilos de patatas",
                    "olvidó la sal",
                    "preparó una tortilla de setas",
                    "cortó el pan",
                    "sirvió pollo asado con arroz",
                    "mezcló harina y mantequilla",
                    "añadió ajo al guiso",
                    "asó el pescado",
                ],
                "when": [
                    "en la cocina del restaurante",
                    "antes del almuerzo",
                    "para cuarenta comensales",
                    "para una receta nueva",
                    "junto al horno",
                    "para el menú de la noche",
                    "a toda prisa",
                ],
            },
            {
                "who": [
                    "el violonchelista",
                    "la pianista",
                    "el director del coro",
                    "la guitarrista",
                    "el batería",
                    "la soprano",
                    "la joven violinista",
                    "el compositor",
                ],
                "what": [
                    "ensayó una melodía difícil",
                    "afinó los instrumentos",
                    "cantó una vieja balada",
                    "escribió un vals",
                    "repitió la segunda estrofa",
                    "tocó una sonata lenta",
                    "grabó un disco de jazz",
                    "cambió el ritmo",
                    "aprendió el estribillo de memoria",
                    "encontró una nota falsa",
                ],
                "when": [
                    "antes del concierto",
                    "con la orquesta",
                    "durante el ensayo",
                    "en la ópera",
                    "sin ninguna partitura",
                    "para el festival",
                    "en el estudio de grabación",
                ],
            },
            {
                "who": [
                    "la banquera",
                    "el inversor",
                    "el contable",
                    "la asesora fiscal",
                    "el corredor de bolsa",
                    "la joven empresaria",
                    "el agente de seguros",
                    "la auditora",
                ],
                "what": [
                    "vendió todas las acciones",
                    "pidió un préstamo",
                    "revisó las facturas",
                    "subió el tipo de interés",
                    "avisó de grandes pérdidas",
                    "devolvió la deuda",
                    "compró bonos del Estado",
                    "bajó los precios",
                    "duplicó las ganancias",
                    "transfirió los ahorros",
                ],
                "when": [
                    "durante la crisis financiera",
                    "antes del cierre del mercado",
                    "antes del informe anual",
                    "para una compañía extranjera",
                    "a causa de la inflación",
                    "a finales del trimestre",
                    "en la bolsa",
                ],
            },
        ],
        "look_on": [
            "mientras {other} esperaba fuera,",
            "cuando llegó {other},",
            "aunque {other} no escuchaba,",
            "mientras {other} pasaba por allí,",
        ],
        "openings": ["", "", "ayer", "según el periódico,", "una vez más"],
        "main": "{opening} {who} {what} {when}.",
        "double": [
            "el día en que {other} {other_what}, {who} {what}.",
            "{who} {what} el día en que {other} {other_what}.",
            "justo cuando {other} {other_what}, {who} {what}.",
        ],
    },
}
DOUBLE, LOOK_ON = 0.3, 0.3  # shares of the sentences; the rest keeps to one topic


def make(source: Random, language: str, target: int, split: str) -> dict[str, Any]:
    grammar = GRAMMAR[language]
    topic = grammar["topics"][target]
    slots = {role: pick(source, topic[role]) for role in ("who", "what", "when")}
    other = pick_other(source, grammar["topics"], topic)
    slots |= {"other": pick(source, other["who"]), "other_what": pick(source, other["what"])}
    share = source.random()
    if share < DOUBLE:
        return {"text": sentence(pick(source, grammar["double"]), **slots)}
    openings = grammar["look_on" if share < DOUBLE + LOOK_ON else "openings"]
    slots["opening"] = pick(source, openings).format(**slots)
    return {"text": sentence(grammar["main"], **slots)}
