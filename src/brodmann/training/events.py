"""What a run tells along the way: the names of its events, and the function that receives them.

Training, stages, studies and papers call `report(event, facts)`; whoever watches decides what to
show. A name that is not listed here is refused by mypy, and `terminal/view.py` shows all of them.
"""

from typing import Any, Literal, Protocol

Event = Literal[
    # words
    "stage",  # text: what happens now
    "note",  # text: what to be careful about
    "done",  # text, folder: what needs no work
    # one run
    "tasks",  # tasks
    "encode",  # task, split
    "start",  # step, steps, device, precision, parameters, rates, tasks and more
    "resume",  # step, steps
    "step",  # step, steps, losses, examples
    "specialized",  # step, heads
    "evaluate",  # step
    "evaluated",  # step, primary, mean, best
    "end",  # what `Progress` holds
    "evaluation starts",  # examples
    "evaluation goes on",  # items
    "measuring starts",  # what, examples
    "measuring goes on",  # items
    # results
    "scores",  # tasks, splits, folder
    "map",  # scores, alpha, file
    "dissociation",  # result, file
    "pruned",  # scores, removed, of, parameters, speed, folder
    "distilled",  # scores, parameters, speed, folder
    "zero-shot",  # result
    "adapted",  # result
    "relations",  # result, by, file
    "relevance",  # result, file
    "attention maps",  # result, file
    "advice",  # reasons, file
    "report",  # file
    # many runs
    "arm",  # arm, seed
    "cell",  # cell, number, cells, state, expected
    "cells",  # running, done, waiting, left
    "cell failed",  # label, reason
    "comparison",  # result, file
    "grid",  # summary, folder
    "transfer",  # summary, file, figure
    "meta",  # result, file
    # before and after them
    "plan",  # plan, file
    "plan of many",  # plan, file
    "estimate",  # estimate
    "reproduced",  # blocks, file
]


class Report(Protocol):
    """Receives an event and its facts."""

    def __call__(self, event: Event, facts: dict[str, Any], /) -> None: ...


def silent(event: Event, facts: dict[str, Any], /) -> None:
    """The report function of a run that nobody watches."""
