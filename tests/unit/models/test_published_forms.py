"""CA-MTL as its paper and its published code have it, against the definitions by hand."""

from typing import Any

import pytest
import torch
from tests.families import padded_inputs
from tests.unit.models.test_conditional import encoder_of, parts, states, stirred
from torch import Tensor
from torch.nn.functional import layer_norm

from brodmann.models.encoders.conditional import FILMS, ConditionalAttention
from brodmann.models.encoders.task_context import of_parts

CPU = torch.device("cpu")


@pytest.mark.parametrize("film", FILMS)
@pytest.mark.parametrize(("length", "blocks"), [(12, 3), (7, 3)])
def test_each_spread_of_the_bias_follows_its_definition(
    film: str, length: int, blocks: int
) -> None:
    module = stirred(ConditionalAttention(8, length, blocks, film))
    z = torch.randn(1, 8)
    found = module(z, of_parts(parts(("a", 1)), CPU), length)[0, 0]
    gains, offsets = (values[0] for values in module.film(z))
    side = -(-length // blocks)
    assert len(gains) == {"columns": length, "blocks": side**2, "side": side}[film]
    for row in range(length):
        for column in range(length):
            block, inner = column // side, (row % side, column % side)
            if row // side != block:
                assert found[row, column] == 0  # outside the blocks
                continue
            place = {"columns": column, "blocks": inner[0] * side + inner[1], "side": inner[1]}
            gain, offset = gains[place[film]], offsets[place[film]]
            by_hand = (1 + gain) * module.blocks[block][inner] + offset
            torch.testing.assert_close(found[row, column], by_hand)


def conditioned_norm(states: Tensor, norm: Any, film: Any, z: Tensor) -> Tensor:
    gain, offset = film(z)
    weight, bias = (1 + gain[0]) * norm.weight, norm.bias + offset[0]
    return layer_norm(states, weight.shape, weight, bias, norm.eps)


def test_the_published_bottleneck_stands_after_the_top_layer() -> None:
    """CLN₂(a + CFF(CLN₁(a + FFN(a)))), where a is the output of the attention."""
    encoder, _ = encoder_of("bert", "ca_mtl", bottleneck="published")
    encoder = stirred(encoder)
    top = encoder.backbone.encoder.layer[-1]
    seen: list[Tensor] = []
    top.attention.output.LayerNorm.register_forward_hook(lambda *call: seen.append(call[2]))
    with torch.no_grad():
        (found,) = states(encoder, padded_inputs(), ("a", 3))
        z = encoder.embedding(of_parts(parts(("a", 3)), CPU))
        attended, (first, second, last) = seen[0], list(encoder.norms)[-3:]
        added = attended + top.output.dense(top.intermediate(attended))
        normed = conditioned_norm(added, top.output.LayerNorm, first.film, z)
        (narrow,) = encoder.bottlenecks
        gain, offset = narrow.film(z)
        narrowed = narrow.up(narrow.down((1 + gain[0]) * normed + offset[0]))
        by_hand = conditioned_norm(attended + narrowed, second, last.film, z)
    torch.testing.assert_close(found, by_hand)
