"""Distillation: the losses by hand, a student that learns, and nothing left behind."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.checkers import assert_keeps_bits, assert_same_bits, weights
from tests.families import shaken

import brodmann as bm
from brodmann.data.batches import make_batch
from brodmann.training.methods.distillation import Distillation, specialized_phase
from brodmann.training.methods.students import make_student, teacher_layer

SMALL = {"num_hidden_layers": 1, "hidden_size": 24, "num_attention_heads": 2}
SMALL |= {"intermediate_size": 32}


def teacher(tasks: list[Any]) -> Any:
    return bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks).eval()


def a_batch(model: Any, task: Any) -> Any:
    encoded = model.encode(task.spec, task.splits["train"])
    items = np.arange(min(5, encoded.items))
    pad = model.tokenizer.pad_token_id
    return make_batch([(task.name, encoded, items)], pad_id=pad)


def test_student_layers_learn_from_the_right_teacher_layers() -> None:
    assert [teacher_layer(m, 3, 6) for m in range(4)] == [0, 2, 4, 6]
    assert [teacher_layer(m, 4, 6) for m in range(5)] == [0, 1, 3, 4, 6]
    assert [teacher_layer(m, 1, 3) for m in range(2)] == [0, 3]


@pytest.mark.parametrize("sizes", [SMALL, {"num_hidden_layers": 2}])
def test_layer_losses_by_hand(tasks_of_every_kind: list[Any], sizes: dict[str, int]) -> None:
    large = teacher(tasks_of_every_kind)
    small = make_student(large, sizes, seed=1).eval()
    objective = Distillation(large, small, "layers")
    task = tasks_of_every_kind[1]
    batch = a_batch(large, task)
    with objective, torch.no_grad():
        found = objective(batch).losses[0]
        states = [
            model.bare_models()[0](**batch.inputs, output_attentions=True,
                                   output_hidden_states=True)
            for model in (small, large)
        ]  # fmt: skip
    ours, theirs = states
    layers = len(ours.attentions)
    for row in range(len(found)):
        length = int(batch.inputs["attention_mask"][row].sum())
        total = 0.0
        for m in range(layers + 1):
            state = ours.hidden_states[m][row, :length]
            if objective.projection is not None:
                state = state @ objective.projection.weight.detach().T
            target = theirs.hidden_states[teacher_layer(m, layers, 3)][row, :length]
            total += float((state - target).square().mean())
            if m:
                maps = [
                    a[row, :, :length, :length].clamp(min=1e-6).log()
                    for a in (
                        ours.attentions[m - 1],
                        theirs.attentions[teacher_layer(m, layers, 3) - 1],
                    )
                ]
                if maps[0].shape[0] != maps[1].shape[0]:
                    maps = [a.mean(dim=0, keepdim=True) for a in maps]
                total += float((maps[0] - maps[1]).square().mean())
        assert float(found[row]) == pytest.approx(total, rel=1e-4)


@pytest.mark.parametrize("place", range(7))
def test_a_student_equal_to_its_teacher_has_only_the_teachers_entropy(
    place: int, tasks_of_every_kind: list[Any]
) -> None:
    """Soft cross-entropy is least where both agree, for every kind; finite with padding."""
    large, same = (shaken(teacher(tasks_of_every_kind)) for _ in range(2))
    other = make_student(large, {"num_hidden_layers": 1})
    task = tasks_of_every_kind[place]
    batch = a_batch(large, task)
    for temperature in (1.0, 2.0):
        losses = []
        for student in (same, other.eval()):
            objective = Distillation(large, student, "prediction", temperature=temperature)
            with objective, torch.no_grad():
                losses.append(objective(batch).losses[0])
        assert torch.isfinite(losses[0]).all() and torch.isfinite(losses[1]).all()
        assert len(losses[0]) == len(batch.parts[0].items)
        assert (losses[1] >= losses[0] - 1e-6).all() and losses[1].sum() > losses[0].sum()


@pytest.mark.long
def test_a_student_learns_from_its_teacher_and_nothing_stays(tmp_path: Path) -> None:
    sizes_of = {"sentiment": 60, "entities": 300}
    tasks = bm.load_tasks(
        [
            {"use": f"builtin/{name}", "limit": {"train": size, "validation": 60, "test": 8}}
            for name, size in sizes_of.items()
        ]
    )
    large = bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks)
    bm.fit(large, tasks, epochs=4, learning_rate=3e-3, batch_size=16)
    before = weights(large)
    options: Any = {"learning_rate": 3e-3, "batch_size": 16}
    sizes = {"num_hidden_layers": 2, "hidden_size": 48, "intermediate_size": 64}
    small = bm.distill(large, tasks, sizes, layer_epochs=1, prediction_epochs=4, **options)
    for name, value in large.state_dict().items():
        assert value.equal(before[name])  # the teacher does not move
    assert small.config._attn_implementation == "sdpa" and not small.config.output_attentions
    assert small.parameter_counts()["total"] < large.parameter_counts()["total"]
    scores = bm.evaluate(small, tasks)
    assert scores["entities"].scores["entity_f1"] > 0.25  # 0 before, and of the trivial answer
    small.save_pretrained(tmp_path / "small")
    again = bm.MultiTaskModel.from_pretrained(tmp_path / "small")
    assert again.config.hidden_size == 48 and again.config.num_hidden_layers == 2
    assert not any("projection" in name for name in again.state_dict() if "encoder" not in name)


def test_a_stopped_distillation_goes_on_with_the_same_bits(
    tasks_of_every_kind: list[Any], tmp_path: Path
) -> None:
    import os
    import signal

    large = teacher(tasks_of_every_kind)
    options: Any = {"batch_size": 8, "learning_rate": 1e-3, "checkpoint_every": 3, "keep": "last"}
    sizes: Any = {"layer_epochs": 1, "prediction_epochs": 1, **options}
    straight = bm.distill(large, tasks_of_every_kind, SMALL, folder=tmp_path / "a", **sizes)
    for stop_at, phase in ((5, 0), (9, 1)):
        seen = {"phase": -1}

        def stop(
            event: str,
            facts: dict[str, Any],
            seen: Any = seen,
            at: int = stop_at,
            wanted: int = phase,
        ) -> None:
            seen["phase"] += event == "start"
            if event == "step" and facts["step"] == at and seen["phase"] == wanted:
                os.kill(os.getpid(), signal.SIGTERM)

        folder = tmp_path / f"b{phase}"
        with pytest.raises(bm.errors.Interrupted):
            bm.distill(large, tasks_of_every_kind, SMALL, folder=folder, report=stop, **sizes)
        again = bm.distill(large, tasks_of_every_kind, SMALL, folder=folder, **sizes)
        assert_same_bits(straight, again)


def test_a_student_of_equal_width_begins_with_its_teachers_layers(
    tasks_of_every_kind: list[Any],
) -> None:
    large = teacher(tasks_of_every_kind)
    small = make_student(large, {"num_hidden_layers": 1})
    ours, theirs = (m.bare_models()[0] for m in (small, large))
    assert ours.embeddings.word_embeddings.weight.equal(theirs.embeddings.word_embeddings.weight)
    assert ours.encoder.layer[0].output.dense.weight.equal(
        theirs.encoder.layer[2].output.dense.weight
    )


def test_the_layer_phase_ends_with_its_last_step(
    tasks_of_every_kind: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores of answers that nobody has learnt yet choose no step and stop nothing."""
    from brodmann.training.methods import distillation

    seen = []

    def note(*args: Any, **options: Any) -> None:
        seen.append({key: options.get(key) for key in ("keep", "early_stopping")})

    monkeypatch.setattr(distillation, "fit", note)
    wanted = {"keep": "best", "early_stopping": 1}
    bm.distill(teacher(tasks_of_every_kind), tasks_of_every_kind, SMALL, **wanted)
    assert seen == [{"keep": "last", "early_stopping": None}, wanted]


