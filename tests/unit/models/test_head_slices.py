"""Which rows and columns a head owns: what its gate hides is its own, and nothing else."""

from typing import Any

import numpy as np
import pytest
import torch
from tests.families import CONFIGS, SEPARATE, padded_inputs, tiny

from brodmann.models.backbone.anatomy import head_shape
from brodmann.models.heads.gates import head_gates
from brodmann.models.heads.removal import prune_heads
from brodmann.models.heads.slices import group_size, head_slices


def first_heads(model: Any, layer: int = 1) -> tuple[list[tuple[int, int]], np.ndarray]:
    """The second head of a layer (or the whole group that shares its keys), as list and mask."""
    mask = np.zeros(head_shape(model), dtype=bool)
    size = group_size(model)
    heads = [(layer, size * 1 + place) for place in range(size)]
    for head in heads:
        mask[head] = True
    return heads, mask


def along(tensor: torch.Tensor, dimension: int, chosen: np.ndarray) -> torch.Tensor:
    return tensor.index_select(dimension, torch.from_numpy(np.flatnonzero(chosen)))


@pytest.mark.parametrize("family", SEPARATE)
def test_gradients_reach_a_heads_slices_only_through_the_head(family: str) -> None:
    model = tiny(family, attention="eager").double()
    heads, mask = first_heads(model)
    weights = torch.randn(3, 10, 32, dtype=torch.float64)
    with head_gates(model, off=heads):
        loss = (model(**padded_inputs()).last_hidden_state * weights).sum()
    loss.backward()
    seen = 0
    for slices in head_slices(model):
        gradient = slices.parameter.grad
        if gradient is None:
            continue  # a key's bias in DeBERTa may stand outside every path
        chosen = slices.chosen(mask)
        assert not along(gradient, slices.dimension, chosen).any()
        if slices.layers == (1,):
            assert chosen.any() and not chosen.all()
            rest = along(gradient, slices.dimension, ~chosen)
            seen += bool(rest.abs().max() > 1e-9)
        else:
            assert not chosen.any()
    assert seen >= 2  # at least what makes the heads, and the output projection


@pytest.mark.parametrize("family", list(CONFIGS))
def test_zero_columns_of_the_output_projection_are_a_closed_gate(family: str) -> None:
    model = tiny(family, attention="eager").double()
    layers, heads = head_shape(model)
    mask = np.zeros((layers, heads), dtype=bool)
    mask[:, 1] = True  # of every layer: some share their weights
    inputs = padded_inputs()
    with torch.no_grad(), head_gates(model, off=[(layer, 1) for layer in range(layers)]):
        expected = model(**inputs).last_hidden_state
    with_output = {id(s.parameter): s for s in head_slices(model)}
    without = {id(s.parameter) for s in head_slices(model, "qkv")}
    output = [s for key, s in with_output.items() if key not in without]
    assert output
    with torch.no_grad():
        for slices in output:
            places = torch.from_numpy(np.flatnonzero(slices.chosen(mask)))
            slices.parameter.index_fill_(slices.dimension, places, 0.0)
        assert torch.allclose(model(**inputs).last_hidden_state, expected, atol=1e-12)


def test_removed_heads_own_nothing_and_the_others_keep_their_numbers() -> None:
    model = tiny("bert")
    prune_heads(model, [(0, 1), (1, 0), (1, 1), (1, 2), (1, 3)])
    found = list(head_slices(model))
    assert {slices.layers for slices in found} == {(0,)}
    assert all(slices.heads == (0, 2, 3) for slices in found)
    mask = np.zeros((2, 4), dtype=bool)
    mask[0, 3] = True
    query = found[0]
    assert query.parameter.shape == (24, 32) and query.dimension == 0
    assert np.flatnonzero(query.chosen(mask)).tolist() == list(range(16, 24))
