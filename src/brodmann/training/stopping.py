"""Handle Ctrl-C and SIGTERM: finish the step, save, stop. A second Ctrl-C stops at once."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class StopSignals:
    """Inside the block, `received` is the number of the signal that asked to stop, or None."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, Any] = {}
        self._noted: set[int] = set()

    def __enter__(self) -> Self:
        if (
            threading.current_thread() is threading.main_thread()
        ):  # Python allows handlers only in the main thread
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        self._noted.add(number)
        before = self._before[number]
        signal.signal(number, before)
        # Nested (a training inside a command): the first signal asks both, or the outer one would
        # only notice the second.
        if isinstance(getattr(before, "__self__", None), StopSignals):
            before(number, frame)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            if number not in self._noted:  # already restored, or set by the outer one
                signal.signal(number, handler)
