r"""Thresholds: how sure a model has to be to give a label, an entity, or an answer at all.

A kind of task says what it decides by a threshold and which values to try (`threshold_grids`); the
first value is its usual decision. The values chosen are those with the best score by the task's own
metric on held-out examples, for several labels one label after the other until none changes. Of
equally good values the one nearest to the usual one wins.

The score of thresholds on the examples that chose them is too good. So the examples are divided
into five parts; thresholds chosen on four are scored on the fifth, and the five parts together give
the score that is reported. Thresholds are used only if that score is better than the usual
decision's.

Reference: Lipton et al. 2014, "Optimal Thresholding of Classifiers to Maximize F1 Measure" (why one
half is rarely best).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from brodmann.data.encoding import Encoded
from brodmann.data.kinds import KINDS, metric_of, outcomes
from brodmann.data.metrics import of_label_sets
from brodmann.data.tasks import Example, TaskSpec
from brodmann.files import Array

PARTS = 5
FEWEST = 20  # examples; with fewer, nothing is chosen
ROUNDS = 3  # over all labels

Choose = Callable[[Array], dict[str, float]]  # one boolean per example → thresholds


@dataclass
class Chosen:
    """Thresholds with their score on examples that did not choose them."""

    thresholds: dict[str, float] = field(default_factory=dict)
    usual: float | None = None  # score of the usual decisions
    score: float | None = None  # score of the chosen ones, by cross-fitting


def fit_thresholds(
    outputs: Sequence[Array], encoded: Encoded, examples: Sequence[Example], spec: TaskSpec
) -> Chosen:
    """Choose thresholds for a task; without any if it has none or they do not help."""
    grids = KINDS[spec.kind].threshold_grids(spec)
    if not grids or len(examples) < FEWEST:
        return Chosen()
    metric = metric_of(spec)

    def judged(thresholds: Mapping[str, float]) -> Array:
        found = KINDS[spec.kind].predict(outputs, encoded, examples, spec, thresholds)
        return outcomes(found, examples, spec)

    choose = _one_threshold(grids, judged, spec)
    if len(grids) > 1:
        choose = _one_per_label(grids, outputs, examples, spec)
    usual = judged({})
    honest = usual.copy()
    part = parts_of(len(examples))
    for number in range(PARTS):
        honest[part == number] = judged(choose(part != number))[part == number]
    score, before = metric.whole(honest), metric.whole(usual)
    everything = np.ones(len(examples), bool)
    kept = choose(everything) if score > before else {}
    return Chosen(kept, before, score if kept else before)


def parts_of(count: int) -> Array:
    """The part of each example in a division into five of equal size, always the same."""
    order = np.random.default_rng(0).permutation(count)
    part = np.empty(count, int)
    part[order] = np.arange(count) % PARTS
    return part


def _one_threshold(
    grids: Mapping[str, Sequence[float]],
    judged: Callable[[Mapping[str, float]], Array],
    spec: TaskSpec,
) -> Choose:
    """Choose the value of a single threshold; every value is tried once, for all parts."""
    (name, values), *_ = grids.items()
    tried: list[Array] = []

    def choose(rows: Array) -> dict[str, float]:
        if not tried:
            tried.extend(judged({name: value}) for value in values)
        metric = metric_of(spec)
        scores = [float(metric.resampled(found, rows[None].astype(float))[0]) for found in tried]
        return {name: values[_best(scores, values)]}

    return choose


def _one_per_label(
    grids: Mapping[str, Sequence[float]],
    outputs: Sequence[Array],
    examples: Sequence[Example],
    spec: TaskSpec,
) -> Choose:
    """Choose one value per label, in turns, by the score of all labels together."""
    shares = 0.5 * (1 + np.tanh(0.5 * np.asarray(outputs)))
    truth = np.array([example["label"] for example in examples]).astype(bool)
    addends, metric = of_label_sets.FROM_MATRICES[spec.metric], metric_of(spec)

    def choose(rows: Array) -> dict[str, float]:
        some, right = shares[rows], truth[rows]
        once = np.ones((1, len(some)))
        chosen = {name: values[0] for name, values in grids.items()}
        guess = some >= np.array(list(chosen.values()))
        for _ in range(ROUNDS):
            before = dict(chosen)
            for place, (name, values) in enumerate(grids.items()):
                scores = []
                for value in values:
                    guess[:, place] = some[:, place] >= value
                    found = addends(right, guess).astype(float)
                    scores.append(float(metric.resampled(found, once)[0]))
                chosen[name] = values[_best(scores, values)]
                guess[:, place] = some[:, place] >= chosen[name]
            if chosen == before:
                break
        return chosen

    return choose


def _best(scores: Sequence[float], values: Sequence[float]) -> int:
    """The highest score; of equal ones, the value nearest to the usual one."""
    return min(range(len(values)), key=lambda i: (-scores[i], abs(values[i] - values[0])))
