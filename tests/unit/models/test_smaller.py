"""Units, their sensitivity, the order in which they go, and repair, against slow references."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.families import tiny

import brodmann as bm
from brodmann.models.backbone.tiny import tiny_tokenizer
from brodmann.models.heads.measure import gate_gradients, measuring
from brodmann.models.heads.probes import example_probes
from brodmann.models.smaller.elimination import eliminate, weighted_moments
from brodmann.models.smaller.repair import RIDGE, repair, repair_map
from brodmann.models.smaller.sensitivity import Sensitivity, measure_sensitivity
from brodmann.models.smaller.units import blocks_of, cut


@pytest.fixture(scope="module")
def tasks() -> list[bm.Task]:
    uses = [{"use": f"builtin/{name}", "limit": 24} for name in ("topic", "similarity")]
    return bm.load_tasks(uses)


def model_of(tasks: list[bm.Task], architecture: str = "shared") -> Any:
    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks, architecture=architecture)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def probes_of(model: Any, tasks: list[bm.Task]) -> dict[str, Any]:
    options: dict[str, Any] = {"batch_size": 8, "precision": "float32"}
    return {t.name: example_probes(model, t, "train", 24, 0, **options) for t in tasks}


@pytest.fixture(scope="module")
def known(tasks: list[bm.Task]) -> tuple[Any, Any, Sensitivity]:
    model = model_of(tasks)
    blocks = blocks_of(model)
    return model, blocks, measure_sensitivity(model, blocks, probes_of(model, tasks))


def test_heads_and_neurons_are_found(known: Any) -> None:
    _, blocks, _ = known
    assert [(b.kind, b.layer, b.units, b.width) for b in blocks[:2]] == [
        ("attention", 0, 4, 16),
        ("feed_forward", 0, 128, 1),
    ]
    assert [b.name for b in blocks[-2:]] == ["attention of layer 2", "feed-forward of layer 2"]


def test_gradients_of_heads_are_those_of_their_gates(known: Any, tasks: list[bm.Task]) -> None:
    model, blocks, found = known
    starts = np.cumsum([0, *(b.units for b in blocks)])
    for task in tasks:
        with measuring(model):
            each = [gate_gradients(model, make()) for make in probes_of(model, tasks)[task.name]]
        gates = torch.cat(each).numpy()
        for block, start in zip(blocks, starts, strict=False):
            if block.heads:
                ours = found.gradients[task.name][:, start : start + block.units]
                np.testing.assert_allclose(ours, gates[:, block.layer], rtol=1e-3, atol=1e-6)


def test_the_gradient_of_a_neuron_is_that_of_the_loss(known: Any, tasks: list[bm.Task]) -> None:
    """By finite differences: scale one column of W_2."""
    model, blocks, found = known
    number = next(n for n, b in enumerate(blocks) if not b.heads and b.layer == 1)
    start, neuron, step = sum(b.units for b in blocks[:number]), 7, 1e-2
    output = model.bare_models()[0].get_submodule(blocks[number].output)
    task, sums = tasks[0], []
    for sign in (1, -1):
        with torch.no_grad():
            output.weight[:, neuron] *= 1 + sign * step
            each = [make().losses() for make in probes_of(model, tasks)[task.name]]
            output.weight[:, neuron] /= 1 + sign * step
        sums.append(torch.cat(each).double())
    expected = ((sums[0] - sums[1]) / (2 * step)).numpy()
    ours = found.gradients[task.name][:, start + neuron]
    np.testing.assert_allclose(ours, expected, rtol=0.05, atol=2e-4)


def test_repair_is_the_least_squares_solution() -> None:
    """Against numpy on the tokens themselves; the ridge pulls towards the old weights."""
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(200, 6)) + generator.normal(size=6)
    inputs[:, 5] = inputs[:, :2].sum(axis=1) + 0.1 * generator.normal(size=200)
    layer = torch.nn.Linear(6, 3).double()
    wanted = layer(torch.from_numpy(inputs)).detach().numpy()
    extended = np.hstack([inputs, np.ones((200, 1))])
    stays = torch.tensor([True, True, True, True, False, False])
    old = np.vstack([layer.weight.detach().numpy().T, layer.bias.detach().numpy()])
    chosen = [0, 1, 2, 3, 6]
    pull = np.sqrt(RIDGE * np.square(inputs).sum(axis=0).mean()) * np.eye(5)
    asked = np.vstack([extended[:, chosen], pull]), np.vstack([wanted, pull @ old[chosen]])
    best = np.linalg.lstsq(*asked, rcond=None)[0]
    repair_map(layer, stays, torch.from_numpy(extended.T @ extended))
    np.testing.assert_allclose(layer.weight[:, :4].detach().numpy(), best[:4].T, atol=1e-6)
    np.testing.assert_allclose(layer.bias.detach().numpy(), best[4], atol=1e-6)
    assert not layer.weight[:, 4:].any()


def test_the_first_neuron_to_go_is_the_one_the_others_replace_best(known: Any) -> None:
    """Brute force: repair after the removal of each neuron, and measure the output's error."""
    model, blocks, found = known
    number = next(n for n, b in enumerate(blocks) if not b.heads)
    moments = weighted_moments(found, np.ones(2))
    path = eliminate(model, blocks, number, np.array([128, 127, 64, 0]), found, moments)
    matrix = moments[0][number].double()
    matrix = matrix + 1e-3 * float(matrix.diagonal()[:-1].mean()) * torch.eye(129)
    inverse = torch.linalg.inv(matrix)
    weight = model.bare_models()[0].get_submodule(blocks[number].output).weight.double()
    errors = weight.square().sum(dim=0) / inverse.diagonal()[:-1]
    assert list(np.flatnonzero(~path.kept[1])) == [int(errors.argmin())]
    assert path.kept.sum(axis=1).tolist() == [128, 127, 64, 0]
    assert np.all(np.diff(path.kept.astype(int), axis=0) <= 0)  # nested
    assert np.all(np.diff(path.losses, axis=1) > -1e-9) and np.all(path.losses[:, 0] == 0)


