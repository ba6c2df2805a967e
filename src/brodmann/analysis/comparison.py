r"""Runs side by side: scores over seeds, differences with their significance, tasks improved.

An *arm* is a way of training, with one run a seed. Its score for a task is the mean over its seeds.
The difference of two arms is tested by the paired bootstrap over validation examples: both arms are
scored on the same resample, over and over, and

$$p = \frac{1}{R} \sum_{r=1}^{R} [\, d^{(r)} \ge 2 d \,], \qquad d > 0,$$

where $d$ is the observed difference (for $d < 0$ the signs are turned).

Reference: Berg-Kirkpatrick et al. 2012, "An Empirical Investigation of Statistical Significance in
NLP"; Dror et al. 2018, "The Hitchhiker's Guide to Testing Statistical Significance in NLP".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from brodmann.analysis.statistics import (
    bootstrap_weights,
    mean_and_spread,
    percentile_interval,
    weights_in_pieces,
)
from brodmann.artifacts import Array
from brodmann.data.outcomes import resampled_scores
from brodmann.data.tasks import TaskSpec
from brodmann.errors import InputError
from brodmann.results import LOWER_IS_BETTER

SIGNIFICANT = 0.05
RESAMPLES = 10_000
FEWEST_SEEDS, ENOUGH_SEEDS = 5, 10


def paired_bootstrap(
    a: Sequence[float], b: Sequence[float], resamples: int = RESAMPLES, seed: int = 0
) -> float:
    """p of the difference of two means over the same items (examples, or seeds)."""
    first, second = np.asarray(a, float), np.asarray(b, float)
    if first.shape != second.shape or first.ndim != 1 or not len(first):
        raise InputError(f"expected two lists of equal length, found {first.shape}, {second.shape}")
    weights = bootstrap_weights(len(first), resamples, seed)
    differences = weights @ (first - second) / len(first)
    return bootstrap_p_value(float((first - second).mean()), differences)


def bootstrap_p_value(observed: float, drawn: Array) -> float:
    """Share of the drawn differences at least twice the observed one; 1 where there is none."""
    if observed == 0:
        return 1.0
    return float(np.mean(np.sign(observed) * np.asarray(drawn) >= 2 * abs(observed)))


def over_seeds(
    rows: Sequence[Mapping[str, Any]], starts: Sequence[str], amounts: Sequence[str]
) -> dict[str, Any]:
    """Few-shot scores by amount and start: mean, spread, and a test against the first start.

    Seeds are the items of the paired bootstrap: every start learnt from the same draws. It is
    liberal with few of them (of two equal starts, about 15 % get p < 0.05 with 10 seeds, 12 % with
    30), so below 10 there is a p but no verdict, below 5 not even a p.
    """
    table: dict[str, Any] = {}
    for amount in amounts:
        scores = {
            start: {
                r["seed"]: r["score"] for r in rows if (r["start"], r["amount"]) == (start, amount)
            }
            for start in starts
        }
        entry: dict[str, Any] = {}
        for start in starts:
            values = [scores[start][seed] for seed in sorted(scores[start])]
            entry[start] = {"scores": values, "mean": mean_and_spread(values)}
            both = sorted(set(scores[start]) & set(scores[starts[0]]))
            if start != starts[0] and len(both) >= FEWEST_SEEDS:
                a, b = ([scores[s][seed] for seed in both] for s in (start, starts[0]))
                p = paired_bootstrap(a, b)
                entry[start] |= {"p": p}
                if len(both) >= ENOUGH_SEEDS:
                    entry[start] |= {"significant": p < SIGNIFICANT}
        table[amount] = entry
    return table


@dataclass
class Run:
    """What one trained run shows: outcomes of every task's validation examples, and its D."""

    name: str
    seed: int
    specs: dict[str, TaskSpec]
    outcomes: dict[str, Array]
    dissociation: float | None = None

    def score(self, task: str, weights: Array | None = None) -> Array:
        """(resample,) of the primary metric; one number with every example once."""
        values = self.outcomes[task]
        weights = np.ones((1, len(values))) if weights is None else weights
        return resampled_scores(values, weights, self.specs[task])


