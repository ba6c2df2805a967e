r"""How usual a text is among those that a task was trained on.

A text is represented by the mean $h$ of the encoder's middle layer over its tokens: training turns
the last one towards the labels, so that strange texts look like usual ones there. Its strangeness
is how much further it is from the training texts $t$ of the task than from texts $o$ of the model's
other tasks,

$$s(h) = \cos_{(k)}(h, o) - \cos_{(k)}(h, t), \qquad k = 10,$$

where $\cos_{(k)}$ is the $k$-th largest cosine. Among the other tasks' texts, only those count that
are unlike the task's own: tasks may share their kind of text, and what is usual for both says
nothing against either. Without such texts, $s(h) = 1 - \cos_{(k)}(h, t)$.

The `in_domain` of a text is the share of validation texts that are at least as strange (a conformal
p-value, see `conformal.py`): refusing texts below 0.05 refuses one in twenty of the task's own.
docs/answers.md compares this score with other distances and layers.

Reference: Sun et al. 2022, "Out-of-Distribution Detection with Deep Nearest Neighbors".
Departures: the paper reads the layer before the classifier, and knows no other tasks.
"""

from dataclasses import dataclass

import numpy as np

from brodmann.data.answering.conformal import p_values, thinned
from brodmann.files import Array

NEIGHBOURS = 10
UNLIKE = 0.05  # texts of other tasks count if at most this share of the own ones is as strange


@dataclass
class Domain:
    """The texts of one task, as vectors, and how strange its held-out texts are among them."""

    texts: Array  # (text, width) of length 1
    others: Array  # (text, width) of length 1: of other tasks, unlike the own ones; may be empty
    held_out: Array  # strangeness of held-out texts, in rising order

    def scores(self, states: Array) -> Array:
        """The strangeness of texts."""
        return _strangeness(self.texts, self.others, states)

    def p_values(self, states: Array) -> Array:
        """How usual texts are, between 0 and 1."""
        return p_values(self.held_out, self.scores(states))


def fit_domain(train: Array, others: Array, held_out: Array) -> Domain:
    """`others` are the states of other tasks' training texts, if there are any."""
    texts = _unit(train).astype(np.float16)
    unlike = _unit(others).astype(np.float16)[_are_unlike(texts, others)]
    if len(unlike) < NEIGHBOURS:
        unlike = unlike[:0]
    return Domain(texts, unlike, thinned(_strangeness(texts, unlike, held_out)))


def _are_unlike(texts: Array, others: Array) -> Array:
    """Which of the other tasks' texts are stranger than nearly all of the own ones."""
    itself = 1  # every own text is its own nearest
    own = 1 - _near(texts, texts.astype(np.float32), NEIGHBOURS + itself)
    return p_values(np.sort(own), 1 - _near(texts, others)) < UNLIKE


def _strangeness(texts: Array, others: Array, states: Array) -> Array:
    against = _near(others, states) if len(others) else np.float32(1)
    return np.asarray(against - _near(texts, states))


def _near(texts: Array, states: Array, neighbours: int = NEIGHBOURS) -> Array:
    """The cosine to the k-th nearest text."""
    cosines = _unit(states) @ texts.astype(np.float32).T
    place = min(neighbours, len(texts)) - 1
    return np.asarray(-np.partition(-cosines, place, axis=1)[:, place])


def _unit(states: Array) -> Array:
    length = np.linalg.norm(states, axis=1, keepdims=True)
    return np.asarray(states / np.maximum(length, 1e-12), np.float32)
