"""The verb that goes from labelled files to a decision."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from brodmann.advising.costs import seconds_of
from brodmann.advising.session import advise_on
from brodmann.errors import InputError
from brodmann.files import Document, write_text
from brodmann.reporting.advice_page import advice_sections
from brodmann.reporting.advice_tables import advice, recommendation
from brodmann.reporting.blocks import Section
from brodmann.reporting.html import frame, page
from brodmann.training.events import Report
from brodmann.verbs.following import followed
from brodmann.verbs.outcomes import Outcome
from brodmann.verbs.rows import Row

Place = str | os.PathLike[str]
PAGE = "report.html"


class Advice(Outcome):
    """A recommendation: `str(advice)` is the sentence, `document` everything behind it."""

    def __str__(self) -> str:
        return recommendation(self.document)

    def _repr_html_(self) -> str:
        return frame("advice", str(self.folder or ""), advice_sections(self.document))

    def _sections(self) -> list[Section]:
        return advice_sections(self.document)


def advise(
    files: Place | Sequence[Place] = (),
    *,
    budget: str | float = "30m",
    to: Place = "advice",
    backbone: str | None = None,
    seed: int | None = None,
    go_on: Callable[[Path], bool] | None = None,
    progress: bool | None = None,
    report: Report | None = None,
) -> Advice | None:
    """Look at labelled files, try arrangements within the budget, and recommend one.

    `to` is the folder of everything that is written; without `files`, its `tasks.toml` is
    continued, with the user's corrections. A new folder takes `backbone` (builtin:minilm) and
    `seed` (0). `go_on` is asked with the path of that file before
    anything is trained; if it returns False, there is no advice yet (None).
    """
    seconds = seconds_of(budget)
    given = [files] if isinstance(files, str | os.PathLike) else list(files)
    if any(not isinstance(one, str | os.PathLike) for one in given):
        raise InputError("advise: expected paths of files with labelled rows")
    folder = Path(to)
    with followed(progress, report) as shown:
        found = advise_on(
            [Path(one) for one in given],
            folder,
            shown,
            budget=seconds,
            backbone=backbone,
            seed=seed,
            go_on=go_on or (lambda path: True),
        )
        if found is None:
            return None
        text = page("advice", recommendation(found), advice_sections(found))
        write_text(folder / PAGE, text)
        shown("report", {"file": folder / PAGE})
    return Advice("advise", found, rows_of_advice(found), folder, advice(found))


def rows_of_advice(found: Document) -> list[Row]:
    """One row per task: its scores and, if it shares a model, its gain."""
    rows: list[Row] = []
    places = {task: n for n, group in enumerate(found["choice"]["shared"]) for task in group}
    for name, one in found["scores"].items():
        gain = found["verdict"]["gains"].get(name, {})
        rows.append(
            {
                "task": name,
                "metric": one["metric"],
                "group": places.get(name),
                "shares": name in places,
                "signal": one["signal"],
                "trivial": one["trivial"],
                "alone": one["alone"],
                "chosen": one["chosen"],
                "gain": gain.get("mean"),
                "low": gain.get("low"),
                "high": gain.get("high"),
                "needed": gain.get("needed"),
                "why": found["apart"].get(name, ""),
            }
        )
    return rows
