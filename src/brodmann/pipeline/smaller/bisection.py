"""The fastest model in which no task loses more than what is allowed, with 95 % confidence.

A share of the whole model's time is *held* if every task's upper bound of points lost, on the
examples searched on, is within the allowance. Shares are tried by bisection on a ladder; each trial
moves the weights of the tasks towards those that lose most. That every task holds at once
needs no correction for their number: if one task did lose more, its own bound alone would have to
be wrong (intersection-union test). That several shares are tried does: so the bound is confirmed
afterwards on examples that the search never saw.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from brodmann.analysis.mask_search import Choice
from brodmann.analysis.statistics import LEVEL, unseen_share
from brodmann.files import Array
from brodmann.measuring.points_lost import Loss
from brodmann.pipeline.smaller.candidates import Judge, Survey

RUNG = 1.1  # ratio of neighbouring speeds on the ladder
FIRST = 6  # rung of the first trial: 1.77 times the speed
NEXT = 4  # rungs above a trial that holds, until one does not
TRIES = 3  # of one given share, with other weights of the tasks
MOVES = (0.5, 2.0)  # least and most by which a trial changes a task's weight
LEAST = 0.1  # points: tasks that lose less are alike


@dataclass(frozen=True)
class Trial:
    """One candidate, and what each task lost with it on the examples searched on."""

    share: float  # of the whole model's time or parameters, as asked
    places: list[int]  # the choice (`mask_search.Choice`) that it was made by
    weights: list[float]
    units: list[int]  # left in each block
    losses: dict[str, Loss]
    holds: bool
    without: str | None = None  # the task that was left out

    @property
    def choice(self) -> Choice:
        return Choice(self.places, np.array(self.weights), np.zeros(len(self.weights)))


def trial_of(stored: Mapping[str, Any]) -> Trial:
    losses = {
        task: Loss(**{**entry, "interval": tuple(entry["interval"])})
        for task, entry in stored["losses"].items()
    }
    return Trial(**{**stored, "losses": losses})


Remember = Callable[[str, Callable[[], Trial]], Trial]


@dataclass
class Search:
    """What is allowed, and the trials so far."""

    known: Survey
    judge: Judge
    unit: str  # "latency" or "size"
    lose: float
    remember: Remember  # (key, how to make it) → the stored trial, or a new one
    trials: list[Trial] = field(default_factory=list)

    def fastest(self, without: str | None = None, slower: Trial | None = None) -> Trial | None:
        """Bisection over the ladder; `slower` is a trial that is known to hold."""
        factors = self._factors(without)
        costs, rest = self.known.costs(self.unit)
        whole = sum(float(of_block[0]) for of_block in costs) + rest
        low = 0 if slower is None else round(-math.log(slower.share) / math.log(RUNG))
        high = math.floor(math.log(whole / rest) / math.log(RUNG)) + 1
        best, failed = slower, False
        rung = low + (FIRST if slower is None else NEXT)
        while high - low > 1:
            rung = min(rung, high - 1)
            found = self.attempt(RUNG**-rung, factors, without)
            if found is not None and found.holds:
                low, best = rung, found
            else:
                high, failed = rung, True
            rung = (low + high) // 2 if failed else low + NEXT
        return best

    def at(self, share: float) -> Trial | None:
        """Try one share several times, each time with the weights that the last try taught."""
        factors, found = self._factors(None), None
        for _ in range(TRIES):
            found = self.attempt(share, factors, None)
            if found is None or found.holds:
                break
        return found

    def attempt(self, share: float, factors: Array, without: str | None) -> Trial | None:
        """Make and judge one candidate; `factors` move for the next one. None: impossible."""
        choice = self.known.choose(self.unit, share, factors)
        if choice is None:
            return None
        told = [float(f"{factor:.6g}") for factor in factors]
        key = repr((self.unit, round(share, 6), told, without))

        def make() -> Trial:
            small = self.known.make(choice)
            losses = self.judge.losses(self.judge.outcomes(small, self.judge.counter("trying")))
            units = [
                int(sizes[place])
                for sizes, place in zip(self.known.times.options, choice.places, strict=True)
            ]
            holds = self.holds(losses, without)
            weights = choice.weights.tolist()
            return Trial(share, choice.places, weights, units, losses, holds, without)

        trial = self.remember(key, make)
        if trial not in self.trials:
            self.trials.append(trial)
        lost = np.array([judged(trial.losses[task.name], self.lose) for task in self.judge.tasks])
        counted, lost = factors > 0, np.maximum(lost, LEAST)
        typical = float(np.exp(np.log(lost[counted]).mean()))
        factors[counted] *= np.clip(np.sqrt(lost[counted] / typical), *MOVES)
        return trial

    def holds(self, losses: Mapping[str, Loss], without: str | None = None) -> bool:
        return all(
            judged(loss, self.lose) <= self.lose for task, loss in losses.items() if task != without
        )

    def _factors(self, without: str | None) -> Array:
        return np.array([float(task.name != without) for task in self.judge.tasks])


def provable(loss: Loss, lose: float) -> bool:
    """Whether so many examples could show that a task loses no more, if it lost nothing."""
    return 100 * unseen_share(loss.examples, 2 * LEVEL - 1) <= lose


def judged(loss: Loss, lose: float) -> float:
    """The points that must not exceed `lose`: the bound, if so many examples can show it at all."""
    return loss.bound if provable(loss, lose) else loss.points


def blocker(trials: Sequence[Trial], lose: float) -> str | None:
    """The task that exceeds what is allowed most in the slowest model that does not hold."""
    failed = [trial for trial in trials if not trial.holds and trial.without is None]
    if not failed:
        return None
    nearest = max(failed, key=lambda trial: trial.share)
    return max(nearest.losses, key=lambda task: judged(nearest.losses[task], lose))
