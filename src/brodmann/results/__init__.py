"""Results of the measurements: arrays with names, saved as JSON, shown in notebooks."""

from brodmann.results.frames import need_pandas
from brodmann.results.of_attention import AttentionMaps
from brodmann.results.of_dissociation import Dissociation, mean_dissociation
from brodmann.results.of_importance import (
    PARTS,
    USUAL_ALPHA,
    Head,
    HeadScores,
    Normalization,
    share_of,
)
from brodmann.results.of_mistakes import Mistakes

__all__ = [
    "PARTS",
    "USUAL_ALPHA",
    "AttentionMaps",
    "Dissociation",
    "Head",
    "HeadScores",
    "Mistakes",
    "Normalization",
    "mean_dissociation",
    "need_pandas",
    "share_of",
]
