"""Trials on disk, so that an interrupted search goes on."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from brodmann.files import digest, write_text
from brodmann.measuring.block_times import BlockTimes, as_document, times_of
from brodmann.pipeline.smaller.bisection import Trial, trial_of
from brodmann.pipeline.smaller.candidates import Means

TRIALS = "compression-trials.jsonl"


class Stored:
    """Trials of an unfinished search with the same wishes and weights."""

    def __init__(self, folder: Path | None, identity: Any) -> None:
        self.file = None if folder is None else folder / TRIALS
        self.identity = digest(json.dumps(identity, sort_keys=True).encode())
        self.times: BlockTimes | None = None
        self.lines: list[dict[str, Any]] = []
        if self.file is not None and self.file.is_file():
            lines = self.file.read_text(encoding="utf-8").splitlines()
            found = [json.loads(line) for line in lines if line.endswith("}")]
            self.lines = [line for line in found if line["search"] == self.identity]
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
        self.lines.append(json.loads(json.dumps({"search": self.identity} | line)))
        if self.file is not None:
            write_text(self.file, "".join(json.dumps(one) + "\n" for one in self.lines))


def told(stored: Stored, means: Means) -> Callable[[str, Callable[[], Trial]], Trial]:
    """Tell of every trial."""

    def remember(key: str, make: Callable[[], Trial]) -> Trial:
        trial = stored(key, make)
        name = max(trial.losses, key=lambda task: trial.losses[task].bound)
        worst, holds = trial.losses[name], "holds" if trial.holds else "does not hold"
        means.say(
            f"at {100 * trial.share:.0f} % of the cost: {holds}, worst {name} loses "
            f"{worst.points:.1f}, at most {worst.bound:.1f}"
        )
        return trial

    return remember
