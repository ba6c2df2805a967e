"""Try arrangements within the budget: Optuna proposes and prunes, the grid trains.

The baseline (a probe, each task alone) comes first. Every arrangement is then a trial of an Optuna
study whose steps are seeds; successive halving (ASHA) stops a trial whose mean gain over its tasks
is not among the best at its rung. First trials are fixed, in order of their usual value; further
ones are proposed by TPE. The study is replayed from finished cells in each session, because a trial
that was interrupted would count twice in the rungs; its journal can be opened with Optuna's tools.

Reference: Li et al. 2020, "A System for Massively Parallel Hyperparameter Tuning" (ASHA).
Departure: one worker, so that the order of trials, and with it every decision, is repeatable.
"""

import contextlib
import warnings
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from brodmann.advising.arrangements import (
    METHODS,
    RATES,
    Arrangement,
    CellKey,
    Group,
    Sharing,
    alone,
    cells_of_arrangement,
    with_alone,
)
from brodmann.advising.cell_runs import Bench
from brodmann.analysis.nested_gains import Gain, paired_gain, seed_differences, seed_spread
from brodmann.analysis.relevance import improvement_matrix
from brodmann.data.kinds import resampled_scores
from brodmann.errors import InputError, RunError
from brodmann.files import Array
from brodmann.pipeline.relate import described

JOURNAL = "optuna.journal"
FOR_ERRORS = 200  # resamples for a standard error
MOST_PROPOSALS, IDLE = 40, 8  # trials in all; proposals in a row that are already known
TOLERANCE = 0.01  # a task may lose this much, and one standard error, and still share
PARTITIONS = ("together", "groups", "kept", "pairs")
FOR_PAIRS = 0.6  # share of the budget up to which pairs of tasks are trained
FIRST = (  # (partition, method, rate) in the order in which they are tried
    ("together", "plain", 1.0),
    ("groups", "plain", 1.0),
    ("kept", "plain", 1.0),
    ("kept", "annealed sampling", 1.0),
    ("kept", "ca_mtl", 1.0),
    ("kept", "plain", 2.0),
    ("kept", "hmnet", 1.0),
    ("kept", "iat", 1.0),
    ("kept", "lora", 2.0),
    ("pairs", "plain", 1.0),
)


@dataclass
class Attempt:
    """One arrangement and how far it got."""

    arrangement: Arrangement
    partition: str
    seeds: int = 0
    value: float = float("-inf")  # mean gain over the tasks on the choosing part
    gains: dict[str, Gain] = field(default_factory=dict)
    state: str = "dropped"  # finished, dropped, failed or stopped
    reason: str = ""

    def document(self) -> dict[str, Any]:
        return {
            "arrangement": self.arrangement.label,
            "groups": [list(group) for group in self.arrangement.groups],
            "method": self.arrangement.method,
            "rate": self.arrangement.rate,
            "seeds": self.seeds,
            "gain": self.value if np.isfinite(self.value) else None,
            "gains": {task: gain.mean for task, gain in self.gains.items()},
            "errors": {task: gain.error for task, gain in self.gains.items()},
            "state": self.state,
            "reason": self.reason,
        }


def need_optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise InputError("advise needs Optuna: pip install 'brodmann[advise]'") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def score_of(values: Array, bench: Bench, task: str) -> float:
    return float(resampled_scores(values, np.ones((1, len(values))), bench.spec(task))[0])


def gains_of(bench: Bench, one: Arrangement, seeds: int) -> dict[str, Gain]:
    """Gain of every task over its own model on the choosing part."""
    outcomes: dict[str, tuple[list[Array], list[Array]]] = {}
    for seed in range(seeds):
        for cell in cells_of_arrangement(one, seed):
            for task in cell.group:
                shared, own = outcomes.setdefault(task, ([], []))
                shared.append(bench.choosing(cell, task))
                own.append(bench.choosing(CellKey((task,), seed=seed), task))
    spread = seed_spread(
        [seed_differences(a, b, bench.spec(task)) for task, (a, b) in outcomes.items()]
    )
    return {
        task: paired_gain(a, b, bench.spec(task), spread=spread, resamples=FOR_ERRORS)
        for task, (a, b) in outcomes.items()
    }


def clearly_loses(gain: Gain) -> bool:
    """Whether a task loses more than the tolerance, by more than one standard error."""
    return gain.mean + gain.error < -TOLERANCE


