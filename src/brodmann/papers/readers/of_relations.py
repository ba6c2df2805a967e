"""Readers of task relations: relevance, influence, attention maps."""

from typing import Any

import numpy as np

from brodmann.papers.readers.common import percent
from brodmann.papers.recipes import Numbers


def relevance_words(found: dict[str, Any]) -> Numbers:
    return _relevance(found["words"])


def relevance_pairs(found: dict[str, Any]) -> Numbers:
    return _relevance(found["pairs"])


def influence(found: dict[str, Any]) -> Numbers:
    """Influence of every other task on the first one, and of the first one on them."""
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
    """One row per source, one column per target."""
    names = found["tasks"]
    return {
        source: {target: percent(found["matrix"][i][j]) for j, target in enumerate(names)}
        for i, source in enumerate(names)
    }


def _attention(pair: dict[str, Any]) -> Numbers:
    """One row per task, one column per layer: mean cosine of its maps, alone and together.

    Row names include the pair's average gain: even the most helpful pair may not help.
    """
    maps, gain = pair["maps"], f"{100 * pair['gain']:+.1f} %"
    return {
        f"{task} (with {' and '.join(other for other in maps if other != task)}, {gain})": {
            f"layer {layer}": float(np.mean(heads)) for layer, heads in enumerate(matrix)
        }
        for task, matrix in maps.items()
    }
