"""The model card of a saved model: what it is, what it was trained on, how to use it."""

import html
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from brodmann.errors import visible
from brodmann.models.pooling import describe_pooling
from brodmann.models.predicting import expected_input
from brodmann.text import NOTHING, millions, parameters, percent

if TYPE_CHECKING:
    from brodmann.models.multitask import MultiTaskModel


def model_card(model: "MultiTaskModel", scores: Mapping[str, Mapping[str, float]]) -> str:
    settings = model.settings
    counts = model.parameter_counts()
    lines = [
        "# Multi-task model",
        "",
        f"{len(model.specs)} tasks on `{_code(settings.backbone)}`, architecture "
        f"`{settings.architecture}`, "
        f"{parameters(counts)} "
        f"({millions(counts['heads'], 2)} in output heads), "
        f"at most {settings.max_length} tokens; texts are read as "
        f"{describe_pooling(settings.pooling)}. Made with Brodmann.",
        "",
        "| task | kind | labels | input | metric | validation |",
        "|---|---|---|---|---|---|",
    ]
    for name, spec in model.specs.items():
        labels = ", ".join(spec.labels) if spec.labels else NOTHING
        score = scores.get(name, {}).get(spec.metric)
        shown = percent(score)
        cells = [name, spec.kind, labels, expected_input(spec), spec.metric, shown]
        lines.append(f"| {' | '.join(_plain(cell) for cell in cells)} |")
    generated = [name for name, spec in model.specs.items() if spec.generated]
    if generated:
        lines += [
            "",
            f"Trained on **generated** text ({', '.join(generated)}): its scores say nothing about "
            "real text.",
        ]
    first = next(iter(model.specs.values()))
    lines += [
        "",
        "```python",
        "import brodmann as bm",
        "",
        'model = bm.MultiTaskModel.from_pretrained("path/to/this/folder")',
        f'model.predict("{first.name}", [...])  # each {_code(expected_input(first))}',
        "model.predict_all([...])  # every task that reads such an input",
        "```",
        "",
    ]
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Escape text from data for a Markdown table: no HTML, link, code or further column."""
    one_line = " ".join(visible(text).split())
    return re.sub(r"([\\`\[\]|])", r"\\\1", html.escape(one_line, quote=False))


def _code(text: str) -> str:
    """Escape text from data for backticks or a code block, which it must not end."""
    return " ".join(visible(text).split()).replace("`", "'")
