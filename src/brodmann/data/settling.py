"""Settle a task's specification: what comes from its description, and what from its data."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from brodmann.data import catalogue
from brodmann.data.description import TaskDescription
from brodmann.data.resolving import Request
from brodmann.data.sources.dataset_shapes import MAKES
from brodmann.data.sources.finding import is_files
from brodmann.data.sources.table import Table
from brodmann.data.sources.table_rows import Split
from brodmann.data.tag_schemes import loose_beginnings
from brodmann.data.tasks import Example, TaskSpec
from brodmann.errors import InputError, did_you_mean


def begin_spec(request: Request, tables: Mapping[str, Table]) -> TaskSpec:
    """The specification as far as the description and the tables' columns determine it."""
    description, kind = request.description, request.kind
    made = MAKES.get(description.shape or "", ())
    columns = {
        # A column that is not named is looked for under the name of its role.
        role: getattr(description, role) or role
        for role in (*kind.REQUIRED, *kind.OPTIONAL)
        if getattr(description, role) is not None or role in kind.REQUIRED or role in made
    }
    labels = description.labels or _stated_labels(tables, columns)
    return TaskSpec(
        name=request.name,
        kind=str(description.kind),
        columns=columns,
        labels=None if labels is None else tuple(labels),
        weight=description.weight,
        group=description.group,
        language=description.language,
        head=description.head or "",
        source=_source(description),
        named=request.asked or description.use or "",
        shape=description.shape or "",
        generated=description.use is not None and catalogue.is_generated(description.use),
        separator=description.separator,
        answer_rules=description.answer_rules or "",
        tag_scheme=description.tag_scheme or "",
    )


def settle(
    spec: TaskSpec, splits: Mapping[str, Split], request: Request, notes: list[str]
) -> TaskSpec:
    """The specification completed from the examples: labels, values, metrics."""
    description, kind = request.description, request.kind
    spec = kind.settle(spec, {split: part.examples for split, part in splits.items()})
    primary = description.metric or (description.metrics or [kind.primary(spec)])[0]
    shown = (primary, *(m for m in description.metrics or [] if m != primary))
    spec = replace(spec, metric=primary, metrics=shown)
    if spec.scheme == "words" and any(metric.startswith("entity_") for metric in shown):
        raise InputError(
            f"{request.where}: metric = '{shown[0]}': entities need tags such as B-PER and I-PER, "
            f"found {', '.join(spec.label_list[:4])}"
        )
    if spec.scheme == "words" and all(label.isdecimal() for label in spec.label_list):
        notes.append(f"{spec.name}: tags are numbers without names: set 'labels' to score entities")
    return spec


def number_labels(
    splits: Mapping[str, Split], spec: TaskSpec, request: Request, notes: list[str]
) -> dict[str, list[Example]]:
    """The examples with their labels as the numbers that a loss expects."""
    numbered: dict[str, list[Example]] = {}
    for split, part in splits.items():
        numbered[split] = []
        for index, example in enumerate(part.examples):
            try:
                numbered[split].append(request.kind.target(example, spec))
            except InputError as error:
                raise InputError(f"{part.where(index)}: task '{spec.name}': {error}") from None
    if spec.scheme == "entities":
        notes += _loose_tags(spec, numbered)
    return numbered


def weigh_classes(spec: TaskSpec, train: Sequence[Example], request: Request) -> TaskSpec:
    """The specification with class weights, whose mean over the training examples is 1."""
    given = request.description.class_weights
    if given is None:
        return spec
    if isinstance(given, dict):
        unknown = next((name for name in given if name not in spec.label_list), None)
        if unknown is not None:
            hint = did_you_mean(unknown, spec.label_list)
            raise InputError(f"{request.where}: class_weights: unknown label '{unknown}'{hint}")
    key = "tags" if spec.kind == "tokens" else "label"
    indices = np.concatenate([np.atleast_1d(example[key]) for example in train])
    counts = np.bincount(indices, minlength=len(spec.label_list))
    if isinstance(given, dict):
        weights = np.array([given.get(name, 1.0) for name in spec.label_list])
    else:
        weights = 1.0 / np.maximum(counts, 1)
    weights = weights / ((weights * counts).sum() / counts.sum())
    return replace(spec, class_weights=tuple(float(weight) for weight in weights))


def _source(description: TaskDescription) -> str:
    if description.hub:
        return f"hub:{description.hub}" + (
            f"/{description.hub_config}" if description.hub_config else ""
        )
    for key in ("data", "train"):
        given = getattr(description, key)
        if isinstance(given, str | Path):
            return str(given)
        if is_files(given):
            return ", ".join(str(path) for path in given)
    return description.use or "memory"


def _stated_labels(tables: Mapping[str, Table], columns: Mapping[str, Any]) -> list[str] | None:
    column = columns.get("label") or columns.get("tags")
    return next((t.label_names[column] for t in tables.values() if column in t.label_names), None)


def _loose_tags(spec: TaskSpec, splits: Mapping[str, Sequence[Example]]) -> list[str]:
    """Note tags that are not quite BIO; they are scored as conlleval does."""
    loose = sum(
        loose_beginnings([spec.label_list[tag] for tag in example["tags"]])
        for examples in splits.values()
        for example in examples
    )
    if not loose:
        return []
    return [f'{spec.name}: {loose:,} entities begin with I-: tag_scheme = "iob1" converts them']
