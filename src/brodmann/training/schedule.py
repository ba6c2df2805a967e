"""Learning rate and evaluations as functions of the step, so that checkpoints need no scheduler.

Linear warm-up over a share of the steps, then `linear` or `cosine` decay to zero, or `constant`.
"""

import math

from brodmann.results import share_of


def warmup_steps(total: int, share: float) -> int:
    return share_of(share, total)


def rate(step: int, total: int, *, warmup: float, schedule: str) -> float:
    """The factor on the learning rate in the step after `step` finished ones.

    >>> [round(rate(s, 10, warmup=0.2, schedule="linear"), 3) for s in (0, 1, 2, 6, 9)]
    [0.5, 1.0, 1.0, 0.5, 0.125]
    """
    rising = warmup_steps(total, warmup)
    if step < rising:
        return (step + 1) / rising
    done = (step - rising) / max(1, total - rising)
    if schedule == "constant":
        return 1.0
    if schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * done))
    return 1.0 - done


def is_evaluated(step: int, total: int, every: int | None, batches: tuple[int, int]) -> bool:
    """Whether to evaluate after `step` finished steps.

    That is at the end, and every `every` steps or, with None, after each epoch. `batches` are the
    numbers of batches per step and per epoch.
    """
    if step == 0 or step == total:
        return step == total
    if every is not None:
        return step % every == 0
    of_step, of_epoch = batches
    return step * of_step // of_epoch > (step - 1) * of_step // of_epoch
