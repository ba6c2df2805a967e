"""Choose an arrangement by the choosing part alone; which tasks have anything to share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from brodmann.advising.arrangements import Arrangement, CellKey, Group
from brodmann.advising.cell_runs import Bench
from brodmann.advising.costs import probe_of
from brodmann.advising.data_parts import CHOOSING
from brodmann.advising.trying import Attempt, clearly_loses, score_of
from brodmann.analysis.nested_gains import SeedSpread, paired_gain

SIGNAL_LEVEL = 0.95  # of the interval over the trivial answer; the reporting part confirms it
LEAST_SIGNAL = 0.03  # of the way from the trivial to a perfect score, at its lower end


@dataclass(frozen=True)
class Signal:
    """A task's scores on the choosing part without sharing anything."""

    examples: int
    trivial: float
    probe: float
    alone: float
    present: bool  # whether either is clearly above the trivial answer


def signals(bench: Bench, names: Sequence[str]) -> dict[str, Signal]:
    """Which tasks can be learnt at all, by a probe and by a model of their own."""
    probe = probe_of(names)
    return {name: _signal(bench, name, probe) for name in names}


def _signal(bench: Bench, name: str, probe: CellKey) -> Signal:
    spec, trivial = bench.spec(name), bench.trivial(name, CHOOSING)
    floor = score_of(trivial, bench, name)
    scores, present = [], False
    for cell in (probe, CellKey((name,))):
        values = bench.choosing(cell, name)
        unknown = SeedSpread(0.0, 0)
        gain = paired_gain([values], [trivial], spec, spread=unknown, level=SIGNAL_LEVEL)
        present = present or gain.low > LEAST_SIGNAL * (1 - floor)
        scores.append(score_of(values, bench, name))
    return Signal(len(trivial), floor, scores[0], scores[1], present)


@dataclass(frozen=True)
class Choice:
    """The chosen arrangement, the models that serve it, and why tasks are alone."""

    arrangement: Arrangement | None  # None: each task alone
    seeds: int
    shared: tuple[Group, ...]  # the tasks that each shared model answers
    apart: dict[str, str]  # task → reason, among the tasks with a signal
    attempt: Attempt | None = None

    def cell_of(self, task: str, seed: int) -> CellKey:
        """The training whose model answers the task."""
        from brodmann.advising.arrangements import cells_of_arrangement

        if self.arrangement is not None and any(task in group for group in self.shared):
            for cell in cells_of_arrangement(self.arrangement, seed):
                if task in cell.group:
                    return cell
        return CellKey((task,), seed=seed)

    def document(self) -> dict[str, Any]:
        trained = () if self.arrangement is None else self.arrangement.groups
        helpers = {
            name: next(sorted(set(own) - set(group)) for own in trained if set(group) <= set(own))
            for group in self.shared
            for name in [" + ".join(group)]
        }
        return {
            "helpers": helpers,  # tasks that are trained beside a group, but answered elsewhere
            "arrangement": None if self.arrangement is None else self.arrangement.label,
            "method": "plain" if self.arrangement is None else self.arrangement.method,
            "rate": 1.0 if self.arrangement is None else self.arrangement.rate,
            "shared": [list(group) for group in self.shared],
            "seeds": self.seeds,
        }


def choose(attempts: Sequence[Attempt], names: Sequence[str], seeds: int) -> Choice:
    """The best finished arrangement; a task that clearly loses stays alone."""
    finished = [a for a in attempts if a.state == "finished" and a.seeds == seeds]
    if not finished and attempts:  # the budget ended within the first trial
        finished = [a for a in attempts if a.seeds == max(b.seeds for b in attempts) and a.seeds]
    best = max(finished, key=lambda a: _worth(a), default=None)
    if best is None:
        reason = "nothing to share it with" if len(names) < 2 else "no sharing was tried"
        return Choice(None, seeds, (), dict.fromkeys(names, reason))
    shared, apart = [], {}
    for group in best.arrangement.groups:
        kept = tuple(task for task in group if not clearly_loses(best.gains[task]))
        for task in group:
            if task not in kept:
                apart[task] = f"shared, it loses {-100 * best.gains[task].mean:.1f} points"
        if len(kept) > 1:
            shared.append(kept)
        elif len(group) > 1:
            apart |= dict.fromkeys(kept, "no other task is left to share with")
        else:
            apart[group[0]] = "it lost, or others did, when it was shared"
    if not shared:
        return Choice(None, best.seeds, (), apart, best)
    return Choice(best.arrangement, best.seeds, tuple(shared), apart, best)


def _worth(attempt: Attempt) -> float:
    """Mean gain if tasks that clearly lose are left alone."""
    gains = [0.0 if clearly_loses(gain) else gain.mean for gain in attempt.gains.values()]
    return float(np.mean(gains))
