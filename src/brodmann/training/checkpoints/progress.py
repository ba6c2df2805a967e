"""The position of a run."""

from dataclasses import dataclass, field
from typing import TypedDict

from brodmann.files import Document


class Scored(TypedDict):
    """One evaluation: its step, and every score of every task."""

    step: int
    mean: float
    scores: dict[str, dict[str, float]]


@dataclass
class Progress:
    """The position of a run: stored in every checkpoint, returned at the end."""

    step: int = 0
    evaluated_at: int = -1
    best_step: int = -1
    best_score: float | None = None
    without_gain: int = 0  # evaluations since the best one
    seconds: float = 0.0  # of training steps, over all sessions
    examples: dict[str, int] = field(default_factory=dict)  # items trained on, by task
    evaluations: list[Scored] = field(default_factory=list)
    window: dict[str, list[float]] = field(default_factory=dict)  # losses since the last log line
    taken: dict[str, int] = field(default_factory=dict)  # items since the last log line, by task
    methods: Document = field(default_factory=dict)  # the states of methods that have begun
