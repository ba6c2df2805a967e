"""Paths through shared, cluster and task layers; skills: what equals what, what touches what."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.families import CONFIGS, padded_inputs, tiny
from tests.unit.models.test_conditional import CONDITIONED, bert, encoder_of, parts, states

import brodmann as bm
from brodmann.data.tasks import TaskSpec
from brodmann.models.backbone.anatomy import layers_of
from brodmann.models.encoders import ARCHITECTURES
from brodmann.models.encoders.hmnet import default_depths
from brodmann.models.encoders.skillnet import skills_of

CLUSTERS = [["a", "b"], ["c"]]


@pytest.mark.parametrize("family", [name for name in CONFIGS if name != "albert"])
def test_at_the_start_every_path_is_the_backbone(family: str) -> None:
    plain = tiny(family)
    specs = [TaskSpec(n, "classification", labels=("x", "y")) for n in ("a", "b", "c")]
    encoder = (
        ARCHITECTURES["hmnet"]
        .build(tiny(family), specs, 16, clusters=CLUSTERS, shared=0, clustered=1, specific=1)
        .eval()
    )
    inputs = padded_inputs()
    with torch.no_grad():
        expected = plain(**inputs).last_hidden_state
        for task in "abc":
            found = encoder(inputs, parts((task, 3)))[0].last_hidden_state
            assert torch.equal(found, expected), task
        mixed = encoder(inputs, parts(("c", 1), ("a", 2)))
    real = inputs["attention_mask"].bool()
    together = torch.cat([one.last_hidden_state for one in mixed])
    torch.testing.assert_close(together[real], expected[real], atol=1e-5, rtol=1e-5)


def test_a_loss_leaves_gradients_only_on_its_own_path() -> None:
    encoder, _ = encoder_of("bert", "hmnet", clusters=CLUSTERS, shared=0, clustered=1, specific=1)
    states(encoder, padded_inputs(2), ("c", 2))[0].sum().backward()
    touched = {id(p) for p in encoder.parameters() if p.grad is not None}
    on_path = {id(p) for p in encoder.backbone_of("c").parameters()}
    assert touched and touched <= on_path
    for other in "ab":
        own = [p for layer in layers_of(encoder.backbone_of(other)) for p in layer.parameters()]
        assert all(p.grad is None for p in own)  # not even cluster layers are shared with c
    assert encoder.backbone_of("a").embeddings.word_embeddings.weight.grad is not None


def test_layers_are_held_once_and_shared_as_said() -> None:
    encoder, _ = encoder_of("bert", "hmnet", clusters=CLUSTERS, shared=0, clustered=1, specific=1)
    a, b, c = (layers_of(encoder.backbone_of(task)) for task in "abc")
    assert a[0] is b[0] and a[0] is not c[0]
    assert len({id(layer[1]) for layer in (a, b, c)}) == 3
    names = [name for name, _ in encoder.named_parameters()]
    assert len(names) == len(set(names)) == len(encoder.state_dict())


@pytest.mark.parametrize(
    ("layers", "depths"), [(12, (8, 2, 2)), (6, (4, 1, 1)), (24, (16, 4, 4)), (2, (0, 1, 1))]
)
def test_the_usual_depths(layers: int, depths: tuple[int, int, int]) -> None:
    assert default_depths(layers) == depths


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"shared": 2, "clustered": 1, "specific": 1}, "expected 2 layers in total"),
        ({"shared": -1}, "expected a number of layers"),
        ({"clusters": [["a", "b"]]}, "'c' is in none"),
        ({"clusters": [["a", "b", "c"], ["a"]]}, "'a' is in two clusters"),
        ({"clusters": [["a", "b", "d"]]}, "no task 'd'"),
        ({"clusters": "abc"}, "expected lists of task names"),
    ],
)
def test_what_does_not_add_up_is_one_line(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(bm.InputError, match=words):
        encoder_of("bert", "hmnet", **parameters)


def test_hmnet_has_the_parameters_that_its_formula_says() -> None:
    """13 tasks, k = 3, 8/2/2 on BERT-base: 109.5 M and 4 cluster and 24 task layers, 12 poolers."""
    names = [f"t{n}" for n in range(13)]
    specs = [TaskSpec(name, "classification", labels=("x", "y")) for name in names]
    backbone = bert("base")
    plain = sum(p.numel() for p in backbone.parameters())
    layer = sum(p.numel() for p in layers_of(backbone)[0].parameters())
    pooler = sum(p.numel() for p in backbone.pooler.parameters())
    with torch.device("meta"):
        encoder = ARCHITECTURES["hmnet"].build(
            backbone, specs, 128, clusters=[names[:4], names[4:9], names[9:]]
        )
    overall = sum(p.numel() for p in encoder.parameters())
    assert overall == plain + (2 * 2 + 2 * 12) * layer + 12 * pooler
    assert round(overall / 1e6) == 315
    assert encoder.activated_parameters() == plain


@pytest.mark.parametrize("family", CONDITIONED)
def test_at_the_start_every_skill_is_the_backbone(family: str) -> None:
    encoder, plain = encoder_of(family, "skillnet", skills={"a": ["topic"], "b": ["tokens"]})
    inputs = padded_inputs()
    with torch.no_grad():
        expected = plain(**inputs).last_hidden_state
        found = torch.cat(states(encoder, inputs, ("a", 2), ("b", 1)))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_a_task_moves_only_its_skills_and_they_are_averaged() -> None:
    encoder, _ = encoder_of("bert", "skillnet", skills={"a": ["topic"], "b": ["tokens"]})
    states(encoder, padded_inputs(2), ("a", 2))[0].sum().backward()
    for skill, blocks in encoder.blocks.items():
        assert all((p.grad is not None) == (skill == "topic") for p in blocks.parameters())
    inputs = padded_inputs(2)
    with torch.no_grad():
        before = states(encoder, inputs, ("a", 2))[0]
        for parameter in encoder.blocks["tokens"].parameters():
            parameter.add_(1.0)
        assert torch.equal(states(encoder, inputs, ("a", 2))[0], before)
        assert not torch.allclose(states(encoder, inputs, ("b", 2))[0], before)


def test_skillnet_has_the_papers_parameters() -> None:
    specs = [TaskSpec("a", "classification", labels=("x", "y"))]
    with torch.device("meta"):
        encoder = ARCHITECTURES["skillnet"].build(bert("base"), specs, 128)
    overall = sum(p.numel() for p in encoder.parameters())
    assert overall / 1e6 == pytest.approx(450, abs=1)  # as HMNet's Table 1 has it
    assert round(encoder.activated_parameters() / 1e6) == 166


@pytest.mark.parametrize(
    ("spec", "skills"),
    [
        (TaskSpec("ner", "tokens"), ("general", "tokens")),
        (TaskSpec("x", "classification", group="sentiment"), ("general", "sequence", "sentiment")),
        (TaskSpec("x", "classification", {"text_pair": "b"}), ("general", "interaction")),
        (TaskSpec("x", "span"), ("general", "interaction", "questions")),
        (TaskSpec("ag", "classification", group="news"), ("general", "sequence", "topic")),
    ],
)
def test_skills_follow_from_kind_and_group(spec: TaskSpec, skills: tuple[str, ...]) -> None:
    assert skills_of(spec) == skills


def test_unknown_skills_are_one_line() -> None:
    for skills, words in (({"a": ["topci"]}, "did you mean 'topic'"), ({"d": []}, "no task 'd'")):
        with pytest.raises(bm.InputError, match=words):
            encoder_of("bert", "skillnet", skills=skills)
    with pytest.raises(bm.InputError, match="needs a skill beside the general one"):
        encoder_of("bert", "skillnet", skills={"a": []})


def test_heads_cannot_be_cut_out_of_paths_that_share_layers(
    tasks_of_every_kind: list[Any],
) -> None:
    model = bm.MultiTaskModel.from_pretrained(
        "builtin:tiny", tasks_of_every_kind[:2], architecture="hmnet"
    )
    with pytest.raises(bm.InputError, match="share layers"):
        bm.prune_heads(model, [(0, 0)])
    counts = model.parameter_counts()
    assert counts["activated"] < counts["encoder"]


def test_gates_on_paths_count_once(tasks_of_every_kind: list[Any]) -> None:
    """A gate of 0.5 on a layer that two paths share halves its head, it does not quarter it."""
    tasks = tasks_of_every_kind[:2]
    shared = bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks).eval()
    paths = bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks, architecture="hmnet").eval()
    text = ["a fine film"]
    gates = torch.full((3, 4), 0.5)
    with bm.head_gates(shared, gates), bm.head_gates(paths, gates):
        one = shared.predict(tasks[0].name, text)
        other = paths.predict(tasks[0].name, text)
    assert one[0]["score"] == pytest.approx(other[0]["score"], abs=1e-6)


def test_gates_are_back_when_checkpoints_compute_again(tasks_of_every_kind: list[Any]) -> None:
    """Backward after the gates are gone: a shared layer still has its one gate, not one a path."""
    from brodmann.data.batches import make_batch

    task = tasks_of_every_kind[0]
    gradients = []
    for checkpointed in (False, True):
        model = bm.MultiTaskModel.from_pretrained(
            "builtin:tiny", tasks_of_every_kind[:2], architecture="hmnet", dropout=0.0
        ).train()
        if checkpointed:
            model.enable_gradient_checkpointing()
        encoded = model.encode(task.spec, task.splits["train"])
        batch = make_batch([(task.name, encoded, np.arange(4))], pad_id=0)
        with bm.head_gates(model, torch.full((3, 4), 0.5)):
            loss = model(batch).losses[0].mean()
        loss.backward()
        gradients.append({n: p.grad for n, p in model.named_parameters() if p.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    for name, value in gradients[0].items():
        torch.testing.assert_close(value, gradients[1][name], msg=name)


@pytest.fixture(scope="module")
def paths(tasks_of_every_kind: list[Any]) -> Any:
    """Four tasks in two clusters on the tiny model, every layer of every path another."""
    tasks = tasks_of_every_kind[:4]
    names = [task.name for task in tasks]
    model = bm.MultiTaskModel.from_pretrained(
        "builtin:tiny", tasks, architecture="hmnet",
        parameters={"clusters": [names[:1] + names[2:3], names[1:2] + names[3:]]},
    ).eval()  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    return model


def test_the_map_of_a_path_is_that_of_a_plain_model_with_its_weights(
    paths: Any, tasks_of_every_kind: list[Any]
) -> None:
    """Importance of every head, and predictions with every head at another strength."""
    gates = torch.rand((3, 4), generator=torch.Generator().manual_seed(1))
    maps = bm.head_importance(paths, tasks_of_every_kind[:4], examples=None)
    for task in tasks_of_every_kind[:4]:
        plain = bm.MultiTaskModel.from_pretrained("builtin:tiny", [task]).eval()
        own = paths.encoder.backbone_of(task.name).state_dict()
        plain.encoder.backbone_of(task.name).load_state_dict(own)
        plain.head_of(task.name).load_state_dict(paths.head_of(task.name).state_dict())
        expected = bm.head_importance(plain, [task], examples=None).of(task.name)
        assert expected.max() > 0
        np.testing.assert_allclose(
            maps.of(task.name), expected, rtol=1e-4, atol=1e-6 * expected.max()
        )
        texts = task.splits["validation"][:6]
        with bm.head_gates(plain, gates), bm.head_gates(paths, gates):
            one, other = plain.predict(task.name, texts), paths.predict(task.name, texts)
        _same(one, other)
        assert one != plain.predict(task.name, texts)  # the gates do something


def test_saved_paths_predict_the_same(
    paths: Any, tasks_of_every_kind: list[Any], tmp_path: Path
) -> None:
    paths.save_pretrained(tmp_path / "model")
    again = bm.MultiTaskModel.from_pretrained(tmp_path / "model").eval()
    for task in tasks_of_every_kind[:4]:
        texts = task.splits["validation"][:6]
        assert again.predict(task.name, texts) == paths.predict(task.name, texts)


def _same(one: Any, other: Any) -> None:
    """Predictions are equal but for rounding."""
    if isinstance(one, float):
        assert one == pytest.approx(other, abs=1e-5)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key, value in one.items():
            _same(value, other[key])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            _same(a, b)
    else:
        assert one == other