def compare(
    arms: Mapping[str, Sequence[Run]],
    *,
    baseline: str,
    resamples: int = 2000,
    seed: int = 0,
) -> dict[str, Any]:
    """Scores of every arm and task, and every arm against the baseline, as plain numbers.

    Compared are the tasks that all runs were judged on; `left_out` names the others.
    """
    if baseline not in arms:
        raise InputError(f"no arm '{baseline}' to compare with: there are {', '.join(arms)}")
    names = _common(arms, list(arms[baseline][0].specs))
    _check(arms, names)
    means: dict[str, dict[str, Array]] = {arm: {} for arm in arms}
    for place, task in enumerate(names):
        for arm, scores in _resampled(arms, task, resamples, seed + place).items():
            means[arm][task] = scores
    specs = arms[baseline][0].specs
    errors = {task for task in names if specs[task].metric in LOWER_IS_BETTER}
    # An error does not add up with scores: the average is over the other tasks, if there are some.
    averaged = [task for task in names if task not in errors] or names
    table = {arm: _scores(runs, names, averaged) for arm, runs in arms.items()}
    every = dict.fromkeys(task for runs in arms.values() for run in runs for task in run.specs)
    return {
        "tasks": names,
        "left_out": [task for task in every if task not in names],
        "metrics": [arms[baseline][0].specs[task].metric for task in names],
        "baseline": baseline,
        "resamples": resamples,
        "arms": {
            arm: {
                **table[arm],
                "against": None
                if arm == baseline
                else _against(
                    table[arm],
                    table[baseline],
                    means[arm],
                    means[baseline],
                    names,
                    averaged,
                    errors,
                ),
            }
            for arm in arms
        },
    }


def _resampled(
    arms: Mapping[str, Sequence[Run]], task: str, resamples: int, seed: int
) -> dict[str, Array]:
    """(resample,) of every arm's mean over seeds; all arms see the same draws, piece by piece."""
    examples = len(next(iter(arms.values()))[0].outcomes[task])
    pieces: dict[str, list[Array]] = {arm: [] for arm in arms}
    for weights in weights_in_pieces(examples, resamples, seed):
        for arm, runs in arms.items():
            pieces[arm].append(np.mean([run.score(task, weights) for run in runs], axis=0))
    return {arm: np.concatenate(parts) for arm, parts in pieces.items()}


def _common(arms: Mapping[str, Sequence[Run]], names: Sequence[str]) -> list[str]:
    """The baseline's tasks that every run was judged on."""
    for arm, runs in arms.items():
        if not runs:
            raise InputError(f"arm '{arm}' has no run")
        for run in runs:
            if not (left := [task for task in names if task in run.specs]):
                raise InputError(
                    f"{run.name}: was judged on {', '.join(run.specs)}, the others on "
                    f"{', '.join(names)}: no task is common to all"
                )
            names = left
    return list(names)


def _check(arms: Mapping[str, Sequence[Run]], names: Sequence[str]) -> None:
    for runs in arms.values():
        for run in runs:
            for task in names:
                first = next(iter(arms.values()))[0]
                if len(run.outcomes[task]) != len(first.outcomes[task]):
                    raise InputError(f"{run.name}: task '{task}' was judged on other examples")
                if run.specs[task].metric != first.specs[task].metric:
                    raise InputError(f"{run.name}: task '{task}' was judged by another metric")


def _scores(runs: Sequence[Run], names: Sequence[str], averaged: Sequence[str]) -> dict[str, Any]:
    places = [names.index(task) for task in averaged]
    by_seed = np.array([[float(run.score(task)[0]) for task in names] for run in runs])
    found = [run.dissociation for run in runs if run.dissociation is not None]
    return {
        "seeds": [run.seed for run in runs],
        "runs": [run.name for run in runs],
        "scores": {task: by_seed[:, place].tolist() for place, task in enumerate(names)},
        "per_task": {task: mean_and_spread(by_seed[:, i]) for i, task in enumerate(names)},
        "average": mean_and_spread(by_seed[:, places].mean(axis=1)),
        # How unevenly the tasks fare: the spread of scores over tasks (Pilault et al. 2021).
        "task_sigma": mean_and_spread(by_seed[:, places].std(axis=1, ddof=1))
        if len(places) > 1
        else None,
        "dissociation": mean_and_spread(found) if found else None,
    }


def _against(
    arm: dict[str, Any],
    baseline: dict[str, Any],
    drawn: Mapping[str, Array],
    drawn_baseline: Mapping[str, Array],
    names: Sequence[str],
    averaged: Sequence[str],
    errors: set[str],
) -> dict[str, Any]:
    """Differences to the baseline; the average over tasks resamples every task's examples."""
    per_task = {}
    for task in names:
        observed = arm["per_task"][task][0] - baseline["per_task"][task][0]
        per_task[task] = _tested(observed, drawn[task] - drawn_baseline[task])
    together = np.mean([drawn[task] - drawn_baseline[task] for task in averaged], axis=0)
    observed = arm["average"][0] - baseline["average"][0]
    differences = [
        -entry["difference"] if task in errors else entry["difference"]
        for task, entry in per_task.items()
    ]
    return {
        "per_task": per_task,
        "average": _tested(observed, together),
        "improved": sum(difference > 0 for difference in differences),
        "at_least_as_good": sum(difference >= 0 for difference in differences),
        "worse": sum(difference < 0 for difference in differences),
    }


def _tested(observed: float, drawn: Array) -> dict[str, Any]:
    p = bootstrap_p_value(observed, drawn)
    return {
        "difference": float(observed),
        "interval": list(percentile_interval(drawn)),
        "p": p,
        "significant": p < SIGNIFICANT,
    }
