"""Trials on disk, so that an interrupted search goes on."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from brodmann.files import append_lines, digest, read_lines
from brodmann.measuring.block_times import BlockTimes, as_document, times_of
from brodmann.pipeline.smaller.bisection import Trial, trial_of
from brodmann.pipeline.smaller.candidates import Conditions

FILE = "trials.jsonl"


class Stored:
    """Trials of an unfinished search with the same wishes and weights."""

    def __init__(self, folder: Path | None, identity: Any) -> None:
        self.file = None if folder is None else folder / FILE
        self.identity = digest(json.dumps(identity, sort_keys=True).encode())
        self.times: BlockTimes | None = None
        self.lines: list[dict[str, Any]] = []
        if self.file is not None:
            found = read_lines(self.file)
            self.lines = [line for line in found if line.get("search") == self.identity]
        for line in self.lines:
            if "times" in line:
                self.times = times_of(line["times"])

    def keep_times(self, times: BlockTimes) -> None:
        """Another measurement would lead to other candidates."""
        if self.times is None:
            self._append({"times": as_document(times)})

    def __call__(self, key: str, make: Callable[[], Trial]) -> Trial:
        for line in self.lines:
            if line.get("key") == key:
                return trial_of(line["trial"])
        trial = make()
        self._append({"key": key, "trial": asdict(trial)})
        return trial

    def _append(self, line: dict[str, Any]) -> None:
        self.lines.append({"search": self.identity} | line)
        if self.file is not None:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            append_lines(self.file, self.lines[-1:])


def remembering(
    stored: Stored, conditions: Conditions, unit: str
) -> Callable[[str, Callable[[], Trial]], Trial]:
    """Look a trial up or make it, and tell of it."""

    unit = {"latency": "time", "size": "parameters"}[unit]

    def remember(key: str, make: Callable[[], Trial]) -> Trial:
        trial = stored(key, make)
        name = max(trial.losses, key=lambda task: trial.losses[task].bound)
        worst, holds = trial.losses[name], "holds" if trial.holds else "does not hold"
        text = (
            f"{100 * trial.share:.0f} % of the {unit}: {holds}; {name} loses most, "
            f"{worst.points:.1f} points, at most {worst.bound:.1f}"
        )
        conditions.report("trial", {"text": text})
        return trial

    return remember
