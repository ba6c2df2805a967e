"""Mistakes on the validation examples → `mistakes.json`, so that pages need no model."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from brodmann.config import Config
from brodmann.data.tasks import Task
from brodmann.measuring.finding_mistakes import mistakes_in
from brodmann.pipeline.map import EXPLAINED
from brodmann.results import Mistakes
from brodmann.results.of_mistakes import MISTAKES

if TYPE_CHECKING:
    from brodmann.models.evaluation import Evaluation

SPLIT = "validation"


def keep_mistakes(
    folder: Path,
    config: Config,
    tasks: list[Task],
    split: str,
    measured: "Mapping[str, Evaluation]",
) -> None:
    """Store what is wrong on the validation split, unless the configuration wants none of it."""
    from brodmann.training.processes import is_main

    if split != SPLIT or not is_main():
        return
    if not config.report.mistakes:
        (folder / MISTAKES).unlink(missing_ok=True)  # those of an earlier evaluation
        return
    found = mistakes_in(measured, tasks, split=split, texts=config.report.texts)
    found.save(folder / MISTAKES)


def forget_texts(folder: Path, config: Config) -> None:
    """Remove texts that an earlier evaluation stored, if the configuration allows none now."""
    from brodmann.training.processes import is_main

    if config.report.texts or not is_main():
        return
    (folder / EXPLAINED).unlink(missing_ok=True)
    path = folder / MISTAKES
    if path.is_file():
        Mistakes.load(path).without_texts().save(path)
