"""`bm.fit`: callbacks, history and options."""

import typing
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.conftest import every_kind

import brodmann as bm
from brodmann.training.fit_options import FitOptions
from brodmann.training.settings import Options

QUICK: dict[str, Any] = {"epochs": 1, "batch_size": 4, "keep": "last", "evaluate_every": 2}


class Recorder(bm.Callback):
    def __init__(self, *, stop_at: int = 10**9) -> None:
        self.calls: list[tuple[str, int]] = []
        self.stop_at = stop_at

    def on_train_begin(self, state: bm.TrainingState) -> None:
        self.calls.append(("begin", state.step))

    def on_step_end(self, state: bm.TrainingState) -> None:
        self.calls.append(("step", state.step))
        assert state.losses and state.examples > 0
        state.should_stop = state.step >= self.stop_at

    def on_evaluate(self, state: bm.TrainingState) -> None:
        self.calls.append(("evaluate", state.step))
        assert state.mean is not None and set(state.scores) == set(state.model.specs)

    def on_save(self, state: bm.TrainingState) -> None:
        self.calls.append(("save", state.step))
        assert state.folder is not None

    def on_train_end(self, state: bm.TrainingState) -> None:
        self.calls.append(("end", state.step))


@pytest.fixture(scope="module")
def tasks() -> list[bm.Task]:
    return bm.load_tasks(every_kind(16)[:2])


def model_of(tasks: list[bm.Task]) -> bm.MultiTaskModel:
    return bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks, max_length=32)


def test_callbacks_are_called_in_order(tasks: list[bm.Task], tmp_path: Path) -> None:
    seen = Recorder()
    options = QUICK | {"max_steps": 3}
    bm.fit(model_of(tasks), tasks, callbacks=[seen], folder=tmp_path, **options)
    steps = [("step", 1), ("step", 2), ("evaluate", 2), ("save", 2), ("step", 3)]
    assert seen.calls == [("begin", 0), *steps, ("evaluate", 3), ("save", 3), ("end", 3)]


def test_a_callback_ends_training(tasks: list[bm.Task]) -> None:
    history = bm.fit(model_of(tasks), tasks, callbacks=[Recorder(stop_at=2)], **QUICK)
    assert history.step == 2


def test_callbacks_do_not_change_the_weights(tasks: list[bm.Task]) -> None:
    weights = []
    for callbacks in ([], [Recorder()]):
        model = model_of(tasks)
        bm.fit(model, tasks, callbacks=callbacks, **(QUICK | {"max_steps": 3}))
        weights.append(model.state_dict())
    assert all(weights[0][name].equal(weights[1][name]) for name in weights[0])


def test_what_is_no_callback_is_one_line(tasks: list[bm.Task]) -> None:
    with pytest.raises(bm.InputError) as caught:
        bm.fit(model_of(tasks), tasks, callbacks=[print], **QUICK)  # type: ignore[list-item]
    assert str(caught.value) == (
        "callbacks: expected objects of classes derived from bm.Callback, found "
        "builtin_function_or_method"
    )


def test_the_history_has_losses_and_scores(tasks: list[bm.Task], tmp_path: Path) -> None:
    history = bm.fit(model_of(tasks), tasks, **(QUICK | {"max_steps": 4}))
    frame = history.to_frame()
    losses = frame[frame.what == "loss"]
    assert set(losses.step) == {1, 2, 3, 4} and (losses.value > 0).all()
    assert set(frame[frame.what == "accuracy"].step) == {2, 4}
    assert repr(history).startswith("History(4 steps in ")
    assert history._repr_html_().startswith("<iframe srcdoc=")


def test_a_resumed_training_returns_the_whole_history(tasks: list[bm.Task], tmp_path: Path) -> None:
    stopped = Recorder(stop_at=2)
    bm.fit(model_of(tasks), tasks, callbacks=[stopped], folder=tmp_path, max_steps=4, **QUICK)
    history = bm.fit(model_of(tasks), tasks, folder=tmp_path, max_steps=4, **QUICK)
    assert history.step == 4 and history.losses[0][0] <= 4
    assert [entry["step"] for entry in history.evaluations] == [2, 4]


def test_the_typed_options_are_the_settings() -> None:
    typed = typing.get_type_hints(FitOptions)
    assert set(typed) == set(Options.model_fields)
    for name, annotation in typed.items():
        field = Options.model_fields[name]
        wanted = set(get_args(annotation)) or {annotation}
        allows_none = field.default is None and not field.is_required()
        assert (type(None) in wanted) == (allows_none or name == "clip"), name
