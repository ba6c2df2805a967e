r"""`dse`: how similarly two models represent the same sentences, by the mean cosine.

$$\mathrm{DSE}(a, b) = \frac{1}{n} \sum_k \cos(x_k^a, x_k^b)$$

where $x_k^a$ is sentence $k$ in the model of task $a$: the mean of its last layer over real tokens.

Reference: Li et al. 2023, "Interpreting and Exploiting Functional Specialization in Multi-Head
Attention under Multi-task Learning", appendix D; after Dwivedi & Roig 2019, "Representation
Similarity Analysis for Efficient Task Taxonomy & Transfer Learning".
"""

import numpy as np

from brodmann.errors import InputError
from brodmann.files import Array


def dse(a: Array, b: Array) -> float:
    """DSE of two models' representations of the same sentences, (sentence, size) each."""
    first, second = checked_pair(a, b, "dse")
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    if not (norms > 0).all():
        raise InputError("dse: a sentence is represented by zeros")
    return float(np.mean((first * second).sum(axis=1) / norms))


def checked_pair(a: Array, b: Array, what: str) -> tuple[Array, Array]:
    first, second = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if first.shape != second.shape or first.ndim != 2 or len(first) < 2:
        raise InputError(
            f"{what}: expected two equal shapes (sentence, size) of at least two sentences, found "
            f"{first.shape} and {second.shape}"
        )
    return first, second
