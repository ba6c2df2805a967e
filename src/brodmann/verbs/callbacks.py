"""Call your own code during training: `bm.fit(..., callbacks=[...])`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from brodmann.files import Document
from brodmann.training.events import Event, Report
from brodmann.training.methods import Method

if TYPE_CHECKING:
    from brodmann.models.multitask import MultiTaskModel


@dataclass
class TrainingState:
    """Where training is, as callbacks see it; set `should_stop` to end training."""

    model: "MultiTaskModel"
    step: int = 0
    steps: int = 0  # of the whole training
    losses: dict[str, float] = field(default_factory=dict)  # of the last step, by task
    examples: int = 0  # trained on so far
    scores: dict[str, float] = field(default_factory=dict)  # of the last evaluation, by task
    mean: float | None = None  # over tasks
    best_step: int = -1  # of the best evaluation so far
    folder: Path | None = None  # of the last checkpoint
    should_stop: bool = False


class Callback:
    """Override what you need; the names are those of transformers' callbacks."""

    def on_train_begin(self, state: TrainingState) -> None:
        """Before the first step, of a resumed training too."""

    def on_step_end(self, state: TrainingState) -> None:
        """After every step."""

    def on_evaluate(self, state: TrainingState) -> None:
        """After every evaluation."""

    def on_save(self, state: TrainingState) -> None:
        """After every checkpoint; there are none without a `folder`."""

    def on_train_end(self, state: TrainingState) -> None:
        """After the last step."""


class Calls(Method):
    """Turns events into calls of callbacks, and passes the events on."""

    name = "callbacks"

    def __init__(
        self, callbacks: Sequence[Callback], model: "MultiTaskModel", report: Report
    ) -> None:
        self.callbacks, self.report = callbacks, report
        self.current = TrainingState(model)

    def __call__(self, event: Event, facts: Document, /) -> None:
        self.report(event, facts)
        state = self.current
        if event == "start":
            state.step, state.steps = facts["step"], facts["steps"]
            self._call("on_train_begin")
        elif event == "step":
            state.step, state.examples = facts["step"], facts["examples"]
            state.losses = dict(facts["losses"])
            self._call("on_step_end")
        elif event == "evaluated":
            state.scores, state.mean = dict(facts["primary"]), facts["mean"]
            state.best_step = facts["best"]
            self._call("on_evaluate")
        elif event == "saved":
            state.folder = facts["folder"]
            self._call("on_save")
        elif event == "end":
            self._call("on_train_end")

    def _call(self, name: str) -> None:
        for callback in self.callbacks:
            getattr(callback, name)(self.current)

    def stops(self) -> bool:
        return self.current.should_stop
