r"""The training loss of an answer that ignores the text: a task whose loss stays near it has learnt
nothing yet.

With shares $p_c$ of the training labels (times their class weights $w_c$), the best constant answer
is the distribution $q_c \propto w_c p_c$, and its loss is $-\sum_c w_c p_c \log q_c$: the entropy
of the labels if classes are not weighted. For several labels it is the mean over the labels, each
a yes or no; a number in standard units has the loss 1; among n choices it is $\log n$. Spans
have none: how well a position can be guessed depends on the windows a text is cut into.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from brodmann.data.answers import right_choices
from brodmann.data.tasks import Task
from brodmann.files import Array


def guessing_loss(task: Task) -> float | None:
    """The mean loss of the best constant answer on the training examples."""
    train, kind = task.splits["train"], task.spec.kind
    if kind == "classification":
        return _cross_entropy([example["label"] for example in train], task)
    if kind == "tokens":
        return _cross_entropy([tag for example in train for tag in example["tags"]], task)
    if kind == "multilabel":
        share = np.mean([example["label"] for example in train], axis=0)
        return float(np.mean([_entropy(np.array([p, 1 - p])) for p in share]))
    if kind == "choice":
        each = [max(len(right_choices(e)), 1) / len(e["choices"]) for e in train]
        return float(-np.mean(np.log(each)))
    return 1.0 if kind == "regression" else None


def _cross_entropy(labels: Sequence[int], task: Task) -> float:
    counts = Counter(labels)
    shares = np.array([counts[place] for place in range(len(task.spec.label_list))], float)
    shares /= shares.sum()
    if task.spec.class_weights is None:
        return _entropy(shares)
    weighted = shares * np.array(task.spec.class_weights)
    return float(weighted.sum() * _entropy(weighted / weighted.sum()))


def _entropy(shares: Array) -> float:
    present = shares[shares > 0]
    return float(-(present * np.log(present)).sum())
