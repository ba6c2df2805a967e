"""Scores as fractions, from scikit-learn and scipy; entities as seqeval.

Higher is better for every metric but `mean_squared_error`. A correlation or F1 with nothing to
measure (constant predictions, no entity on either side) is 0: nothing was shown.
"""

import warnings
from collections.abc import Hashable, Sequence

import numpy as np


def accuracy(gold: Sequence[int], predicted: Sequence[int]) -> dict[str, float]:
    return {"accuracy": float(np.mean(np.asarray(gold) == np.asarray(predicted)))}


def classification_scores(
    gold: Sequence[int], predicted: Sequence[int], classes: int
) -> dict[str, float]:
    """`f1` is that of the second label for two classes, the macro mean for more."""
    from sklearn.metrics import f1_score, matthews_corrcoef

    labels = list(range(classes))
    varied = len(set(gold)) > 1 and len(set(predicted)) > 1
    macro = float(f1_score(gold, predicted, labels=labels, average="macro", zero_division=0))
    if classes == 2:
        f1 = float(f1_score(gold, predicted, labels=[1], average="macro", zero_division=0))
    else:
        f1 = macro
    return {
        **accuracy(gold, predicted),
        "f1": f1,
        "macro_f1": macro,
        "matthews": float(matthews_corrcoef(gold, predicted)) if varied else 0.0,
    }


def set_exact_match(
    sets: Sequence[Hashable], gold: Sequence[int], predicted: Sequence[int]
) -> dict[str, float]:
    """Share of the sets (MultiRC: questions) in which every example is right."""
    whole: dict[Hashable, bool] = {}
    for name, truth, guess in zip(sets, gold, predicted, strict=True):
        whole[name] = whole.get(name, True) and truth == guess
    return {"exact_match": float(np.mean(list(whole.values())))}


def multilabel_scores(
    gold: Sequence[Sequence[int]], predicted: Sequence[Sequence[int]]
) -> dict[str, float]:
    from sklearn.metrics import f1_score

    truth, guess = np.asarray(gold), np.asarray(predicted)
    return {
        "micro_f1": float(f1_score(truth, guess, average="micro", zero_division=0)),
        "macro_f1": float(f1_score(truth, guess, average="macro", zero_division=0)),
        "exact_match": float((truth == guess).all(axis=1).mean()),
    }


def regression_scores(gold: Sequence[float], predicted: Sequence[float]) -> dict[str, float]:
    from scipy.stats import pearsonr, spearmanr

    truth, guess = np.asarray(gold, float), np.asarray(predicted, float)
    error = float(np.mean((truth - guess) ** 2))
    spread = float(truth.var())
    correlations = {"spearman": 0.0, "pearson": 0.0}
    if np.ptp(truth) > 0 and np.ptp(guess) > 0:
        with warnings.catch_warnings():
            # Predictions equal but for rounding: scipy warns, and the value it gives is discarded.
            warnings.simplefilter("ignore")
            correlations["spearman"] = float(spearmanr(truth, guess).statistic)
            correlations["pearson"] = float(pearsonr(truth, guess).statistic)
        correlations = {k: v if np.isfinite(v) else 0.0 for k, v in correlations.items()}
    r2 = 1 - error / spread if spread > 0 else 0.0
    return {**correlations, "r2": r2, "mean_squared_error": error}


def tagging_scores(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], *, entity_scheme: bool
) -> dict[str, float]:
    from sklearn.metrics import f1_score

    truth = [tag for tags in gold for tag in tags]
    guess = [tag for tags in predicted for tag in tags]
    scores = {
        "accuracy": float(np.mean([a == b for a, b in zip(truth, guess, strict=True)])),
        "macro_f1": float(f1_score(truth, guess, average="macro", zero_division=0)),
    }
    if entity_scheme:
        right = found = there = 0
        for tags, guesses in zip(gold, predicted, strict=True):
            true_entities, guessed = set(entities(tags)), set(entities(guesses))
            right += len(true_entities & guessed)
            found += len(guessed)
            there += len(true_entities)
        precision, recall = right / found if found else 0.0, right / there if there else 0.0
        f1 = 2 * precision * recall / (precision + recall) if right else 0.0
        scores |= {"entity_f1": f1, "entity_precision": precision, "entity_recall": recall}
    return scores


def entities(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """(label, first word, last word) of every entity, read as conlleval and seqeval do.

    An `I-X` after `O` or after another label begins an entity of its own.
    """
    found: list[tuple[str, int, int]] = []
    start, current = 0, ""
    for place, tag in enumerate([*tags, "O"]):
        prefix, label = ("O", "") if tag == "O" else (tag[0], tag[2:])
        if current and (prefix != "I" or label != current):
            found.append((current, start, place - 1))
            current = ""
        if prefix != "O" and not current:
            start, current = place, label
    return found
