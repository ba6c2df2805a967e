"""Read together what arrives together, in one thread, the only one that touches the model.

While the model reads, further requests gather; the next reading takes all of them that ask the same
(the same tasks, equally careful). So a busy server reads large batches and an idle one answers at
once.

Clients that were answered together ask again at nearly the same time. Without patience, the first
of them would be read alone while the others wait; so a reading waits, at most `wait` seconds, until
as many texts are there as were read before. A client that asks one text after the other never
waits.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

USUAL_WAIT = 0.002  # seconds; benchmarks/serving.py compares it with others

Answering = Callable[[list[Any], Any], Sequence[Any]]  # inputs, what is asked → one answer each
Watching = Callable[[int, float], None]  # texts read together, seconds


@dataclass
class _Job:
    inputs: list[Any]
    asked: Hashable  # jobs that ask the same are read together
    alone: Callable[[], Any] | None = None  # a job of another kind
    done: "Future[Any]" = field(default_factory=Future)


class MicroBatches:
    """A queue with one thread that answers it."""

    def __init__(
        self,
        answer: Answering,
        *,
        batch: int = 32,
        wait: float = USUAL_WAIT,
        watch: Watching = lambda texts, seconds: None,
    ) -> None:
        self.answer, self.batch, self.wait, self.watch = answer, batch, wait, watch
        self._jobs: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._before = 1  # texts of the last reading
        self._thread = threading.Thread(target=self._work, name="brodmann-reader", daemon=True)
        self._thread.start()

    def ask(self, inputs: list[Any], asked: Hashable) -> "Future[list[Any]]":
        """The answers to some inputs, once they are read."""
        return self._add(_Job(inputs, asked))

    def call(self, work: Callable[[], Any]) -> "Future[Any]":
        """The result of a call that needs the model to itself."""
        return self._add(_Job([], None, work))

    @property
    def is_ready(self) -> bool:
        """Whether jobs are still taken and answered."""
        return self._thread.is_alive() and not self._closed

    def close(self) -> None:
        """Answer what waits, and take no more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _add(self, job: _Job) -> "Future[Any]":
        with self._changed:
            if self._closed:
                raise RuntimeError("closed: no more jobs are taken")
            self._jobs.append(job)
            self._changed.notify()
        return job.done

    def _work(self) -> None:
        while jobs := self._next():
            self._run([job for job in jobs if job.done.set_running_or_notify_cancel()])

    def _next(self) -> list[_Job]:
        """The first job with those behind it that ask the same; none once closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._jobs) or self._closed)
            if self.wait > 0 and not self._closed:
                self._changed.wait_for(self._enough, timeout=self.wait)
            if not self._jobs:
                return []
            taken = [self._jobs.popleft()]
            texts = len(taken[0].inputs)
            left: deque[_Job] = deque()
            for job in self._jobs:
                fits = taken[0].alone is None and job.alone is None and job.asked == taken[0].asked
                if fits and texts + len(job.inputs) <= self.batch:
                    taken.append(job)
                    texts += len(job.inputs)
                else:
                    left.append(job)
            self._jobs = left
            return taken

    def _enough(self) -> bool:
        if self._closed or any(job.alone is not None for job in self._jobs):
            return True
        wanted = min(self.batch, self._before)
        return sum(len(job.inputs) for job in self._jobs) >= wanted

    def _run(self, jobs: list[_Job]) -> None:
        if not jobs:
            return
        try:
            found = self._results(jobs)
        except Exception as error:  # belongs to whoever asked, and the thread goes on
            if len(jobs) == 1:
                jobs[0].done.set_exception(error)
                return
            logging.getLogger("brodmann").debug(
                "answering %d jobs one by one: %s", len(jobs), error
            )
            for job in jobs:  # one of them cannot be read; the others must not suffer
                self._run([job])
            return
        for job, result in zip(jobs, found, strict=True):
            job.done.set_result(result)

    def _results(self, jobs: list[_Job]) -> list[Any]:
        if jobs[0].alone is not None:
            return [jobs[0].alone()]
        inputs = [entry for job in jobs for entry in job.inputs]
        self._before = len(inputs)
        begin = time.perf_counter()
        answers = list(self.answer(inputs, jobs[0].asked))
        self.watch(len(inputs), time.perf_counter() - begin)
        found = []
        for job in jobs:
            found.append(answers[: len(job.inputs)])
            answers = answers[len(job.inputs) :]
        return found