def test_a_pruned_teacher(tasks_of_every_kind: list[Any]) -> None:
    large = teacher(tasks_of_every_kind)
    bm.prune_heads(large, [(2, 0), (2, 1)])
    small = make_student(large, SMALL)
    assert small.bare_models()[0].encoder.layer[0].attention.self.query.weight.shape == (24, 24)
    bm.prune_heads(large, [(2, 2), (2, 3)])
    with pytest.raises(bm.InputError, match="the teacher has layers without a head"):
        Distillation(large, small, "layers")
    Distillation(large, small, "prediction")


def test_impossible_students_are_named(tasks_of_every_kind: list[Any]) -> None:
    large = teacher(tasks_of_every_kind)
    for sizes, message in (
        ({"num_hiden_layers": 2}, "has no 'num_hiden_layers'; did you mean 'num_hidden_layers'?"),
        ({"hidden_size": 30}, "hidden_size = 30 is not a multiple of num_attention_heads = 4"),
        ({"num_hidden_layers": 9}, "9 layers are more than the teacher's 3"),
    ):
        with pytest.raises(bm.InputError, match=message.replace("?", r"\?")):
            make_student(large, sizes)
    single = bm.MultiTaskModel.from_pretrained(
        "builtin:tiny", tasks_of_every_kind, architecture="single"
    )
    with pytest.raises(bm.InputError) as caught:
        make_student(single, SMALL)
    assert str(caught.value) == (
        "architecture 'single': distillation needs one encoder for all tasks ('shared'), or a "
        "student that is a checkpoint"
    )
    paths = bm.MultiTaskModel.from_pretrained(
        "builtin:tiny", tasks_of_every_kind, architecture="hmnet"
    )
    with pytest.raises(bm.InputError) as caught:
        make_student(paths, "builtin:tiny")
    assert str(caught.value) == (
        "architecture 'hmnet': distillation needs a teacher that is 'shared' or 'single'"
    )


