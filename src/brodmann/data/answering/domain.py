r"""How usual a text is among those that a task was trained on.

A text is represented by the mean $h$ of the encoder's middle layer over its tokens: training turns
the last one towards the labels, so that strange texts look like usual ones there. Its strangeness
is the distance to the training texts $t_1 … t_n$ of the task,

$$s(h) = 1 - \cos_{(k)}(h, t), \qquad k = 10,$$

one minus the $k$-th largest cosine. The `in_domain` of a text is the share of validation texts that
are at least as strange (a conformal p-value, see `conformal.py`): refusing texts below 0.05 refuses
one in twenty of the task's own texts.

docs/answers.md compares it with other distances and layers.

Reference: Sun et al. 2022, "Out-of-Distribution Detection with Deep Nearest Neighbors".
Departures: the paper reads the layer before the classifier.
"""

from dataclasses import dataclass

import numpy as np

from brodmann.data.answering.conformal import p_values, thinned
from brodmann.files import Array

NEIGHBOURS = 10


@dataclass
class Domain:
    """The texts of one task, as vectors, and how strange its held-out texts are among them."""

    texts: Array  # (text, width) of length 1
    held_out: Array  # strangeness of held-out texts, in rising order

    def scores(self, states: Array) -> Array:
        """The strangeness of texts."""
        return _strangeness(self.texts, states)

    def p_values(self, states: Array) -> Array:
        """How usual texts are, between 0 and 1."""
        return p_values(self.held_out, self.scores(states))


def fit_domain(train: Array, held_out: Array) -> Domain:
    texts = _unit(train).astype(np.float16)
    return Domain(texts, thinned(_strangeness(texts, held_out)))


def _strangeness(texts: Array, states: Array) -> Array:
    near = _unit(states) @ texts.astype(np.float32).T
    place = min(NEIGHBOURS, len(texts)) - 1
    return np.asarray(1 + np.partition(-near, place, axis=1)[:, place])


def _unit(states: Array) -> Array:
    length = np.linalg.norm(states, axis=1, keepdims=True)
    return np.asarray(states / np.maximum(length, 1e-12), np.float32)
