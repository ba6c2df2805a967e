"""The model card of a saved model: what it is, what it was trained on, how to use it."""

import html
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from brodmann.data.answering.inputs import expected_input
from brodmann.data.tasks import TaskSpec
from brodmann.errors import visible
from brodmann.models.card_metadata import CardFacts, header, is_path, languages_of
from brodmann.models.pooling import describe_pooling
from brodmann.text import NOTHING, dissociation, millions, parameters, percent, with_interval

if TYPE_CHECKING:
    from brodmann.models.multitask import MultiTaskModel


def model_card(model: "MultiTaskModel", facts: CardFacts) -> str:
    parts = [
        _summary(model),
        _table(model, facts),
        _loading(model, facts),
        _head_map(facts),
        _use_and_limits(model, facts),
    ]
    return header(model, facts) + "\n" + "\n\n".join(part for part in parts if part) + "\n"


def _summary(model: "MultiTaskModel") -> str:
    settings = model.settings
    counts = model.parameter_counts()
    return (
        "# Multi-task model\n\n"
        f"{len(model.specs)} tasks on `{_code(public_name(settings.backbone))}`, architecture "
        f"`{settings.architecture}`, "
        f"{parameters(counts)} "
        f"({millions(counts['heads'], 2)} in output heads), "
        f"at most {settings.max_length} tokens; texts are read as "
        f"{describe_pooling(settings.pooling)}. Made with Brodmann."
    )


def _table(model: "MultiTaskModel", facts: CardFacts) -> str:
    splits = list(facts.splits) or ["validation"]
    sized = ["training examples"] if facts.sizes else []
    titles = ["task", "kind", "labels", "input", *sized, "metric", *map(_plain, splits)]
    lines = [f"| {' | '.join(titles)} |", "|" + "---|" * len(titles)]
    for name, spec in model.specs.items():
        labels = ", ".join(spec.labels) if spec.labels else NOTHING
        count = [f"{facts.sizes[name]:,}" if name in facts.sizes else NOTHING] if sized else []
        shown = [_score(facts.splits.get(split, {}).get(name, {}), spec) for split in splits]
        cells = [name, spec.kind, labels, expected_input(spec), *count, spec.metric]
        lines.append(f"| {' | '.join([*map(_plain, cells), *shown])} |")
    generated = [name for name, spec in model.specs.items() if spec.generated]
    if any("interval" in entry for split in facts.splits.values() for entry in split.values()):
        lines += ["", "Scores are in percent, with 95 % intervals over examples."]
    if generated:
        lines += [
            "",
            f"Trained on **generated** text ({_plain(', '.join(generated))}): its scores say "
            "nothing about real text.",
        ]
    return "\n".join(lines)


def _score(entry: Mapping[str, Any], spec: TaskSpec) -> str:
    score = percent(entry.get("scores", {}).get(spec.metric))
    return with_interval(score, entry.get("interval"))


def _loading(model: "MultiTaskModel", facts: CardFacts) -> str:
    first = next(iter(model.specs.values()))
    opening = ["import brodmann as bm", "", "model = bm.MultiTaskModel.from_pretrained"]
    if facts.packaged:  # needs no torch
        opening = ["import brodmann.runtime", "", "model = brodmann.runtime.load"]
    return "\n".join(
        [
            "```python",
            *opening[:-1],
            f'{opening[-1]}("{_code(facts.place)}")',
            f'model.predict("{first.name}", [...])  # each {_code(expected_input(first))}',
            "model.predict_all([...])  # every task that reads such an input",
            "```",
        ]
    )


def _head_map(facts: CardFacts) -> str:
    if not facts.picture:
        return ""
    told = ""
    if facts.dissociation is not None:
        told = (
            f" Mean dissociation D = {dissociation(facts.dissociation)} %: how much more a task "
            "suffers from losing its own most important heads than from losing another task's."
        )
    return (
        f"## Attention heads\n\n![importance of every head for every task]({facts.picture})\n\n"
        f"How much each task depends on each attention head.{told}"
    )


def _use_and_limits(model: "MultiTaskModel", facts: CardFacts) -> str:
    settings = model.settings
    languages = languages_of(model.specs.values())
    spoken = f" Languages: {', '.join(languages)}." if languages else ""
    base = _code(public_name(settings.backbone))
    licence = f"`{_code(facts.licence)}`" if facts.licence else "not stated by the author"
    return (
        "## Intended use\n\n"
        "The model answers the tasks in the table for texts like those it was trained on."
        f"{spoken} Its answers are predictions; check them before they decide anything about "
        "people.\n\n"
        "## Limits\n\n"
        "- It was trained and scored on the data of the table alone. On other text, scores may "
        "be lower; measure them there.\n"
        f"- It reads at most {settings.max_length} tokens at a time: longer texts are cut, and "
        "long contexts of questions are read in windows.\n"
        "- It knows no other labels than those in the table. Its probabilities are calibrated, and "
        "it can refuse texts unlike those it was trained on, only if `rules.npz` is beside it.\n"
        f"- What `{base}` learnt from its own data, biases included, is still there. It was not "
        "tested for fairness.\n"
        f"- Licence: {licence}. The terms of the base model and of the data apply as well."
    )


def public_name(backbone: str) -> str:
    """The backbone's name without the folders of this machine that lead to it."""
    return Path(backbone).name if is_path(backbone) and ":" not in backbone else backbone


def _plain(text: str) -> str:
    """Escape text from data for a Markdown table: no HTML, link, code or further column."""
    one_line = " ".join(visible(text).split())
    return re.sub(r"([\\`\[\]|])", r"\\\1", html.escape(one_line, quote=False))


def _code(text: str) -> str:
    """Escape text from data for backticks or a code block, which it must not end."""
    return " ".join(visible(text).split()).replace("`", "'")
