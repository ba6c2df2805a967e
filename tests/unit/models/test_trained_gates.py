"""Gates and masks that belong to a model: saved, trained, never chosen again, folded on export."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import brodmann as bm
from brodmann.errors import InputError
from brodmann.models.exports import stock_model
from brodmann.models.heads.trained_gates import ModelGates, gone_heads
from brodmann.training.fit import fit

TEXTS = ["the red cat sat", "an old dog", "big and sad the cat ran away"]


def tiny(tasks: list[Any], **options: Any) -> Any:
    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks, dropout=0.0, **options)
    return model.eval()


def answers(model: Any, task: str) -> torch.Tensor:
    return torch.tensor([list(a["probabilities"].values()) for a in model.predict(task, TEXTS)])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-1e4, 1e4), min_size=12, max_size=12), st.sets(st.integers(0, 11)))
def test_gates_stay_between_0_and_1(free: list[float], off: set[int]) -> None:
    gates = ModelGates((3, 4), trained=True)
    assert gates.free is not None
    with torch.no_grad():
        gates.free.copy_(torch.tensor(free))
    gates.switch_off([(place // 4, place % 4) for place in off])
    values = gates()
    assert bool(((values >= 0) & (values <= 1)).all())
    assert all(values[place // 4, place % 4] == 0 for place in off)
    assert gates.off() == sorted((place // 4, place % 4) for place in off)


def test_a_mask_is_what_gates_from_outside_do(tasks_of_every_kind: list[Any]) -> None:
    task = tasks_of_every_kind[0]
    model, heads = tiny([task]), [(0, 1), (2, 3), (2, 0)]
    plain = answers(model, task.name)
    with bm.head_gates(model, off=heads):
        expected = answers(model, task.name)
    model.switch_off(heads[:2])
    model.switch_off(heads[2:])
    assert torch.equal(answers(model, task.name), expected)
    assert not torch.equal(expected, plain)
    assert model.settings.gates == "mask" and gone_heads(model) == sorted(heads)
    assert not [name for name, _ in model.named_parameters() if name.startswith("gates")]


def test_gates_are_saved_with_the_model(tmp_path: Path, tasks_of_every_kind: list[Any]) -> None:
    task = tasks_of_every_kind[0]
    model = tiny([task], gates="trained")
    with torch.no_grad():
        model.gates.free.uniform_(-3, 3)
    model.switch_off([(1, 2)])
    model.save_pretrained(tmp_path / "model")
    again = bm.MultiTaskModel.from_pretrained(tmp_path / "model")
    assert torch.equal(again.gates(), model.gates())
    assert torch.equal(answers(again, task.name), answers(model, task.name))
    new = again.for_tasks([task])  # a start for something else keeps them
    assert torch.equal(new.gates(), model.gates())


@pytest.mark.parametrize("gates", ["trained", "mask"])
def test_an_export_holds_the_gates(gates: str, tasks_of_every_kind: list[Any]) -> None:
    task = tasks_of_every_kind[0]
    model = tiny([task], gates=gates, pooling="first")
    model.switch_off([(0, 0), (1, 3)])
    if gates == "trained":
        with torch.no_grad():
            model.gates.free.uniform_(-2, 2)
    stock = stock_model(model, task.name)
    inputs = model.tokenizer(TEXTS, return_tensors="pt", padding=True)
    with torch.no_grad():
        found = torch.softmax(stock(**inputs).logits, dim=-1)
    assert torch.allclose(found, answers(model, task.name), atol=1e-6)


def test_heads_that_are_off_stay_off_and_are_never_chosen(tasks_of_every_kind: list[Any]) -> None:
    """Through training, and in a map of heads: neither among the top nor among the least."""
    task = tasks_of_every_kind[0]
    model = tiny([task], gates="trained")
    off = [(0, 1), (1, 1), (2, 2)]
    model.switch_off(off)
    before = model.gates.free.detach().clone()
    fit(model, [task], epochs=2, learning_rate=1e-2, weight_decay=0.5, batch_size=4)
    assert model.gates.off() == off
    kept = model.gates.mask.flatten().bool()
    moved = model.gates.free.detach() != before
    assert bool(moved[kept].all()) and not bool(moved[~kept].any())
    scores = bm.head_importance(model, [task])
    assert scores.removed == tuple(off)
    everything = scores.top(1.0, task.name)
    assert set(off).isdisjoint(everything) and len(everything) == 12 - len(off)


def test_heads_left_on_can_be_dissociated(tasks_of_every_kind: list[Any]) -> None:
    """The heads that are off are in no one's top heads and in no random draw."""
    tasks = tasks_of_every_kind[:2]
    model = tiny(tasks, gates="mask")
    off = [(0, 1), (2, 3)]
    before = bm.head_importance(model, tasks, examples=4)
    model.switch_off(off)
    scores = bm.head_importance(model, tasks, examples=4)
    result = bm.dissociation(model, tasks, scores, alpha=0.5, draws=2, resamples=10)
    assert all(len(heads) == 5 and set(off).isdisjoint(heads) for heads in result.heads)
    with pytest.raises(InputError, match="the scores were measured on a model with other heads"):
        bm.dissociation(model, tasks, before, alpha=0.5, draws=2, resamples=10)


def test_only_the_gates_of_chosen_heads_move(tasks_of_every_kind: list[Any]) -> None:
    task = tasks_of_every_kind[0]
    model = tiny([task], gates="trained")
    before = model.gates.free.detach().clone()
    special = bm.IAT(alpha=0.25, delta=1.0, variant="random", examples=4)
    fit(model, [task], epochs=2, learning_rate=1e-2, batch_size=4, specialize=special)
    moved = (model.gates.free.detach() != before).view(3, 4)
    assert int(moved.sum()) == 3  # a quarter of 12 heads


def test_a_student_starts_without_the_heads_that_are_off(tasks_of_every_kind: list[Any]) -> None:
    from brodmann.training.methods.distillation import make_student

    task = tasks_of_every_kind[0]
    teacher = tiny([task])
    teacher.switch_off([(0, 0), (0, 1), (1, 2), (2, 3)])
    student = make_student(teacher, {"num_hidden_layers": 3}).eval()
    inputs = teacher.tokenizer(TEXTS, return_tensors="pt", padding=True)
    with torch.no_grad():
        with bm.head_gates(teacher.encoder, off=teacher.gates.off()):
            expected = teacher.encoder.backbone(**inputs).last_hidden_state
        found = student.encoder.backbone(**inputs).last_hidden_state
    assert torch.allclose(found, expected, atol=1e-6) and student.gates is None


def test_few_shot_transfer_begins_with_the_same_gates(tasks_of_every_kind: list[Any]) -> None:
    from brodmann.training.few_shot import Amount, transfer

    task = tasks_of_every_kind[0]
    start = tiny([task], gates="trained")
    options = {"epochs": 3, "learning_rate": 1e-2}
    first = list(transfer({"a": start}, task, [Amount(examples=4)], [2], **options))
    again = list(
        transfer({"a": start}, task, [Amount(examples=4)], [2], done={("a", "4", 0)}, **options)
    )
    assert first[1] == again[0]  # the second draw does not know of the first


def test_wrong_gates_are_refused(tasks_of_every_kind: list[Any]) -> None:
    with pytest.raises(InputError, match="gates = 'traned'"):
        tiny(tasks_of_every_kind[:1], gates="traned")
    with pytest.raises(InputError, match=r"outside the model's 3 layers"):
        tiny(tasks_of_every_kind[:1]).switch_off([(7, 0)])
