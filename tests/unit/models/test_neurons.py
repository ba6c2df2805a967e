"""A model with neurons removed equals the silenced one, is smaller, and survives saving."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as tf
from tests.families import SEPARATE, padded_inputs, tiny

import brodmann as bm
from brodmann.models.backbone.feed_forward import FeedForward, feed_forwards, sizes_of
from brodmann.models.smaller.neurons import cut_neurons
from brodmann.models.smaller.zeroed import at_full_size

INPUTS = padded_inputs()


def answers(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(**INPUTS).logits


def silenced(model: Any, block: FeedForward, kept: Any) -> torch.Tensor:
    """Answers with the columns of W_2 of the other neurons at zero."""
    output = model.base_model.get_submodule(block.output)
    whole = output.weight.detach().clone()
    mask = torch.as_tensor(kept, dtype=whole.dtype)
    with torch.no_grad():
        output.weight.mul_(mask[None, :] if sizes_of(output)[2] == 1 else mask[:, None])
        found = answers(model)
        output.weight.copy_(whole)
    return found


@pytest.mark.parametrize("family", SEPARATE)
def test_every_family_has_its_blocks(family: str) -> None:
    model = tiny(family, auto=tf.AutoModelForSequenceClassification)
    found = feed_forwards(model.base_model)
    assert [block.layer for block in found] == [0, 1]
    gated = family in ("modernbert", "llama", "mistral", "qwen2", "qwen3")
    widths = [
        sum(block.rows(np.ones(block.neurons, dtype=bool)).size for _ in block.inputs)
        for block in found
    ]
    assert widths == [(2 if gated else 1) * block.neurons for block in found]


@pytest.mark.parametrize("share", [0.4, 0.0], ids=["some", "none"])
@pytest.mark.parametrize("family", SEPARATE)
def test_cut_equals_silenced_and_is_loaded_again(family: str, share: float, tmp_path: Path) -> None:
    model = tiny(family, auto=tf.AutoModelForSequenceClassification)
    block = feed_forwards(model.base_model)[1]
    kept = np.random.default_rng(0).random(block.neurons) < share
    expected = silenced(model, block, kept)
    before = sum(p.numel() for p in model.parameters())
    cut_neurons(model, {block.output: [kept]})
    after = sum(p.numel() for p in model.parameters())
    gone = block.neurons - max(int(kept.sum()), 1)
    assert after <= before - gone * 32 * (len(block.inputs) + 1)
    torch.testing.assert_close(answers(model), expected, rtol=1e-5, atol=1e-5)
    assert model.config.feed_forward_sizes == {block.output: int(kept.sum())}
    model.save_pretrained(tmp_path)
    assert torch.equal(answers(bm.load_pruned(tmp_path)), answers(model))


def test_heads_and_neurons_in_any_order(tmp_path: Path) -> None:
    one, other = (tiny("bert", auto=tf.AutoModelForSequenceClassification) for _ in "ab")
    path = feed_forwards(one.base_model)[0].output
    kept = np.arange(37) % 3 == 0
    bm.prune_heads(one, [(0, 1), (1, 2)])
    cut_neurons(one, {path: [kept]})
    cut_neurons(other, {path: [np.arange(37) % 3 <= 1]})
    cut_neurons(other, {path: [np.arange(25) % 2 == 0]})  # of those that are left
    bm.prune_heads(other, [(0, 1), (1, 2)])
    torch.testing.assert_close(answers(one), answers(other))
    one.save_pretrained(tmp_path)
    again = bm.load_pruned(tmp_path)
    assert torch.equal(answers(again), answers(one))
    whole = at_full_size(again.base_model)
    with torch.no_grad():
        found, expected = (m(**INPUTS)[0] for m in (whole, again.base_model))
    torch.testing.assert_close(found, expected)
    assert not hasattr(whole.config, "feed_forward_sizes")


def test_models_that_share_a_block_among_layers_have_none() -> None:
    assert feed_forwards(tiny("albert")) == ()


def test_a_configuration_with_impossible_sizes_is_refused(tmp_path: Path) -> None:
    model = tiny("bert", auto=tf.AutoModelForSequenceClassification)
    model.config.feed_forward_sizes = {"encoder.layer.0.output.dense": 99}
    model.save_pretrained(tmp_path)
    with pytest.raises(bm.InputError, match=r"no block .encoder\.layer\.0\.output\.dense. of 99"):
        bm.load_pruned(tmp_path)
