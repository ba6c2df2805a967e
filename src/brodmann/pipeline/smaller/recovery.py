"""Recovery: cut a step further, then learn from the whole model, while every task holds."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from brodmann.pipeline.smaller.bisection import Search, Trial
from brodmann.pipeline.smaller.candidates import Means, Studied, studied
from brodmann.pipeline.smaller.facts_of_search import documents

if TYPE_CHECKING:
    from brodmann.models.multitask import MultiTaskModel

DEEPER = 0.8  # share of its time that each step keeps
DEEPER_ASKED = 0.6  # the same on the way to a share that was asked for
RATE = 1e-4
STEPS = "compression-recovery-"  # folders


def recover(
    small: "MultiTaskModel | None",
    search: Search,
    held: Trial | None,
    wishes: Mapping[str, Any],
    means: Means,
) -> tuple["MultiTaskModel | None", list[dict[str, Any]]]:
    """Go on in steps, each cut from what the last one recovered, until one does not hold.

    `small` is the model of the trial that held without recovery, if there is one. If a share was
    asked for and did not hold, the steps go on to that share, whatever holds on the way.
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
            known = studied(last, search.judge.tasks, means)
        every = np.ones(len(search.judge.tasks))
        choice = known.chosen(search.unit, share / known_share(known, search), every)
        if choice is None:
            break
        last = known.made(choice)
        means.say(f"recovery {len(steps) + 1}: at {100 * share:.0f} % of the cost")
        learn(last, search, wishes["recover"], means, len(steps) + 1)
        losses = search.judge.losses(search.judge.outcomes(last))
        holds = search.holds(losses)
        steps.append({"share": share, "losses": documents(losses), "holds": holds})
        if holds and (asked is None or share <= asked):
            small = last
        elif asked is None:
            break
    return small, steps


def learn(student: "MultiTaskModel", search: Search, epochs: int, means: Means, step: int) -> None:
    """Learn the whole model's hidden states and answers on the training texts."""
    from brodmann.training.fit import fit
    from brodmann.training.methods.distillation import RECOVERY, Distillation

    with Distillation(search.known.model, student, RECOVERY, seed=means.seed) as objective:
        fit(
            student,
            list(search.judge.tasks),
            methods=[objective],
            folder=None if means.folder is None else means.folder / f"{STEPS}{step}",
            epochs=epochs,
            learning_rate=RATE,
            precision=means.precision,
            evaluate_every=10**9,
            keep="last",
            seed=means.seed,
            report=means.report,
        )


def known_share(known: Studied, search: Search) -> float:
    """What a partly cut model takes of the whole one's cost."""
    totals = []
    for one in (known, search.known):
        costs, rest = one.costs(search.unit)
        totals.append(sum(float(of_block[0]) for of_block in costs) + rest)
    return totals[0] / totals[1]
