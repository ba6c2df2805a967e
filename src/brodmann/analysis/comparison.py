r"""Compare runs: scores over seeds, paired differences with intervals and tests.

An *arm* is a way of training, with one run per seed. Its score for a task is the mean over its
seeds. The gain of an arm over the baseline is a paired difference, tested in two ways:

- over seeds: the differences of runs with the same seed, with Student's interval and t-test. It
  says whether other seeds would reverse the result, and decides if three seeds are common;
- over validation examples: the percentile interval of the bootstrap, both arms scored on the same
  resample, and a permutation test that exchanges the two arms' answers to an example at random. It
  says whether other examples would reverse the result of these models, and decides otherwise.

Both tests are two-sided and reject a true null hypothesis as often as their level says
(`benchmarks/significance.py`). The paired bootstrap of the papers,

$$p = \frac{1}{R} \sum_{r=1}^{R} [\, d^{(r)} \ge 2 d \,], \qquad d > 0,$$

where $d$ is the observed difference (for $d < 0$ the signs are reversed), is one-sided and rejects
too often over few seeds. It is kept, under its own name, for the papers' tables.

References: Berg-Kirkpatrick et al. 2012, "An Empirical Investigation of Statistical Significance in
NLP" and Dror et al. 2018, "The Hitchhiker's Guide to Testing Statistical Significance in Natural
Language Processing" (the paired bootstrap); Noreen 1989, "Computer-Intensive Methods for Testing
Hypotheses" (exchanging the answers of two systems).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from brodmann.analysis.statistics import (
    FEWEST_SEEDS,
    SIGNIFICANT,
    bootstrap_weights,
    difference_over_seeds,
    exchanges_in_pieces,
    mean_and_spread,
    never_empty,
    percentile_interval,
    permutation_p_value,
    unseen_share,
    weights_in_pieces,
)
from brodmann.data.kinds import lower_is_better, resampled_scores
from brodmann.data.tasks import TaskSpec
from brodmann.errors import InputError
from brodmann.files import Array

RESAMPLES = 10_000
ENOUGH_FOR_BOOTSTRAP = 5  # seeds: with fewer, the papers' test says nothing at all
OVER_EXAMPLES = "two-sided permutation test over validation examples"


def paired_bootstrap(
    a: Sequence[float], b: Sequence[float], resamples: int = RESAMPLES, seed: int = 0
) -> float:
    """The papers' one-sided p of the difference of two means over the same items.

    For their tables only: over 10 seeds it calls 16 % of equal arms different at the 5 % level. Use
    `paired_t` over seeds and `paired_permutation` over examples.
    """
    first, second = np.asarray(a, float), np.asarray(b, float)
    if first.shape != second.shape or first.ndim != 1 or not len(first):
        raise InputError(f"expected two lists of equal length, found {first.shape}, {second.shape}")
    weights = bootstrap_weights(len(first), resamples, seed)
    differences = weights @ (first - second) / len(first)
    return bootstrap_p_value(float((first - second).mean()), differences)


def bootstrap_p_value(observed: float, drawn: Array) -> float:
    """Share of the drawn differences at least twice the observed one; 1 if there is none."""
    if observed == 0:
        return 1.0
    return float(np.mean(np.sign(observed) * np.asarray(drawn) >= 2 * abs(observed)))


def over_seeds(
    rows: Sequence[Mapping[str, Any]], starts: Sequence[str], amounts: Sequence[str]
) -> dict[str, Any]:
    """Few-shot scores by amount and start: mean, spread, and the difference to the first start.

    Every start learnt from the same draws, so differences are paired by seed: Student's interval,
    and its two-sided p from three seeds on. `paired_bootstrap_p` is the papers' own test.
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
            if start == starts[0] or not both:
                continue
            a, b = ([scores[s][seed] for seed in both] for s in (start, starts[0]))
            entry[start]["against"] = _judged(difference_over_seeds(a, b))
            if len(both) >= ENOUGH_FOR_BOOTSTRAP:
                entry[start]["paired_bootstrap_p"] = paired_bootstrap(a, b)
        table[amount] = entry
    return table


