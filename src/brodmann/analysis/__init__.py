"""Measurements as pure functions on plain arrays; a model is loaded only if needed."""

from brodmann.analysis.ahp import ahp
from brodmann.analysis.clusters import cluster_tasks, suggested_clusters
from brodmann.analysis.cnm import cnm
from brodmann.analysis.comparison import paired_bootstrap
from brodmann.analysis.covsim import covsim
from brodmann.analysis.cra import cra
from brodmann.analysis.difficulty import difficulty
from brodmann.analysis.dissociation import dissociation_scores, finding, verdict
from brodmann.analysis.dse import dse
from brodmann.analysis.link import linked
from brodmann.analysis.relevance import vocabulary_relevance
from brodmann.analysis.statistics import paired_permutation, paired_t

__all__ = [
    "ahp",
    "cluster_tasks",
    "cnm",
    "covsim",
    "cra",
    "difficulty",
    "dissociation_scores",
    "dse",
    "finding",
    "linked",
    "paired_bootstrap",
    "paired_permutation",
    "paired_t",
    "suggested_clusters",
    "verdict",
    "vocabulary_relevance",
]
