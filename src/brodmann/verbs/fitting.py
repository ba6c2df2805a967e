"""`bm.fit`: training that shows its progress, calls your code and returns its history."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from brodmann.data.encoding import Encoded
from brodmann.data.tasks import Task
from brodmann.errors import InputError
from brodmann.files import Document, read_log
from brodmann.models.multitask import MultiTaskModel
from brodmann.reporting.blocks import Lines, Section
from brodmann.reporting.html import frame
from brodmann.results import need_pandas
from brodmann.terminal.watched import watched
from brodmann.training import fit as trainer
from brodmann.training.checkpoints.progress import Progress
from brodmann.training.events import Event, Report
from brodmann.training.fit_options import FitOptions
from brodmann.training.methods import Method
from brodmann.verbs.callbacks import Callback, Calls
from brodmann.verbs.rows import Row

if TYPE_CHECKING:
    import pandas


@dataclass(repr=False)
class History(Progress):
    """The position at the end of training, and the losses on the way."""

    losses: list[tuple[int, dict[str, float]]] = field(default_factory=list)  # (step, by task)

    @property
    def rows(self) -> list[Row]:
        """One row per loss and per score, in the order of the steps."""
        rows: list[Row] = []
        for step, losses in self.losses:
            rows += [
                {"step": step, "task": t, "what": "loss", "value": v} for t, v in losses.items()
            ]
        for entry in self.evaluations:
            for task, scores in entry["scores"].items():
                for name, value in scores.items():
                    rows.append({"step": entry["step"], "task": task, "what": name, "value": value})
        return sorted(rows, key=lambda row: int(row["step"] or 0))

    def to_frame(self) -> "pandas.DataFrame":
        """The rows as a pandas table."""
        table: pandas.DataFrame = need_pandas().DataFrame(self.rows)
        return table

    def __repr__(self) -> str:
        best = "" if self.best_score is None else f", best mean {100 * self.best_score:.1f}"
        at = "" if self.best_step < 0 else f" at step {self.best_step}"
        return f"History({self.step} steps in {self.seconds:.0f} s{best}{at})"

    def _repr_html_(self) -> str:
        series: dict[str, list[tuple[float, float]]] = {}
        for step, losses in self.losses:
            for task, loss in losses.items():
                series.setdefault(task, []).append((float(step), loss))
        lines = Lines(series, "step", "loss", "Training loss by task.")
        return frame("training", repr(self), [Section("losses", "Losses", [lines])], 420)


def fit(
    model: MultiTaskModel,
    tasks: Sequence[Task],
    *,
    folder: str | os.PathLike[str] | None = None,
    trackers: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
    progress: bool | None = None,
    report: Report | None = None,
    branch_at: Sequence[float] = (),
    branch_from: str | os.PathLike[str] | None = None,
    encoded: Mapping[str, Mapping[str, Encoded]] | None = None,
    methods: Sequence[Method] = (),
    **options: Unpack[FitOptions],
) -> History:
    if isinstance(callbacks, Callback):
        raise InputError("callbacks: expected a list, found one callback: put it in [ ]")
    for callback in callbacks:
        if not isinstance(callback, Callback):
            raise InputError(
                f"callbacks: expected objects of classes derived from bm.Callback, found "
                f"{type(callback).__name__}"
            )
    losses: list[tuple[int, dict[str, float]]] = []
    with watched(progress, report) as shown:

        def keep_losses(event: Event, facts: Document, /) -> None:
            if event == "step":
                losses.append((facts["step"], dict(facts["losses"])))
            shown(event, facts)

        calls = Calls(callbacks, model, keep_losses)
        found = trainer.fit(
            model,
            tasks,
            folder=None if folder is None else Path(folder),
            trackers=trackers,
            report=calls,
            branch_at=branch_at,
            branch_from=None if branch_from is None else Path(branch_from),
            encoded=encoded,
            methods=[*methods, calls] if callbacks else methods,
            **options,
        )
    if folder is not None:  # the log also knows earlier sessions
        log = read_log(Path(folder) / "log.jsonl")
        losses = [(entry["step"], entry["loss"]) for entry in log if "loss" in entry]
    return History(**asdict(found), losses=losses)


fit.__doc__ = f"""{trainer.fit.__doc__}
    `callbacks` are objects derived from `bm.Callback`. `progress` shows progress as the command
    line does: by default in a terminal or a notebook, never when the output goes to a file or a
    pipe; True and False override this. If you pass your own `report`, nothing is shown.
    """
