"""Attention maps of two models, head by head."""

import copy
from typing import Any

import numpy as np
import pytest
import torch

import brodmann as bm
from brodmann.models.heads.attention_maps import attention_map_similarity


def build(tasks: list[Any], seed: int = 0, **options: Any) -> Any:
    model = bm.MultiTaskModel.from_pretrained("builtin:tiny", tasks, **options).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.encoder.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model


def test_a_model_sees_as_itself_and_another_differently(tasks_of_every_kind: list[Any]) -> None:
    task = tasks_of_every_kind[0]
    one, other = build([task]), build([task], seed=1)
    same = attention_map_similarity(one, one, task)
    assert same.shape == (3, 4) and np.allclose(same, 1.0, atol=1e-6)
    apart = attention_map_similarity(one, other, task, batch_size=3)
    assert (apart < 0.999).all() and (apart > 0).all()
    np.testing.assert_allclose(apart, attention_map_similarity(one, other, task), atol=1e-6)
    assert one.bare_models()[0].config._attn_implementation != "eager"  # as before


def test_it_is_the_definition(tasks_of_every_kind: list[Any]) -> None:
    task = tasks_of_every_kind[0]
    one, other = build([task]), build([task], seed=1)
    examples = task.splits["validation"]
    encoded = one.encode(task.spec, examples)
    total = np.zeros((3, 4))
    for row in range(encoded.items):
        ids = torch.tensor(encoded.ids[encoded.starts[row] : encoded.starts[row + 1]])[None].long()
        maps = []
        for model in (one, other):
            bare = model.bare_models()[0]
            bare.set_attn_implementation("eager")
            with torch.no_grad():
                maps.append(bare(input_ids=ids, output_attentions=True).attentions)
        for layer in range(3):
            for head in range(4):
                a, b = (m[layer][0, head].flatten().double().numpy() for m in maps)
                total[layer, head] += a @ b / (np.linalg.norm(a) * np.linalg.norm(b))
    found = attention_map_similarity(one, other, task)
    np.testing.assert_allclose(found, total / encoded.items, atol=1e-5)


def test_paths_and_conditioned_encoders_have_maps_too(tasks_of_every_kind: list[Any]) -> None:
    tasks = tasks_of_every_kind[:2]
    for architecture in ("hmnet", "ca_mtl", "single"):
        model = build(tasks, architecture=architecture)
        assert np.allclose(attention_map_similarity(model, model, tasks[1]), 1.0, atol=1e-6)


def test_models_of_other_sizes_are_refused(tasks_of_every_kind: list[Any]) -> None:
    task = tasks_of_every_kind[0]
    long, short = build([task]), build([task], max_length=8)
    with pytest.raises(bm.InputError, match="read different tokens"):
        attention_map_similarity(long, short, task)
    with pytest.raises(bm.InputError, match="has no split 'valid'; did you mean 'validation'"):
        attention_map_similarity(long, long, task, split="valid")
    deeper = build([task])
    layers = deeper.bare_models()[0].encoder.layer
    layers.append(copy.deepcopy(layers[0]))
    deeper.bare_models()[0].config.num_hidden_layers = len(layers)
    with pytest.raises(bm.InputError, match="differ in layers or heads"):
        attention_map_similarity(long, deeper, task)
    cut = build([task])
    bm.prune_heads(cut, [(0, 0)])
    with pytest.raises(bm.InputError, match="a model has removed heads"):
        attention_map_similarity(long, cut, task)