def test_units_that_do_nothing_go_first_and_cost_nothing(tasks: list[bm.Task]) -> None:
    """Planted: 40 neurons without outgoing weight, 20 that repeat others, and an empty head."""
    model = model_of(tasks)
    layer = model.bare_models()[0].encoder.layer[1]
    with torch.no_grad():
        layer.output.dense.weight[:, :40] = 0
        layer.intermediate.dense.weight[40:60] = layer.intermediate.dense.weight[60:80]
        layer.intermediate.dense.bias[40:60] = layer.intermediate.dense.bias[60:80]
        layer.attention.output.dense.weight[:, 16:32] = 0
    blocks = blocks_of(model)
    found = measure_sensitivity(model, blocks, probes_of(model, tasks))
    moments = weighted_moments(found, np.ones(2))
    numbers = [n for n, b in enumerate(blocks) if b.layer == 1]
    heads, neurons = (
        eliminate(model, blocks, number, np.arange(blocks[number].units, -1, -1), found, moments)
        for number in numbers
    )
    assert list(np.flatnonzero(~heads.kept[1])) == [1]
    assert set(np.flatnonzero(~neurons.kept[60])) <= set(range(80))
    assert neurons.losses[:, 60].max() < 1e-3 * neurons.losses[:, -1].max()
    masks = [np.ones(b.units, dtype=bool) for b in blocks]
    masks[numbers[0]], masks[numbers[1]] = heads.kept[1], neurons.kept[60]
    texts = ["the red cat", "a small house near the river"]
    before = model.predict("topic", texts)
    small = copy.deepcopy(model)
    repair(small, blocks, masks, moments)
    cut(small, blocks, masks)
    for old, new in zip(before, small.predict("topic", texts), strict=True):
        assert new["probabilities"] == pytest.approx(old["probabilities"], abs=2e-3)


def test_encoders_of_single_tasks_are_cut_alike(tasks: list[bm.Task], tmp_path: Path) -> None:
    model = model_of(tasks, "single")
    blocks = blocks_of(model)
    found = measure_sensitivity(model, blocks, probes_of(model, tasks))
    assert [of is None for of in found.moments["topic"]] == [False, True]
    moments = weighted_moments(found, np.ones(2))
    path = eliminate(model, blocks, 1, np.array([128, 32, 0]), found, moments)
    masks = [np.ones(b.units, dtype=bool) for b in blocks]
    masks[1] = path.kept[1]
    repair(model, blocks, masks, moments)
    cut(model, blocks, masks)
    sizes = [bare.encoder.layer[0].output.dense.weight.shape for bare in model.bare_models()]
    assert sizes == [(64, 32)] * 2
    model.save_pretrained(tmp_path)
    again = bm.MultiTaskModel.from_pretrained(tmp_path)
    assert again.predict("topic", ["a cat"]) == model.predict("topic", ["a cat"])


@pytest.mark.parametrize(
    "family", ["gpt2", "llama", "modernbert", "deberta-v3", "distilbert", "mpnet", "electra"]
)
def test_any_family_is_cut_and_repaired(family: str, tasks: list[bm.Task], tmp_path: Path) -> None:
    """Half of every block: nearer to the whole model with repair than without, and saved."""
    tokenizer = tiny_tokenizer()
    backbone = tiny(family)
    backbone.resize_token_embeddings(len(tokenizer))
    backbone.config.pad_token_id = tokenizer.pad_token_id
    backbone.save_pretrained(tmp_path / "backbone")
    tokenizer.save_pretrained(tmp_path / "backbone")
    model = bm.MultiTaskModel.from_pretrained(tmp_path / "backbone", tasks, max_length=32).eval()
    blocks = blocks_of(model)
    assert {block.kind for block in blocks} == {"attention", "feed_forward"}
    found = measure_sensitivity(model, blocks, probes_of(model, tasks))
    moments = weighted_moments(found, np.ones(2))
    masks = []
    for number, block in enumerate(blocks):
        sizes = np.array([block.units, block.units // 2, 0])
        masks.append(eliminate(model, blocks, number, sizes, found, moments).kept[1])
    texts = [row["text"] for row in tasks[0].splits["train"]]
    whole, mended, bare = answers(model, texts), copy.deepcopy(model), copy.deepcopy(model)
    repair(mended, blocks, masks, moments)
    for one in (mended, bare):
        cut(one, blocks, masks)
    errors = [np.abs(answers(one, texts) - whole).mean() for one in (mended, bare)]
    assert errors[0] < errors[1]
    mended.save_pretrained(tmp_path / "small")
    again = bm.MultiTaskModel.from_pretrained(tmp_path / "small")
    np.testing.assert_array_equal(answers(again, texts), answers(mended, texts))


def answers(model: Any, texts: list[str]) -> Any:
    found = model.predict("topic", texts)
    return np.array([list(one["probabilities"].values()) for one in found])
