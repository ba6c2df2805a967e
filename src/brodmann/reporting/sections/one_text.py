"""The heads of one text per task: what each adds to the answer, and where the strongest looks."""

import math
from typing import Any

from brodmann.reporting.blocks import Block, Matrix, Section, Words
from brodmann.reporting.record import Study
from brodmann.text import percent

MOST_TOKENS = 24  # a larger map cannot be read


def section(study: Study) -> Section | None:
    blocks: list[Block] = []
    for run in study.runs[:1]:
        for task, found in run.measures.get("explained", {}).get("tasks", {}).items():
            blocks += explained(task, found)
    if not blocks:
        return None
    text = (
        "One validation example per task. A number is the change of the answer's logit per unit of "
        "the head's gate: above 0, the head speaks for the answer; below 0, against it."
    )
    return Section("texts", "The heads of one text", [Words(text), *blocks])


def explained(task: str, found: dict[str, Any]) -> list[Block]:
    gradients = found["gradients"]
    strongest = max(abs(value) for row in gradients for value in row) or 1.0
    text = found["text"] + (f" — {found['pair']}" if found["pair"] else "")
    right = "right" if found["answer"] == found["truth"] else f"wrong: {found['truth']}"
    blocks: list[Block] = [
        Words(f"{task}: “{text}” → {found['answer']} ({percent(found['score'])} %, {right})"),
        Matrix(
            [str(layer) for layer in range(len(gradients))],  # short: 12 heads fit a terminal
            [str(head) for head in range(len(gradients[0]))],
            gradients,
            f"{task}: what every head adds to the answer “{found['answer']}”: one row per layer, "
            "one column per head.",
            [[value / strongest for value in row] for row in gradients],
            digits=max(2, 1 - math.floor(math.log10(strongest))),  # the strongest is never 0.00
            percent=False,
            numbered=False,
            colours="One colour speaks for the answer, the other against it.",
        ),
    ]
    tokens = found["tokens"]
    for one in found["attention"] if len(tokens) <= MOST_TOKENS else []:
        layer, head = one["head"]
        blocks.append(
            Matrix(
                tokens,
                tokens,
                one["map"],
                f"{task}: where head {head} of layer {layer} looks, in % of each row: one row per "
                "token that looks, one column per token that it looks at.",
                one["map"],
                digits=0,
            )
        )
    return blocks
