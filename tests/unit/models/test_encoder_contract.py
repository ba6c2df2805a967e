"""What every architecture promises: `Encoder`, and the capabilities stated in `ARCHITECTURES`."""

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.checkers import assert_same_bits
from tests.families import shaken
from torch import nn

import brodmann as bm
from brodmann.data.batches import Batch, make_batch
from brodmann.models.controls import rotations
from brodmann.models.derived import plain_backbone
from brodmann.models.encoders import ARCHITECTURES
from brodmann.models.encoders.task_context import exchanged_tasks

every_architecture = pytest.mark.parametrize("name", ARCHITECTURES)


@pytest.fixture
def tasks(tasks_of_every_kind: list[Any]) -> list[Any]:
    return tasks_of_every_kind[:4]


def build(name: str, tasks: list[Any], **options: Any) -> bm.MultiTaskModel:
    """A model whose weights have all left the values they start at."""
    model = bm.MultiTaskModel.from_pretrained(
        "builtin:tiny", tasks, architecture=name, max_length=32, **options
    )
    return shaken(model).eval()  # type: ignore[no-any-return]


def batch_of(model: Any, tasks: list[Any], items: tuple[int, ...] = (0, 3, 5)) -> Batch:
    encoded = [(t.name, model.encode(t.spec, t.splits["train"]), np.array(items)) for t in tasks]
    return make_batch(encoded, pad_id=0)


@every_architecture
def test_a_mixed_batch_equals_separate_batches(name: str, tasks: list[Any]) -> None:
    model = build(name, tasks)
    with torch.no_grad():
        mixed = model(batch_of(model, tasks))
        for place, task in enumerate(tasks):
            alone = model(batch_of(model, [task]))
            torch.testing.assert_close(mixed.losses[place], alone.losses[0], atol=1e-4, rtol=1e-4)


@every_architecture
def test_a_loss_reaches_no_part_of_another_task(name: str, tasks: list[Any]) -> None:
    model = build(name, tasks)
    model(batch_of(model, tasks[:1])).losses[0].sum().backward()
    own = {id(p) for p in model.encoder.task_parameters(tasks[0].name)}
    foreign = [p for task in tasks[1:] for p in model.encoder.task_parameters(task.name)]
    assert all(p.grad is None or not p.grad.any() for p in foreign if id(p) not in own)
    assert any(p.grad is not None and p.grad.any() for p in model.encoder.parameters())


@every_architecture
def test_saving_keeps_every_bit(name: str, tasks: list[Any], tmp_path: Path) -> None:
    model = build(name, tasks)
    model.save_pretrained(tmp_path / "model")
    again = bm.MultiTaskModel.from_pretrained(tmp_path / "model").eval()
    assert list(model.state_dict()) == list(again.state_dict())
    assert_same_bits(model, again)
    batch = batch_of(model, tasks)
    with torch.no_grad():
        assert_same_bits(model(batch).logits, again(batch).logits)


@every_architecture
def test_a_new_task_leaves_the_others_as_they_are(name: str, tasks: list[Any]) -> None:
    *known, new = tasks
    model = build(name, known)
    batch = batch_of(model, known)
    with torch.no_grad():
        before = model(batch).logits
        model.add_task(new, like=known[0].name)
        after = model(batch).logits
        answers = model(batch_of(model, [new])).logits[0]
    assert_same_bits(before, after)
    assert torch.isfinite(answers).all()
    assert bool(model.encoder.task_parameters(new.name)) == ARCHITECTURES[name].task_parts


@every_architecture
def test_parts_and_rates_name_what_is_there(name: str, tasks: list[Any]) -> None:
    encoder = build(name, tasks).encoder
    names = [key for key, _ in encoder.named_parameters()]
    used = {next((p for p in encoder.PARTS if fnmatchcase(key, f"{p}*")), None) for key in names}
    assert set(encoder.PARTS) - used <= {"embedding.", "poolers."}  # some variants lack them
    assert set(encoder.RATES) <= set(encoder.PARTS.values())


