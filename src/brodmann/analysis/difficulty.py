r"""Estimate how hard a classification is from its texts alone, before any model is trained.

$$\mathrm{difficulty} = \underbrace{-\sum_c p_c \log p_c}_{\text{classes}}
  + \underbrace{\sum_c |p_c - 1/C|}_{\text{imbalance}}
  + \underbrace{\max_{c \ne c'} \Big(1 - H(q_c, q_{c'})\Big)}_{\text{word overlap}}
  + \underbrace{\frac{\text{distinct words}}{\text{words}}}_{\text{variety}}$$

where $p_c$ is the share of class $c$ among $C$, $q_c$ the distribution of words in its texts and
$H$ the Hellinger distance. Higher is harder: more classes, less balanced ones, classes with the
same words, and words that rarely recur.

Reference: Collins et al. 2018, "Evolutionary Data Measures: Understanding the Difficulty of Text
Classification Tasks", whose best measures add up statistics of these four families. Departure: they
search over 48 statistics by evolution; here one statistic of each family is used unchanged.
"""

import random
import re
from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from brodmann.data.tasks import Task
from brodmann.errors import InputError

ENOUGH = 10_000  # examples
WORD = re.compile(r"\w+", re.UNICODE)


def difficulty(texts: Sequence[str], labels: Sequence[str | int]) -> dict[str, float]:
    """The four parts and their sum.

    >>> parts = difficulty(["good film", "bad film"], ["yes", "no"])
    >>> round(parts["classes"], 3), round(parts["imbalance"], 3), round(parts["variety"], 3)
    (0.693, 0.0, 0.75)
    """
    if isinstance(texts, str) or isinstance(labels, str):
        raise InputError("difficulty: expected lists of texts and labels, found one text")
    if len(texts) != len(labels) or not len(texts):
        raise InputError(f"difficulty: {len(texts)} texts and {len(labels)} labels")
    for text, label in zip(texts, labels, strict=True):
        if not isinstance(text, str):
            raise InputError(f"difficulty: expected texts, found {text!r:.60}")
        if isinstance(label, list | dict | set):
            raise InputError(f"difficulty: expected one label per text, found {label!r:.60}")
    sizes = Counter(labels)
    if len(sizes) < 2:
        raise InputError("difficulty: expected at least two classes")
    shares = np.array(list(sizes.values())) / len(labels)
    by_class: dict[str | int, Counter[str]] = {label: Counter() for label in sizes}
    for text, label in zip(texts, labels, strict=True):
        by_class[label].update(WORD.findall(text.lower()))
    everything = sum(by_class.values(), Counter[str]())
    total = sum(everything.values())
    parts = {
        "classes": float(-(shares * np.log(shares)).sum()),
        "imbalance": float(np.abs(shares - 1 / len(shares)).sum()),
        "overlap": max(
            1 - hellinger(one, other) for one, other in combinations(by_class.values(), 2)
        ),
        "variety": len(everything) / total if total else 0.0,
    }
    return {**parts, "difficulty": sum(parts.values())}


def task_difficulty(task: Task) -> float | None:
    """Difficulty of a classification's training data (a sample if they are many), else None."""
    if task.spec.kind != "classification":
        return None
    examples = task.splits["train"]
    if len(examples) > ENOUGH:
        examples = random.Random(0).sample(examples, ENOUGH)
    texts = [f"{one['text']} {one.get('text_pair', '')}" for one in examples]
    labels = [str(one["label"]) for one in examples]
    return difficulty(texts, labels)["difficulty"] if len(set(labels)) > 1 else None


def hellinger(one: Counter[str], other: Counter[str]) -> float:
    """Distance of two word distributions: 0 if equal, 1 if they share no word."""
    n, m = sum(one.values()), sum(other.values())
    if not n or not m:
        return 1.0
    common = sum(np.sqrt(count / n * other[word] / m) for word, count in one.items())
    return float(np.sqrt(max(0.0, 1 - common)))