def test_mixed_batches_are_refused(tasks_of_every_kind: list[Any]) -> None:
    large = teacher(tasks_of_every_kind)
    with pytest.raises(bm.InputError, match="batches of one task"):
        bm.distill(large, tasks_of_every_kind, SMALL, sampling="uncertainty")


@pytest.mark.parametrize("architecture", ["shared", "single"])
def test_a_student_begins_with_the_weights_of_a_checkpoint(
    tasks_of_every_kind: list[Any], tmp_path: Path, architecture: str
) -> None:
    """One encoder for all tasks, or one per task as its teacher has; teacher and mode unchanged."""
    tasks = tasks_of_every_kind[:2]
    large = bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks, architecture=architecture)
    start = shaken(bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks, seed=7))
    start.save_pretrained(tmp_path / "start")
    small = make_student(large, str(tmp_path / "start"), seed=3)
    assert small.settings.architecture == architecture
    assert small.settings.backbone == str(tmp_path / "start")
    expected = start.bare_models()[0].state_dict()
    assert len(small.bare_models()) == (1 if architecture == "shared" else 2)
    for bare in small.bare_models():
        assert_keeps_bits(bare, expected)
    before = weights(large)
    learnt = bm.distill(
        large, tasks, str(tmp_path / "start"), layer_epochs=2, prediction_epochs=1,
        batch_size=8, learning_rate=1e-3, keep="last",
    )  # fmt: skip
    assert_same_bits(large, before)
    for bare in (*learnt.bare_models(), *large.bare_models()):
        assert bare.config._attn_implementation == "sdpa" and not bare.config.output_attentions
        assert not bare.config.output_hidden_states
    batch = a_batch(large, tasks[0])
    losses = []
    for student in (small, learnt):
        objective = Distillation(large, student.eval(), "layers")
        with objective, torch.no_grad():
            losses.append(float(objective(batch).losses[0].mean()))
    assert losses[1] < losses[0]  # its layers have come nearer to the teacher's


def test_the_share_of_specialized_steps_counts_both_phases() -> None:
    found = specialized_phase(bm.IAT(delta=0.1), 2, 3)
    assert found is not None and found.switch(300) == 250  # of 500 steps the last 50
    assert found.alpha == 0.3 and specialized_phase(None, 2, 3) is None
    plain = bm.IAT(delta=0)
    assert specialized_phase(plain, 2, 3) is plain
    assert specialized_phase(bm.IAT(delta=0.6), 2, 3).switch(30) == 0  # type: ignore[union-attr]
