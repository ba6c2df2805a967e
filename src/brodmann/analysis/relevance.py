r"""Task relevance: how much one task (the source) has to do with another (the target).

From the data alone, by common words, with $V$ the set of lower-cased words of the training texts:

$$r_{cs} = |V_s \cap V_t| / |V_s| \quad (1) \qquad r_{ct} = |V_s \cap V_t| / |V_t| \quad (2)$$

By training pairs together, with $f_t$ the target's score alone and $f_{jt}$ beside the source:

$$r_{ms} = (f_{js} - f_s) / f_s \quad (3) \qquad r_{mt} = (f_{jt} - f_t) / f_t \quad (4)$$

Rows are sources, columns are targets; matrices hold eq. 2 and eq. 4. All are asymmetric: a large
dataset covers a small one's words.

Reference: Fei et al. 2022, "Coarse-to-Fine: Hierarchical Multi-task Learning for Natural Language
Understanding" (HMNet), §3.2, Tables 2 and 3.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from brodmann.errors import InputError
from brodmann.files import Array

WORD = re.compile(r"\w+", re.UNICODE)

Splitter = Callable[[str], Iterable[str]]


def words(text: str) -> list[str]:
    return WORD.findall(text.lower())


def vocabulary(texts: Iterable[str], split: Splitter = words) -> set[str]:
    """The words of the texts, read one text at a time; `split` may return word pieces instead."""
    found: set[str] = set()
    for text in texts:
        found.update(split(text))
    return found


def vocabulary_relevance(
    source_texts: Iterable[str], target_texts: Iterable[str]
) -> tuple[float, float]:
    """The two shares of common words, (eq. 1, eq. 2).

    >>> vocabulary_relevance(["the cat sat"], ["The cat."])
    (0.6666666666666666, 1.0)
    """
    source, target = vocabulary(source_texts), vocabulary(target_texts)
    if not source or not target:
        raise InputError("relevance: a task's texts have no words")
    common = len(source & target)
    return common / len(source), common / len(target)


def vocabulary_matrix(vocabularies: Sequence[set[str]]) -> Array:
    """Eq. 2 for every pair: the share of the target's words that the source also has."""
    if any(not one for one in vocabularies):
        raise InputError("relevance: a task's texts have no words")
    return np.array([[len(s & t) / len(t) for t in vocabularies] for s in vocabularies])


def group_matrix(groups: Sequence[str | None]) -> Array:
    """Declared relevance: 1 if two tasks name the same group (or are the same task), else 0."""

    def together(i: int, j: int) -> float:
        return float(i == j or (groups[i] is not None and groups[i] == groups[j]))

    places = range(len(groups))
    return np.array([[together(i, j) for j in places] for i in places])


def improvement_matrix(
    tasks: Sequence[str],
    single: Mapping[str, float],
    joint: Mapping[frozenset[str], Mapping[str, float]],
) -> Array:
    """Eq. 4 for every pair, 0 on the diagonal. `joint` holds both scores of each pair.

    A target that scores 0 or less alone allows no ratio: its column is nan.
    """
    count = len(tasks)
    matrix = np.zeros((count, count))
    for i, source in enumerate(tasks):
        for j, target in enumerate(tasks):
            pair = frozenset((source, target))
            if i != j and pair not in joint:
                raise InputError(f"relevance: no joint run of '{source}' and '{target}'")
            alone = single[target]
            if not alone > 0:
                matrix[i, j] = np.nan
            elif i != j:
                matrix[i, j] = (joint[pair][target] - alone) / alone
    return matrix


def asymmetry(matrix: Array) -> Array:
    """r(s, t) - r(t, s): positive if the source matters more to the target than the reverse."""
    square = np.asarray(matrix, dtype=float)
    return np.asarray(square - square.T)


def most_unequal(matrix: Array, tasks: Sequence[str], most: int = 5) -> list[tuple[str, str]]:
    """(source, target) of the pairs whose two directions differ most, larger direction first."""
    gaps = asymmetry(matrix)
    ordered = np.argsort(-np.nan_to_num(gaps, nan=-np.inf), axis=None, kind="stable")
    places = [divmod(int(place), len(tasks)) for place in ordered[:most]]
    return [(tasks[i], tasks[j]) for i, j in places if gaps[i, j] > 0]
