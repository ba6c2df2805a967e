"""What each example contributes to its task's metric, so that any resample is scored at once.

Every metric here but Spearman's is a function of sums over examples: right answers, the counts of
an F1, the cells of a confusion matrix, moments. `outcomes` writes down one row of addends an
example; `resampled_scores` adds them up under weights (how often an example was drawn) and applies
the formula. With all weights 1 that is the metric itself.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from brodmann.data.kinds.choice import choice_score, right_choices
from brodmann.data.kinds.span import span_score
from brodmann.data.metrics import entities
from brodmann.data.tasks import Example, TaskSpec
from brodmann.files import Array


def outcomes(
    predictions: Sequence[dict[str, Any]], examples: Sequence[Example], spec: TaskSpec
) -> Array:
    """(example, addend) for the task's primary metric.

    Where examples come in sets, a row is a set: what belongs together is drawn together.
    """
    addends = np.asarray(_ADDENDS[spec.kind](predictions, examples, spec), dtype=np.float64)
    if "set" not in spec.columns:
        return addends
    if spec.metric == "accuracy":  # sets differ in size: right answers, and how many were asked
        addends = np.column_stack([addends, np.ones(len(addends))])
    names, place = np.unique([str(example["set"]) for example in examples], return_inverse=True)
    if spec.metric == "exact_match":
        whole = np.ones((len(names), 1))
        np.minimum.at(whole, place, addends)
        return whole
    totals = np.zeros((len(names), addends.shape[1]))
    np.add.at(totals, place, addends)
    return totals


def resampled_scores(values: Array, weights: Array, spec: TaskSpec) -> Array:
    """The primary metric under each row of `weights` (resample, example)."""
    if spec.metric == "spearman":
        return _spearman(values, weights)
    totals = weights @ values  # (resample, addend)
    formula = _FORMULAS[spec.metric]
    if spec.metric == "f1" and spec.kind in ("span", "choice"):
        formula = _mean
    if spec.metric == "macro_f1" and spec.kind == "tokens":
        formula = _macro_f1_of_those_present
    return formula(totals, weights.sum(axis=1))


def _classification(
    predictions: Sequence[dict[str, Any]], examples: Sequence[Example], spec: TaskSpec
) -> Array:
    place = {name: index for index, name in enumerate(spec.label_list)}
    guess = np.array([place[prediction["label"]] for prediction in predictions])
    truth = np.array([example["label"] for example in examples])
    classes = len(spec.label_list)
    if spec.metric in ("accuracy", "exact_match"):
        return np.asarray(guess == truth)[:, None]
    if spec.metric == "matthews":
        cells = np.zeros((len(truth), classes * classes))
        cells[np.arange(len(truth)), truth * classes + guess] = 1
        return cells
    labels = [1] if spec.metric == "f1" and classes == 2 else range(classes)
    return _counts([[truth == label, guess == label] for label in labels])


def _counts(columns: Sequence[Sequence[Array]]) -> Array:
    """Right, found and there of every (truth, guess) pair of columns, side by side."""
    return np.stack([c for truth, guess in columns for c in (truth & guess, guess, truth)], axis=1)


def _multilabel(
    predictions: Sequence[dict[str, Any]], examples: Sequence[Example], spec: TaskSpec
) -> Array:
    guess = np.array([[name in p["labels"] for name in spec.label_list] for p in predictions])
    truth = np.array([example["label"] for example in examples]).astype(bool)
    if spec.metric == "exact_match":
        return np.asarray((guess == truth).all(axis=1))[:, None]
    counts = _counts(list(zip(truth.T, guess.T, strict=True))).astype(float)
    if spec.metric == "micro_f1":
        return np.asarray(counts.reshape(len(truth), -1, 3).sum(axis=1))
    return counts


def _choice(
    predictions: Sequence[dict[str, Any]], examples: Sequence[Example], spec: TaskSpec
) -> Array:
    pairs = zip(predictions, examples, strict=True)
    if spec.metric == "accuracy":
        return np.array([[p["choice"] in right_choices(e)] for p, e in pairs])
    return np.array([[getattr(choice_score(p, e), spec.metric)] for p, e in pairs])


def _regression(
    predictions: Sequence[dict[str, Any]], examples: Sequence[Example], spec: TaskSpec
) -> Array:
    truth = np.array([example["label"] for example in examples], float)
    guess = np.array([prediction["value"] for prediction in predictions], float)
    if spec.metric == "spearman":
        return np.stack([truth, guess], axis=1)
    if spec.metric == "mean_squared_error":
        return np.asarray((truth - guess) ** 2)[:, None]
    if spec.metric == "r2":
        centred = truth - truth.mean()
        return np.stack([(truth - guess) ** 2, centred, centred**2], axis=1)
    x, y = truth - truth.mean(), guess - guess.mean()  # centred, so that no digits are lost
    return np.stack([x, y, x * x, y * y, x * y], axis=1)


def _span(
    predictions: Sequence[dict[str, Any]], examples: Sequence[Example], spec: TaskSpec
) -> Array:
    rows = [
        span_score(prediction, example, spec)
        for example, prediction in zip(examples, predictions, strict=True)
    ]
    return np.array([[getattr(row, spec.metric)] for row in rows])


def _tokens(
    predictions: Sequence[dict[str, Any]], examples: Sequence[Example], spec: TaskSpec
) -> Array:
    gold = [[spec.label_list[tag] for tag in example["tags"]] for example in examples]
    rows = zip(gold, (prediction["tags"] for prediction in predictions), strict=True)
    if spec.metric == "accuracy":
        return np.array(
            [[sum(a == b for a, b in zip(*row, strict=True)), len(row[0])] for row in rows]
        )
    if spec.metric == "macro_f1":
        place = {name: index for index, name in enumerate(spec.label_list)}
        counts = np.zeros((len(gold), len(place), 3))
        for index, row in enumerate(rows):
            for truth, guess in zip(*row, strict=True):
                counts[index, place[truth], 0] += truth == guess
                counts[index, place[guess], 1] += 1
                counts[index, place[truth], 2] += 1
        return counts.reshape(len(gold), -1)
    found = [(set(entities(truth)), set(entities(guess))) for truth, guess in rows]
    return np.array([[len(t & g), len(g), len(t)] for t, g in found])


_ADDENDS: dict[str, Callable[..., Array]] = {
    "classification": _classification,
    "multilabel": _multilabel,
    "choice": _choice,
    "regression": _regression,
    "span": _span,
    "tokens": _tokens,
}


def _divided(above: Array, below: Array) -> Array:
    """A metric with nothing to measure is 0, as everywhere else."""
    zeros = np.zeros_like(above, dtype=float)
    return np.asarray(np.divide(above, below, out=zeros, where=below > 0))


def _mean(totals: Array, drawn: Array) -> Array:
    """One addend an example, or right answers and how many were asked."""
    return _divided(totals[:, 0], totals[:, 1] if totals.shape[1] == 2 else drawn)


def _f1_each(totals: Array) -> Array:
    right, found, there = (totals[:, place::3] for place in range(3))
    return _divided(2 * right, found + there)


def _f1(totals: Array, drawn: Array) -> Array:
    return np.asarray(_f1_each(totals).mean(axis=1))


def _macro_f1_of_those_present(totals: Array, drawn: Array) -> Array:
    present = (totals[:, 1::3] + totals[:, 2::3]) > 0
    return _divided(_f1_each(totals).sum(axis=1), present.sum(axis=1).astype(float))


def _matthews(totals: Array, drawn: Array) -> Array:
    classes = int(totals.shape[1] ** 0.5)
    cells = totals.reshape(len(totals), classes, classes)
    truth, guess, right = cells.sum(axis=2), cells.sum(axis=1), np.einsum("rcc->r", cells)
    count = truth.sum(axis=1)  # examples, also where whole sets were drawn
    above = right * count - (truth * guess).sum(axis=1)
    spread = (count**2 - (truth**2).sum(axis=1)) * (count**2 - (guess**2).sum(axis=1))
    return _divided(above, np.sqrt(np.maximum(spread, 0)))


def _pearson(totals: Array, drawn: Array) -> Array:
    x, y, xx, yy, xy = (totals / drawn[:, None]).T
    spread = np.maximum(xx - x * x, 0) * np.maximum(yy - y * y, 0)
    return _divided(xy - x * y, np.sqrt(spread))


def _r2(totals: Array, drawn: Array) -> Array:
    error, mean, square = (totals / drawn[:, None]).T
    spread = square - mean**2
    return np.where(spread > 0, 1 - _divided(error, spread), 0.0)


_FORMULAS: dict[str, Callable[[Array, Array], Array]] = {
    "accuracy": _mean,
    "exact_match": _mean,
    "mean_squared_error": _mean,
    "f1": _f1,
    "macro_f1": _f1,
    "micro_f1": _f1,
    "entity_f1": _f1,
    "entity_precision": lambda totals, drawn: _divided(totals[:, 0], totals[:, 1]),
    "entity_recall": lambda totals, drawn: _divided(totals[:, 0], totals[:, 2]),
    "matthews": _matthews,
    "pearson": _pearson,
    "r2": _r2,
}


def _spearman(values: Array, weights: Array) -> Array:
    """Ranks change with every draw: each resample is ranked anew."""
    from scipy.stats import rankdata

    scores = np.zeros(len(weights))
    for number, row in enumerate(weights):
        drawn = np.repeat(values, row.astype(int), axis=0)
        if np.ptp(drawn[:, 0]) > 0 and np.ptp(drawn[:, 1]) > 0:
            x, y = (rankdata(column) for column in drawn.T)
            scores[number] = np.corrcoef(x, y)[0, 1]
    return scores
