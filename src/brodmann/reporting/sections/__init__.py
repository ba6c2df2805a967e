"""The chapters of a report in their order: one file each, `section(study)` or nothing to say.

A run that lacks a measurement lacks its section. To add one: write a file here, name it below.
"""

from collections.abc import Callable

from brodmann.reporting.blocks import Section
from brodmann.reporting.record import Study
from brodmann.reporting.sections import (
    answer,
    atlas,
    attention,
    comparison,
    conditioning,
    covsim,
    data,
    dissociation,
    gates,
    languages,
    meta,
    new_tasks,
    relevance,
    sampling,
    sweep,
    training,
    transfer,
)

SECTIONS: tuple[Callable[[Study], Section | None], ...] = (
    answer.section,
    atlas.section,
    gates.section,
    conditioning.section,
    dissociation.section,
    languages.section,
    comparison.section,
    relevance.section,
    attention.section,
    covsim.section,
    sweep.section,
    transfer.section,
    meta.section,
    new_tasks.section,
    training.section,
    sampling.section,
    data.section,
)


def sections(study: Study) -> list[Section]:
    return [found for make in SECTIONS if (found := make(study)) is not None]
