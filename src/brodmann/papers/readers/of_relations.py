"""Readers of how tasks relate: relevance, influence, attention maps."""

from typing import Any

import numpy as np

from brodmann.papers.readers.common import percent
from brodmann.papers.recipes import Numbers


def relevance_words(found: dict[str, Any]) -> Numbers:
    return _relevance(found["words"])


def relevance_pairs(found: dict[str, Any]) -> Numbers:
    return _relevance(found["pairs"])


def influence(found: dict[str, Any]) -> Numbers:
    """Of the first task: what each other does to it, and it to them."""
    names, matrix = found["pairs"]["tasks"], found["pairs"]["matrix"]
    return {
        f"others on {names[0]}": {n: percent(matrix[i][0]) for i, n in enumerate(names) if i},
        f"{names[0]} on others": {n: percent(matrix[0][i]) for i, n in enumerate(names) if i},
    }


def attention_of_helpful(found: dict[str, Any]) -> Numbers:
    return _attention(found["attention"]["helpful"])


def attention_of_harmful(found: dict[str, Any]) -> Numbers:
    return _attention(found["attention"]["harmful"])


def _relevance(found: dict[str, Any]) -> Numbers:
    """A row a source, a column a target."""
    names = found["tasks"]
    return {
        source: {target: percent(found["matrix"][i][j]) for j, target in enumerate(names)}
        for i, source in enumerate(names)
    }


def _attention(pair: dict[str, Any]) -> Numbers:
    """A row a task, a column a layer: the mean cosine of its maps, alone and together. With what
    the pair gains on average: the most helpful one need not help."""
    maps, gain = pair["maps"], f"{100 * pair['gain']:+.1f} %"
    return {
        f"{task} (with {' and '.join(other for other in maps if other != task)}, {gain})": {
            f"layer {layer}": float(np.mean(heads)) for layer, heads in enumerate(matrix)
        }
        for task, matrix in maps.items()
    }