@every_architecture
def test_paths_hold_every_backbone(name: str, tasks: list[Any]) -> None:
    model = build(name, tasks)
    backbones = {id(model.encoder.backbone_of(task.name)) for task in tasks}
    assert backbones == {id(path) for path in model.encoder.paths()}
    assert (len(backbones) == len(tasks)) or not ARCHITECTURES[name].separate
    assert [id(p.base_model) for p in model.paths()] == [id(b) for b in model.bare_models()]


@every_architecture
def test_capabilities_are_true(name: str, tasks: list[Any]) -> None:
    architecture, model = ARCHITECTURES[name], build(name, tasks)
    inputs = batch_of(model, tasks[:1]).inputs
    part = batch_of(model, tasks[:1]).parts[0]

    def states(task: str) -> torch.Tensor:
        part.task = task
        found: torch.Tensor = model.encoder(inputs, [part])[0].last_hidden_state
        return found

    with torch.no_grad():
        first, second = (states(task.name) for task in tasks[:2])
        assert torch.equal(first, second) or not architecture.one_pass
        bare = (
            model.encoder.backbone_of(tasks[0].name)(**inputs).last_hidden_state
            if architecture.plain
            else None
        )
        assert bare is None or torch.equal(first, bare)
        if architecture.knows_tasks:
            with exchanged_tasks(rotations([t.name for t in tasks])[0]):
                assert not torch.equal(states(tasks[0].name), first)
    fresh = bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks, architecture=name)
    trained = [n for n, p in fresh.encoder.named_parameters() if p.requires_grad]
    heads = [n for n in trained if "attention.self" in n and ".lora_" not in n]
    assert bool(heads) == architecture.trains_heads


@pytest.mark.parametrize("name", [n for n, one in ARCHITECTURES.items() if one.stands_alone])
def test_a_plain_backbone_gives_a_task_the_same(name: str, tasks: list[Any]) -> None:
    model = build(name, tasks)
    for task in tasks[:2]:
        batch = batch_of(model, [task])
        bare = plain_backbone(model, task.name)
        assert type(bare) is type(model.encoder.backbone_of(task.name))
        assert not any(".lora_" in key or ".base_layer" in key for key in bare.state_dict())
        with torch.no_grad():
            torch.testing.assert_close(
                bare(**batch.inputs).last_hidden_state,
                model.states(batch.inputs, batch.parts)[0].last_hidden_state,
                atol=1e-4,
                rtol=1e-4,
            )


@every_architecture
def test_the_parameters_build_the_same_encoder_again(name: str, tasks: list[Any]) -> None:
    model = build(name, tasks)
    described = model.encoder.describe(model.settings.parameters)
    again = build(name, tasks, parameters=described)
    assert again.encoder.describe(described) == described
    shapes = [
        [(key, value.shape) for key, value in one.encoder.named_parameters()]
        for one in (model, again)
    ]
    assert shapes[0] == shapes[1]
    activated = model.encoder.activated_parameters()
    assert activated is None or activated <= sum(p.numel() for p in model.encoder.parameters())


@every_architecture
def test_a_head_that_is_off_is_off_for_every_task(name: str, tasks: list[Any]) -> None:
    """On the layers of every path, not only on those of the first."""
    model = build(name, tasks, gates="mask")
    last = int(model.config.num_hidden_layers) - 1
    batch = batch_of(model, tasks)
    with torch.no_grad():
        before = model(batch).logits
        model.switch_off([(last, 0), (last, 1)])
        for one, other in zip(before, model(batch).logits, strict=True):
            assert not torch.equal(one, other)


@every_architecture
def test_backward_passes_follow_what_is_frozen(name: str) -> None:
    architecture = ARCHITECTURES[name]
    assert 0 < architecture.backward_passes(0.0, {}) <= 2
    assert 0 <= architecture.backward_passes("encoder", {}) <= 2


def test_encoders_are_modules(tasks: list[Any]) -> None:
    for name in ARCHITECTURES:
        assert isinstance(build(name, tasks).encoder, nn.Module)
