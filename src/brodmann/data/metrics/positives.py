r"""F1 from counts.

$$F_1 = \frac{2 t}{p + a}$$

where $t$ are the true positives of a label, $p$ its predicted and $a$ its actual positives. These
are three columns per label, in this order.
"""

from collections.abc import Iterable

import numpy as np

from brodmann.data.metrics import divided
from brodmann.files import Array


def positives(columns: Iterable[tuple[Array, Array]]) -> Array:
    """The three columns of every label, from its truth and guess, which are booleans."""
    return np.stack([c for truth, guess in columns for c in (truth & guess, guess, truth)], axis=1)


def per_label(totals: Array) -> tuple[Array, Array, Array]:
    """True, predicted and actual positives, each (resample, label)."""
    triples = totals.reshape(len(totals), -1, 3)
    return triples[..., 0], triples[..., 1], triples[..., 2]


def f1_per_label(totals: Array) -> Array:
    true, predicted, actual = per_label(totals)
    return divided(2 * true, predicted + actual)


def mean_f1(totals: Array) -> Array:
    return np.asarray(f1_per_label(totals).mean(axis=1))


def mean_f1_of_present(totals: Array) -> Array:
    """The mean over the labels that occur in truth or guess."""
    _, predicted, actual = per_label(totals)
    rows = zip(f1_per_label(totals), predicted + actual > 0, strict=True)
    return np.array([scores[occurs].mean() if occurs.any() else 0.0 for scores, occurs in rows])
