"""Measurements as pure functions on plain arrays; what needs a model loads it when called."""

from brodmann.analysis.comparison import paired_bootstrap
from brodmann.analysis.covsim import covsim
from brodmann.analysis.difficulty import difficulty
from brodmann.analysis.dissociation import dissociation_scores, verdict

__all__ = ["covsim", "difficulty", "dissociation_scores", "paired_bootstrap", "verdict"]
