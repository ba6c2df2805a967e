"""The chapters of a report in their order: one file each, with `section(study)`.

A run without a measurement has no such section. To add one, write a file here and list it below.
"""

from collections.abc import Callable

from brodmann.reporting.blocks import Section
from brodmann.reporting.record import Study
from brodmann.reporting.sections import (
    answer,
    atlas,
    compression,
    conditioning,
    languages,
    new_tasks,
    one_text,
    pruning,
    reliability,
    sampling,
    sweep,
    wrong_answers,
)
from brodmann.reporting.sections import (
    arms_compared as comparison,
)
from brodmann.reporting.sections import (
    attention_cosines as attention,
)
from brodmann.reporting.sections import (
    covariance as covsim,
)
from brodmann.reporting.sections import (
    dissociation_matrix as dissociation,
)
from brodmann.reporting.sections import (
    few_shot_curves as transfer,
)
from brodmann.reporting.sections import (
    gate_values as gates,
)
from brodmann.reporting.sections import (
    related_tasks as relevance,
)
from brodmann.reporting.sections import (
    task_data as data,
)
from brodmann.reporting.sections import (
    training_curves as training,
)
from brodmann.reporting.sections import (
    unseen_pairs as meta,
)

SECTIONS: tuple[Callable[[Study], Section | None], ...] = (
    answer.section,
    reliability.section,
    atlas.section,
    wrong_answers.section,
    one_text.section,
    pruning.section,
    compression.section,
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
