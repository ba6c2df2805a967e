"""What every method of training promises: `Method` in `training/methods`, over all of `METHODS`."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from tests.checkers import assert_other_bits, assert_same_bits, weights
from tests.test_pinned_values import OPTIONS, three_tasks

import brodmann as bm
from brodmann.data.batches import Batch
from brodmann.errors import Interrupted
from brodmann.training.batching import BatchSource
from brodmann.training.methods import METHODS, Method, Setup, make_methods
from brodmann.training.settings import Options

STEPS = 4
TRAINING = {"max_steps": STEPS, "batch_size": 4, "learning_rate": 1e-3, "precision": "float32"}
every_method = pytest.mark.parametrize("name", METHODS)


@pytest.fixture(scope="module")
def tasks() -> list[Any]:
    return three_tasks()


def build(name: str, tasks: list[Any]) -> Any:
    gates = {"gates": "trained"} if name == "sparsity" else {}
    return bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks, max_length=32, seed=0, **gates)


def options_of(name: str, **more: Any) -> dict[str, Any]:
    """Options of `fit` that ask for this method."""
    return {**TRAINING, "epochs": 2, "keep": "last", "accumulation": 2, **OPTIONS[name], **more}


def make(name: str, model: Any, **options: Any) -> Method | None:
    setup = Setup(model, model, Options(**options), STEPS, 1, Accelerator(cpu=True))
    found: Method | None = import_module(METHODS[name]).make(setup)
    return found


def begun(name: str, tasks: list[Any]) -> tuple[Any, Method]:
    """A model and its method, which has begun."""
    model = build(name, tasks)
    method = make(name, model, **options_of(name))
    assert method is not None
    if not method.is_active():
        method.switch(tasks)
    return model, method


def batch_of(model: Any, tasks: list[Any]) -> Batch:
    sets = {task.name: model.encode(task.spec, task.splits["train"]) for task in tasks}
    names = [task.name for task in tasks]
    source = BatchSource(model, names, sets, Options(batch_size=4, epochs=1), 0, 1)
    return source.next(torch.device("cpu"), apart=True)[0][0]


def hooks_of(model: Any) -> int:
    """Number of hooks on modules and parameters."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    on_modules = sum(len(getattr(module, k)) for module in model.modules() for k in kinds)
    return on_modules + sum(len(p._backward_hooks or ()) for p in model.parameters())


@every_method
def test_it_is_made_only_if_its_option_asks_for_it(name: str, tasks: list[Any]) -> None:
    model = build(name, tasks)
    assert name in Options.model_fields
    assert make(name, model, **TRAINING) is None
    method = make(name, model, **options_of(name))
    assert isinstance(method, Method)
    assert method.name == name  # the key of its state in a checkpoint
    setup = Setup(model, model, Options(**options_of(name)), STEPS, 1, Accelerator(cpu=True))
    own = Method()
    assert [one.name for one in make_methods(setup, [own])] == ["", name]


@every_method
def test_it_begins_at_a_step_of_the_run_or_at_once(name: str, tasks: list[Any]) -> None:
    method = make(name, build(name, tasks), **options_of(name))
    assert method is not None
    later = method.begins is not None
    assert method.is_active() != later
    assert method.state() is None or not later
    assert not method.splits_batches() or not later
    if later:
        assert 0 <= method.begins < STEPS  # type: ignore[operator]
        facts = method.switch(tasks)
        assert json.loads(json.dumps(facts)) is not None
        assert method.is_active() and method.state() is not None
        assert method.identity(shared_steps=True) == {} != method.identity(shared_steps=False)
    line = method.begun()
    assert line and "\n" not in line and not line.endswith(".")
    method.close()


@every_method
def test_its_state_is_json_and_restores_it(name: str, tasks: list[Any]) -> None:
    _, method = begun(name, tasks)
    state = json.loads(json.dumps(method.state()))
    other = make(name, build(name, tasks), **options_of(name))
    assert other is not None
    if state is not None:
        other.restore(state)
    assert other.is_active()
    assert json.dumps(other.state()) == json.dumps(method.state())
    assert other.splits_batches() == method.splits_batches()
    for one in (method, other):
        one.close()


@every_method
def test_the_hooks_of_a_step_keep_to_the_contract(name: str, tasks: list[Any]) -> None:
    """A pass has gradients, `combine` leaves finite ones, and terms are shares of a whole."""
    model, method = begun(name, tasks)
    batch = batch_of(model, tasks)
    model.train()
    whole, half = method.term(1.0), method.term(0.5)
    assert (whole is None) == (half is None)
    if whole is not None and half is not None:
        assert whole.dim() == 0 and torch.isfinite(whole)
        torch.testing.assert_close(half * 2, whole)
    with method.reading(batch):
        loss = torch.cat(model(batch).losses).mean()
        term = method.term(1.0)
        (loss if term is None else loss + term).backward()
    method.combine()
    found = [p.grad for p in model.parameters() if p.grad is not None]
    assert found and all(torch.isfinite(gradient).all() for gradient in found)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
    before = weights(model)
    with method.around_step([batch.parts[0].task], optimizer):
        optimizer.step()
    assert_other_bits(before, model)
    method.close()


@every_method
def test_closing_leaves_nothing_attached(name: str, tasks: list[Any]) -> None:
    model = build(name, tasks)
    before = hooks_of(model)
    method = make(name, model, **options_of(name))
    assert method is not None
    if not method.is_active():
        method.switch(tasks)
        assert hooks_of(model) > before
    method.close()
    method.close()  # also after an error, when it may have been closed before
    assert hooks_of(model) == before


@every_method
def test_it_changes_training_and_repeats_to_the_bit(name: str, tasks: list[Any]) -> None:
    models = [build(name, tasks) for _ in range(3)]
    for model in models[:2]:
        bm.fit(model, tasks, **options_of(name))
    plain = {key: value for key, value in options_of(name).items() if key != name}
    bm.fit(models[2], tasks, **plain)
    assert_same_bits(models[0], models[1])
    assert_other_bits(models[0], models[2])


@every_method
def test_an_interrupted_run_resumes_to_the_bit(name: str, tasks: list[Any], tmp_path: Path) -> None:
    whole, first, second = (build(name, tasks) for _ in range(3))
    bm.fit(whole, tasks, **options_of(name))

    def stop(event: str, facts: dict[str, Any]) -> None:
        if event == "step" and facts["step"] == STEPS:  # after a checkpoint at STEPS - 1
            raise Interrupted("stopped", 2)

    kept = options_of(name, checkpoint_every=1, folder=tmp_path)
    with pytest.raises(Interrupted):
        bm.fit(first, tasks, report=stop, **kept)
    resumed: list[int] = []

    def note(event: str, facts: dict[str, Any]) -> None:
        if event == "resume":
            resumed.append(facts["step"])

    bm.fit(second, tasks, report=note, **kept)
    assert resumed == [STEPS - 1]
    assert_same_bits(whole, second)