def _judged(found: dict[str, Any]) -> dict[str, Any]:
    return {**found, "significant": found["p"] is not None and found["p"] < SIGNIFICANT}


@dataclass
class Run:
    """Results of one trained run: outcomes of every task's validation examples, and its D.

    `undefined` says why a measured D has no value; without it, None means not measured.
    """

    name: str
    seed: int
    specs: dict[str, TaskSpec]
    outcomes: dict[str, Array]
    dissociation: float | None = None
    undefined: str = ""

    def score(self, task: str, weights: Array | None = None) -> Array:
        """(resample,) values of the primary metric; without weights, one number over all."""
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

    Only tasks that all runs were evaluated on are compared; `left_out` names the others.
    """
    if baseline not in arms:
        raise InputError(f"no arm '{baseline}' to compare with: expected one of {', '.join(arms)}")
    names = _common(arms, list(arms[baseline][0].specs))
    _check(arms, names)
    means: dict[str, dict[str, Array]] = {arm: {} for arm in arms}
    for place, task in enumerate(names):
        for arm, scores in _resampled(arms, task, resamples, seed + place).items():
            means[arm][task] = scores
    specs = arms[baseline][0].specs
    errors = {task for task in names if lower_is_better(specs[task].metric)}
    # An error cannot be averaged with scores: average over the other tasks, if there are any.
    averaged = [task for task in names if task not in errors] or names
    found: dict[str, Any] = {}
    for arm, runs in arms.items():
        found[arm] = {**_scores(runs, names, averaged), "against": None}
        if arm != baseline:
            examples = {task: means[arm][task] - means[baseline][task] for task in names}
            found[arm]["against"] = _Against(
                runs, arms[baseline], names, averaged, errors, examples, seed
            ).found()
    every = dict.fromkeys(task for runs in arms.values() for run in runs for task in run.specs)
    return {
        "tasks": names,
        "left_out": [task for task in every if task not in names],
        "metrics": [arms[baseline][0].specs[task].metric for task in names],
        "baseline": baseline,
        "resamples": resamples,
        "arms": found,
    }


def _resampled(
    arms: Mapping[str, Sequence[Run]], task: str, resamples: int, seed: int
) -> dict[str, Array]:
    """(resample,) mean over seeds of every arm; all arms see the same draws, piece by piece."""
    examples = len(next(iter(arms.values()))[0].outcomes[task])
    pieces: dict[str, list[Array]] = {arm: [] for arm in arms}
    for weights in weights_in_pieces(examples, resamples, seed):
        for arm, runs in arms.items():
            pieces[arm].append(np.mean([run.score(task, weights) for run in runs], axis=0))
    return {arm: np.concatenate(parts) for arm, parts in pieces.items()}


def _common(arms: Mapping[str, Sequence[Run]], names: Sequence[str]) -> list[str]:
    """The baseline's tasks that every run was evaluated on."""
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
        # How unevenly tasks are served: the spread of scores over tasks (Pilault et al. 2021).
        "task_sigma": mean_and_spread(by_seed[:, places].std(axis=1, ddof=1))
        if len(places) > 1
        else None,
        "dissociation": mean_and_spread(found) if found else None,
        # The number of runs with a D among those where it was measured, and why others have none.
        "dissociation_over": [len(found), sum(_has_measured(run) for run in runs)],
        "undefined": {run.name: run.undefined for run in runs if run.undefined},
    }


def _has_measured(run: Run) -> bool:
    return run.dissociation is not None or bool(run.undefined)


