"""The events of a run: their names, and the function that receives them.

Training, stages, studies and papers call `report(event, facts)`; the receiver decides what to show.
mypy rejects a name that is not listed here, and `terminal/view.py` shows all of them.
"""

from typing import Any, Literal, Protocol

Event = Literal[
    # messages
    "stage",  # text: what is happening now
    "note",  # text: a warning
    "done",  # text, folder: work that was already done
    # one run
    "tasks",  # tasks
    "encode",  # task, split
    "start",  # step, steps, device, precision, parameters, rates, tasks and more
    "resume",  # step, steps
    "step",  # step, steps, losses, examples
    "method begins",  # step, text
    "evaluate",  # step
    "evaluated",  # step, primary, mean, best
    "saved",  # step, folder
    "end",  # the fields of `Progress`
    "evaluation starts",  # examples
    "evaluation goes on",  # items
    "measuring starts",  # what, examples
    "measuring goes on",  # items
    # results
    "scores",  # tasks, splits, folder
    "calibrated",  # result, file
    "map",  # scores, alpha, file
    "pruning curve",  # result, file
    "dissociation",  # result, file
    "pruned",  # scores, removed, of, parameters, speed, folder
    "trial",  # text: a candidate for a smaller model, and what it loses
    "compressed",  # result, place
    "distilled",  # scores, parameters, speed, folder
    "zero-shot",  # result
    "adapted",  # result
    "relations",  # result, by, file
    "relevance",  # result, file
    "attention maps",  # result, file
    "advice",  # reasons, file
    "report",  # file
    # from files to a decision
    "looked",  # result, file
    "advice plan",  # plan
    "advised",  # result, file
    # many runs
    "arm",  # arm, seed
    "cell",  # cell, number, cells, state, expected
    "cells",  # running, done, waiting, left
    "cell failed",  # label, reason
    "comparison",  # result, file
    "grid",  # summary, folder
    "transfer",  # summary, file, figure
    "meta",  # result, file
    # plans, before and after runs; reproductions
    "plan",  # plan, file
    "plan of many",  # plan, file
    "estimate",  # estimate
    "reproduced",  # blocks, file
]


class Report(Protocol):
    """A function that receives an event and its facts."""

    def __call__(self, event: Event, facts: dict[str, Any], /) -> None: ...


def silent(event: Event, facts: dict[str, Any], /) -> None:
    """Report nothing: the default report function."""