class Search:
    """The trials over the tasks that may share."""

    def __init__(self, bench: Bench, names: list[str], clusters: list[list[str]]) -> None:
        self.bench, self.names = bench, names
        own = [[name for name in group if name in names] for group in clusters]
        self.clusters = tuple(tuple(group) for group in own if group)
        self.attempts: list[Attempt] = []
        self.by_pairs: list[list[str]] | None = None  # groups by trained pairs, once tried
        self.sharing = Sharing({"alone": alone(names)})
        self.sharing.add("together", [names])
        if len(self.clusters) > 1:
            self.sharing.add("groups", self.clusters)

    def run(self, path: Path) -> list[Attempt]:
        """All trials that the budget affords, in a fixed order."""
        optuna = need_optuna()
        path.unlink(missing_ok=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Optuna calls parts of itself experimental
            storage = optuna.storages.JournalStorage(
                optuna.storages.journal.JournalFileBackend(str(path))
            )
            study = optuna.create_study(
                study_name="advise",
                storage=storage,
                direction="maximize",
                sampler=optuna.samplers.TPESampler(seed=self.bench.config.seed),
                pruner=optuna.pruners.SuccessiveHalvingPruner(
                    min_resource=1, reduction_factor=2, min_early_stopping_rate=0
                ),
            )
            for partition, method, rate in FIRST:
                study.enqueue_trial({"partition": partition, "method": method, "rate": rate})
            idle = 0
            for _ in range(MOST_PROPOSALS):
                trial = study.ask()
                attempt, new = self._proposed(trial)
                going_on = not new or self._try(attempt, trial, optuna)
                self._tell(study, trial, attempt, optuna)
                if not going_on:
                    break
                idle = 0 if new else idle + 1
                if idle >= IDLE:
                    break
        return self.attempts

    def _proposed(self, trial: Any) -> tuple[Attempt, bool]:
        """The attempt that a trial asks for, and whether it is a new one."""
        partition = trial.suggest_categorical("partition", PARTITIONS)
        method = trial.suggest_categorical("method", tuple(METHODS))
        rate = trial.suggest_categorical("rate", RATES)
        arrangement = Arrangement(self._groups(partition), method, rate, self.clusters)
        known = next((a for a in self.attempts if _same(a.arrangement, arrangement)), None)
        if known is not None:
            return known, False
        attempt = Attempt(arrangement, partition)
        self.attempts.append(attempt)
        return attempt, True

    def _groups(self, partition: str) -> tuple[Group, ...]:
        """The groups by this name; those that lose nothing are known after the first trials."""
        if partition == "kept" and "kept" not in self.sharing.partitions:
            self.sharing.add("kept", self._without_losers())
        if partition == "pairs" and self.by_pairs is None:
            self.by_pairs = self._grouped_by_pairs()
            self.sharing.add("pairs", self.by_pairs)
        known = self.sharing.partitions
        return known.get(partition, known["together"])

    def _without_losers(self) -> list[list[str]]:
        """The best arrangement so far without the tasks that lose in it."""
        tried = [a for a in self.attempts if a.seeds and np.isfinite(a.value)]
        if not tried:
            return []
        best = max(tried, key=lambda a: a.value)
        groups = [
            [name for name in group if not clearly_loses(best.gains[name])]
            for group in best.arrangement.groups
        ]
        shared = [group for group in groups if len(group) > 1]
        return with_alone(shared, self.names) if shared else []

    def _grouped_by_pairs(self) -> list[list[str]]:
        """Clusters of the gains of all pairs of tasks, if the budget allows to train them."""
        bench, names = self.bench, self.names
        pairs = list(combinations(names, 2))
        cells = {frozenset(pair): CellKey(pair) for pair in pairs}
        if len(names) < 3 or not bench.purse.affords(cells.values(), FOR_PAIRS):
            return []
        try:
            for cell in cells.values():
                bench.run(cell)
        except RunError:
            return []

        def score(cell: CellKey, task: str) -> float:
            return score_of(bench.choosing(cell, task), bench, task)

        single = {name: score(CellKey((name,)), name) for name in names}
        joint = {pair: {t: score(cell, t) for t in pair} for pair, cell in cells.items()}
        matrix = improvement_matrix(names, single, joint)
        found = described(matrix, names, "pairs", None, bench.config.seed)["clusters"]
        shared = [group for group in found if len(group) > 1]
        return with_alone(shared, names) if shared else []

    def _try(self, attempt: Attempt, trial: Any, optuna: Any) -> bool:
        """Run the seeds of a trial; whether the budget allows more."""
        bench, one = self.bench, attempt.arrangement
        for seed in range(bench.purse.plan.seeds):
            cells = cells_of_arrangement(one, seed)
            if not bench.purse.affords(cells):
                attempt.state, attempt.reason = "stopped", "the budget ends here"
                return False
            try:
                for cell in cells:
                    bench.run(cell)
            except RunError as error:
                attempt.state, attempt.reason = "failed", str(error)
                return True
            attempt.seeds = seed + 1
            attempt.gains = gains_of(bench, one, seed + 1)
            attempt.value = float(np.mean([gain.mean for gain in attempt.gains.values()]))
            trial.report(attempt.value, seed + 1)
            if trial.should_prune() and seed + 1 < bench.purse.plan.seeds:
                attempt.reason = f"not among the best after {seed + 1} seeds"
                return True
        attempt.state = "finished"
        return True

    @staticmethod
    def _tell(study: Any, trial: Any, attempt: Attempt, optuna: Any) -> None:
        states = optuna.trial.TrialState
        with contextlib.suppress(ValueError):
            if attempt.state == "failed" or not attempt.seeds:
                study.tell(trial, state=states.FAIL)
            elif attempt.state == "finished":
                study.tell(trial, attempt.value)
            else:
                study.tell(trial, state=states.PRUNED)


def _same(one: Arrangement, other: Arrangement) -> bool:
    """Whether two arrangements train the same models."""
    cells = [
        {(c.group, repr(c.changes), c.rate) for c in cells_of_arrangement(a, 0)}
        for a in (one, other)
    ]
    return cells[0] == cells[1]