class _Against:
    """One arm against the baseline: every task, the average over tasks, and D."""

    def __init__(
        self,
        arm: Sequence[Run],
        baseline: Sequence[Run],
        names: Sequence[str],
        averaged: Sequence[str],
        errors: set[str],
        examples: Mapping[str, Array],
        seed: int,
    ) -> None:
        self.arm, self.baseline = arm, baseline
        self.names, self.averaged, self.errors = names, averaged, errors
        self.examples, self.seed = examples, seed  # (resample,) differences of each task
        self.pairs = paired_runs(arm, baseline)
        same = all(one.seed == other.seed for one, other in self.pairs)
        self.by_seed = same and len(self.pairs) >= FEWEST_SEEDS

    def found(self) -> dict[str, Any]:
        permuted = {
            task: self._permuted(task, self.seed + place) for place, task in enumerate(self.names)
        }
        per_task = {task: self._entry([task], permuted) for task in self.names}
        differences = [
            -entry["difference"] if task in self.errors else entry["difference"]
            for task, entry in per_task.items()
        ]
        seeds = len(self.pairs)
        return {
            "test": f"two-sided t-test over {seeds} seeds" if self.by_seed else OVER_EXAMPLES,
            "per_task": per_task,
            "average": self._entry(self.averaged, permuted),
            "dissociation": self._dissociation(),
            "improved": sum(difference > 0 for difference in differences),
            "at_least_as_good": sum(difference >= 0 for difference in differences),
            "worse": sum(difference < 0 for difference in differences),
        }

    def _entry(self, tasks: Sequence[str], permuted: Mapping[str, Array]) -> dict[str, Any]:
        """Difference, interval and p by the deciding test; both tests under their own names."""
        reach = np.mean([unseen_share(len(self.arm[0].outcomes[task])) for task in tasks])
        drawn = np.mean([self.examples[task] for task in tasks], axis=0)
        one, other = (
            np.mean([[run.score(task)[0] for run in runs] for task in tasks], axis=0)
            for runs in zip(*self.pairs, strict=True)
        )
        p = permutation_p_value(
            float((one - other).mean()), np.mean([permuted[task] for task in tasks], axis=0)
        )
        over_examples = {
            "difference": _mean(self.arm, tasks) - _mean(self.baseline, tasks),
            "interval": never_empty(percentile_interval(drawn), float(reach)),
            "p": p,
        }
        over_seeds = difference_over_seeds(one.tolist(), other.tolist()) if self.by_seed else None
        decisive = over_examples if over_seeds is None else over_seeds
        kept = {key: decisive[key] for key in ("difference", "interval", "p")}
        return {**_judged(kept), "over_examples": over_examples, "over_seeds": over_seeds}

    def _permuted(self, task: str, seed: int) -> Array:
        """(resample,) differences with both arms' answers exchanged at random."""
        examples = len(self.arm[0].outcomes[task])
        spec = self.arm[0].specs[task]
        pieces = []
        for kept in exchanges_in_pieces(examples, len(self.examples[task]), seed):
            weights = np.concatenate([kept, 1 - kept], axis=1)
            differences = []
            for one, other in self.pairs:
                both = np.concatenate([one.outcomes[task], other.outcomes[task]])
                turned = np.concatenate([other.outcomes[task], one.outcomes[task]])
                differences.append(
                    resampled_scores(both, weights, spec) - resampled_scores(turned, weights, spec)
                )
            pieces.append(np.mean(differences, axis=0))
        return np.concatenate(pieces)

    def _dissociation(self) -> dict[str, Any] | None:
        """Difference in D, paired by seed, over the runs in which both have a D."""
        both = [
            (one.dissociation, other.dissociation)
            for one, other in self.pairs
            if one.dissociation is not None and other.dissociation is not None
        ]
        if not both or any(one.seed != other.seed for one, other in self.pairs):
            return None
        return _judged(difference_over_seeds([a for a, _ in both], [b for _, b in both]))


def _mean(runs: Sequence[Run], tasks: Sequence[str]) -> float:
    return float(np.mean([[run.score(task)[0] for task in tasks] for run in runs]))


def paired_runs(arm: Sequence[Run], baseline: Sequence[Run]) -> list[tuple[Run, Run]]:
    """Pairs of runs with the same seed; if no seed is common, in their order."""
    seeds = {run.seed: run for run in baseline}
    same = [(run, seeds[run.seed]) for run in arm if run.seed in seeds]
    return same or list(zip(arm, baseline, strict=False))
