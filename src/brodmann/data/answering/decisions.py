"""Decisions: what every kind of answer consists of, a choice among several possibilities.

A class or choice is one decision per text, a span two per window (its ends), tags are one per word,
several labels one per label (yes or no). Probabilities and their calibration are about decisions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from brodmann.files import Array

USUAL: Mapping[str, float] = MappingProxyType({})  # no threshold differs from the usual one
TRIED_SHARES = [round(0.05 * step, 2) for step in range(1, 20)]
TRIED_MARGINS = [sign * size for size in (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0) for sign in (-1, 1)]


@dataclass
class Decisions:
    """Choices among several answers, with the right one; fewer answers are filled with -inf."""

    logits: Array  # (decision, answer)
    right: Array  # (decision,) index of the right answer
    example: Array  # (decision,)

    def of(self, examples: Array) -> "Decisions":
        """The decisions of some examples, given as one boolean per example."""
        chosen = examples[self.example]
        return Decisions(self.logits[chosen], self.right[chosen], self.example[chosen])


def filled(outputs: Sequence[Array]) -> Array:
    """Rows of different lengths as one array, filled with -inf."""
    found = np.full((len(outputs), max(map(len, outputs), default=0)), -np.inf, np.float32)
    for row, values in zip(found, outputs, strict=True):
        row[: len(values)] = values
    return found


def softmax(logits: Array) -> Array:
    """Probabilities over the last axis."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))
