"""Recovery: cut a step further, then learn from the whole model, while every task holds."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from brodmann.measuring.block_times import times_after
from brodmann.pipeline.smaller.bisection import Search, Trial
from brodmann.pipeline.smaller.candidates import Conditions, Survey, survey
from brodmann.pipeline.smaller.facts_of_search import documents

if TYPE_CHECKING:
    from brodmann.models.multitask import MultiTaskModel

DEEPER = 0.8  # share of its time that each step keeps
DEEPER_ASKED = 0.6  # the same on the way to a share that was asked for
RATE = 1e-4


def recover(
    small: "MultiTaskModel | None",
    search: Search,
    held: Trial | None,
    wishes: Mapping[str, Any],
    conditions: Conditions,
    identity: str,
) -> tuple["MultiTaskModel | None", list[dict[str, Any]]]:
    """Go on in steps, each cut from what the last one recovered, until one does not hold.

    `small` is the model of the trial that held without recovery, if there is one. If a share was
    asked for and did not hold, the steps go on to that share, whatever holds on the way. `identity`
    keeps trainings of other searches apart.
    """
    from brodmann.models.smaller.units import blocks_of

    asked, steps = wishes["latency"] or wishes["size"], list[dict[str, Any]]()
    if asked is not None and held is not None:
        return small, steps
    last, share, known = small, 1.0 if held is None else held.share, search.known
    while asked is None or share > asked:
        share = share * DEEPER if asked is None else max(asked, share * DEEPER_ASKED)
        if last is not None:
            if not blocks_of(last):
                break
            times = times_after(search.known.times, search.known.blocks, blocks_of(last))
            known = survey(last, search.judge.tasks, conditions, times)
        every = np.ones(len(search.judge.tasks))
        choice = known.choose(search.unit, share / known_share(known, search), every)
        if choice is None:
            break
        last = known.make(choice)
        conditions.say(f"recovery {len(steps) + 1}: at {100 * share:.0f} % of the cost")
        work = conditions.folder and conditions.folder / f"{identity[:8]}-{len(steps) + 1}"
        learn(last, search, wishes["recover"], work)
        losses = search.judge.losses(search.judge.outcomes(last))
        holds = search.holds(losses)
        steps.append({"share": share, "losses": documents(losses), "holds": holds})
        if holds and (asked is None or share <= asked):
            small = last
        elif asked is None:
            break
    return small, steps


def learn(student: "MultiTaskModel", search: Search, epochs: int, folder: Path | None) -> None:
    """Learn the whole model's hidden states and answers on the training texts."""
    from brodmann.training.fit import fit
    from brodmann.training.methods.distillation import RECOVERY, Distillation

    conditions = search.judge.conditions
    with Distillation(search.known.model, student, RECOVERY, seed=conditions.seed) as objective:
        fit(
            student,
            list(search.judge.tasks),
            methods=[objective],
            folder=folder,
            epochs=epochs,
            learning_rate=RATE,
            precision=conditions.precision,
            evaluate_every=10**9,
            keep="last",
            seed=conditions.seed,
            report=conditions.report,
        )


def known_share(known: Survey, search: Search) -> float:
    """What a partly cut model takes of the whole one's cost."""
    totals = []
    for one in (known, search.known):
        costs, rest = one.costs(search.unit)
        totals.append(sum(float(of_block[0]) for of_block in costs) + rest)
    return totals[0] / totals[1]
