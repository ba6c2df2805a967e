"""Follow a verb's events: show them as the command line does, and keep what they found."""

from collections.abc import Iterator
from contextlib import contextmanager

from brodmann.files import Document
from brodmann.reporting.blocks import Block
from brodmann.terminal.view import RESULTS
from brodmann.terminal.watched import watched
from brodmann.training.events import Event, Report


class Follower:
    """A report function that passes events on and keeps the blocks of results.

    Without `shows_results`, results are not passed on: what a verb returns shows them.
    """

    def __init__(self, report: Report, *, shows_results: bool) -> None:
        self.report, self.shows_results = report, shows_results
        self.blocks: list[Block] = []

    def __call__(self, event: Event, facts: Document, /) -> None:
        if event not in RESULTS or self.shows_results:
            self.report(event, facts)
        if event in RESULTS:
            make, _ = RESULTS[event]
            self.blocks += make(facts)


@contextmanager
def followed(progress: bool | None, report: Report | None) -> Iterator[Follower]:
    """Yield a follower whose events go to `report` or, if there is none, to the terminal."""
    with watched(progress, report) as shown:
        yield Follower(shown, shows_results=report is not None)
