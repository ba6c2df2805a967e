"""One cell of a grid as a piece of work: its inputs, its progress, and running it.

An *engine* runs the work: `with engine(report) as execute` (finds its machines, or raises if there
are none), then `execute(works, watch)`, again for works that waited for others.
"""

import contextlib
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from brodmann.data.task_cache import TaskCache
from brodmann.errors import BrodmannError, FolderBusyError, Interrupted
from brodmann.files import read_json, read_log, wait_until_free, write_json
from brodmann.pipeline import dissociate
from brodmann.pipeline.run_folder import machine_of
from brodmann.studies.cells import Branch, Cell, specialized_share
from brodmann.training.events import Report


@dataclass
class Work:
    """A cell still to be run, with all its inputs; its result is written to `path`."""

    cell: Cell
    number: int
    cells: int
    folder: Path
    base: Path
    heads: bool
    data: dict[str, str]
    branch: Branch
    cache: TaskCache = field(default_factory=TaskCache)

    @property
    def path(self) -> Path:
        return self.folder / f"{self.cell.fingerprint}.json"

    @property
    def log(self) -> Path:
        return self.cell.config.folder / "log.jsonl"

    def finish(self, report: Report) -> dict[str, Any]:
        """Run the cell and write its result, completely or not at all."""
        result = {**_run_cell(self, report), "data": self.data}
        write_json(self.path, result)
        return result

    def give_up(self, reason: str, report: Report) -> None:
        """Record a failure that the process which ran the cell could not explain."""
        result = {**_failed(_facts_of(self.cell), reason, report), "data": self.data}
        write_json(self.path, result)

    def facts(self, state: str, expected: float | None = None) -> dict[str, Any]:
        facts = {"number": self.number, "cells": self.cells, "cell": self.cell, "state": state}
        return {**facts, "expected": expected}

    def steps(self) -> tuple[int, int, int] | None:
        """(first step, step, steps) of its training, by its log; the first step is not 0 if the
        cell continues another's."""
        entries = read_log(self.log)
        start = next((entry for entry in entries if "start" in entry), None)
        if start is None:
            return None
        return start["step"], max(e.get("step", 0) for e in entries), start["steps"]

    def is_finished(self) -> bool:
        """Whether its result exists, for the same data and with everything asked for now."""
        if not self.path.is_file():
            return False
        document = read_json(self.path)
        same = document.get("request") == dissociate.requested(self.cell.config)
        same = same and document.get("data") == self.data
        mapped = document.get("heads", True) or not self.heads
        return bool(document.get("state") == "done" and same and mapped)


class Watch:
    """Progress of the works of one session, in whole trainings.

    A work that continues another's steps counts as the share of a training that it does itself.
    """

    def __init__(self, works: list[Work]) -> None:
        self.began = time.monotonic()
        self.works = works
        self.written = {work.number: _changed(work.log) for work in works}  # before this session
        self.before = {work.number: work.steps() for work in works}
        self.done: set[int] = set()

    def finished(self, work: Work) -> None:
        self.done.add(work.number)

    def running(self) -> list[tuple[Work, tuple[int, int, int]]]:
        """Works whose log has grown in this session: an old log says nothing about now."""
        return [
            (work, steps)
            for work in self.works
            if work.number not in self.done
            and _changed(work.log) != self.written[work.number]
            and (steps := work.steps()) is not None
        ]

    def left(self, running: list[tuple[Work, tuple[int, int, int]]] | None = None) -> float | None:
        """Estimated seconds left, from what this session has done so far."""
        running = self.running() if running is None else running
        done = sum(_size(work) for work in self.works if work.number in self.done)
        for work, (first, step, steps) in running:
            before = self.before[work.number]
            first = first if before is None else max(first, before[1])
            done += _size(work) * max(0, step - first) / max(steps - first, 1)
        if not done:
            return None
        return (time.monotonic() - self.began) * (sum(map(_size, self.works)) / done - 1)

    def seen(self) -> dict[str, Any]:
        """Facts for the live table."""
        running = self.running()
        return {
            "running": [(work.cell.label, (step, steps)) for work, (_, step, steps) in running],
            "done": len(self.done),
            "waiting": len(self.works) - len(self.done) - len(running),
            "left": self.left(running),
        }


def _changed(path: Path) -> int | None:
    return path.stat().st_mtime_ns if path.is_file() else None


def _size(work: Work) -> float:
    return 1.0 if work.branch.start is None else specialized_share(work.cell)


Execute = Callable[[list[Work], Watch], None]
Engine = Callable[[Report], contextlib.AbstractContextManager[Execute]]


@contextlib.contextmanager
def in_order(report: Report) -> Iterator[Execute]:
    """Run works one after the other, in this process."""

    def execute(works: list[Work], watch: Watch) -> None:
        for work in works:
            report("cell", work.facts("starts", watch.left()))
            work.finish(report)
            watch.finished(work)

    yield execute


def _run_cell(work: Work, report: Report) -> dict[str, Any]:
    cell = work.cell
    facts = _facts_of(cell)
    from brodmann.training.checkpoints.checkpoint import clear_checkpoints
    from brodmann.training.methods.distillation import PHASES

    try:
        result = _run(work, report)
    except (KeyboardInterrupt, Interrupted):
        raise
    except BrodmannError as error:
        return _failed(facts, str(error), report)
    except (
        Exception
    ) as error:  # a failed cell does not stop the others: store it in full, show it briefly
        facts["traceback"] = traceback.format_exc()
        return _failed(facts, f"{type(error).__name__}: {error}", report)
    for place in ("", *PHASES):  # many cells would fill the disk with checkpoints
        clear_checkpoints(cell.config.folder / place)
    keep = {"splits", "dissociation", "parameters", "adaptation"}
    return {
        **facts,
        "state": "done",
        "heads": work.heads,
        **{key: value for key, value in result.items() if key in keep},
        "configuration": cell.config.portable(),
        "provenance": machine_of(cell.config),
    }


def _run(work: Work, report: Report) -> dict[str, Any]:
    """Run a cell; if another grid is running it, wait for that instead of doing it twice."""
    cell, branch = work.cell, work.branch
    while True:
        try:
            return cell.study.run_cell(
                cell.config,
                work.base,
                report,
                heads=work.heads,
                branch_at=branch.keep_at,
                branch_from=branch.start,
                cache=work.cache,
            )
        except FolderBusyError:
            report("note", {"text": f"{cell.label}: another grid is running it, waiting"})
            wait_until_free(cell.config.folder)


def _facts_of(cell: Cell) -> dict[str, Any]:
    return {
        "label": cell.label,
        "fingerprint": cell.fingerprint,
        "varied": cell.varied,
        "request": dissociate.requested(cell.config),
    }


def _failed(facts: dict[str, Any], reason: str, report: Report) -> dict[str, Any]:
    report("cell failed", {"label": facts["label"], "reason": " ".join(reason.split())})
    return {**facts, "state": "failed", "error": " ".join(reason.split())}
