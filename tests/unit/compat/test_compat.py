"""Code for transformers 4 runs again: head masks, pruning and their helpers as documented there."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as tf
from tests.families import padded_inputs, tiny
from torch import nn
from transformers.pytorch_utils import Conv1D

import brodmann as bm
from brodmann import compat


def states(model: Any, **inputs: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(**inputs).last_hidden_state


def masked_attention(model: Any, mask: torch.Tensor, inputs: Any) -> torch.Tensor:
    """What transformers 4 did: the attention weights of every layer times the mask."""
    model.set_attn_implementation("eager")
    values: dict[int, torch.Tensor] = {}
    handles = []
    for number, layer in enumerate(model.encoder.layer):
        inner = layer.attention.self

        def keep(_: Any, __: Any, output: torch.Tensor, number: int = number) -> None:
            values[number] = output

        def mask_weights(_: Any, __: Any, output: Any, number: int = number) -> Any:
            context, weights = output
            rows, length, width = values[number].shape
            by_head = values[number].view(rows, length, 4, width // 4).transpose(1, 2)
            again = (weights * mask[number].view(1, -1, 1, 1)) @ by_head
            return again.transpose(1, 2).reshape(context.shape), weights

        handles += [inner.value.register_forward_hook(keep)]
        handles += [inner.register_forward_hook(mask_weights)]
    try:
        return states(model, **inputs)
    finally:
        for handle in handles:
            handle.remove()


def test_a_mask_does_what_it_did_to_attention_weights() -> None:
    model, inputs = tiny("bert"), padded_inputs()
    mask = torch.tensor([[1.0, 0.0, 1.0, 0.5], [0.0, 1.0, 1.0, 1.0]])
    expected = masked_attention(model, mask, inputs)
    with compat.head_mask(model, mask):
        torch.testing.assert_close(states(model, **inputs), expected)
    wrapped = compat.accepts_head_mask(model)
    assert wrapped is model and compat.accepts_head_mask(model) is model
    torch.testing.assert_close(states(model, **inputs, head_mask=mask), expected)
    plain = states(model, **inputs)
    assert torch.equal(states(model, **inputs, head_mask=None), plain)
    with compat.head_mask(model):
        assert torch.equal(states(model, **inputs), plain)


def test_a_mask_of_one_dimension_is_for_all_layers() -> None:
    model, inputs = tiny("gpt2"), padded_inputs()
    mask = torch.tensor([0, 1, 1, 0])
    with compat.head_mask(model, mask):
        ours = states(model, **inputs)
    with bm.head_gates(model, off=[(0, 0), (0, 3), (1, 0), (1, 3)]):
        assert torch.equal(states(model, **inputs), ours)
    with (
        pytest.raises(bm.InputError, match=r"of shape \(3,\): expected \(4,\) or \(2, 4\)"),
        compat.head_mask(model, torch.ones(3)),
    ):
        pass


def test_masks_of_an_encoder_decoder_by_their_old_names() -> None:
    config = tf.T5Config(d_model=32, d_kv=8, num_heads=4, num_layers=2, d_ff=37, vocab_size=99,
                         pad_token_id=0, decoder_start_token_id=0)  # fmt: skip
    torch.manual_seed(0)
    model = compat.accepts_head_mask(tf.T5Model(config).eval())
    ids = torch.randint(4, 99, (2, 6))
    inputs = {"input_ids": ids, "decoder_input_ids": ids[:, :3]}
    plain = states(model, **inputs)
    seen = [plain]
    for name in ("head_mask", "decoder_head_mask", "cross_attn_head_mask"):
        mask = torch.ones(2, 4)
        mask[1, 2] = 0.0
        seen.append(states(model, **inputs, **{name: mask}))
        assert not any(torch.allclose(seen[-1], other) for other in seen[:-1])
    bert = tiny("bert")
    with (
        pytest.raises(bm.InputError, match="cross_attn_head_mask: BertModel has no such attention"),
        compat.head_mask(bert, cross_attn_head_mask=torch.ones(2, 4)),
    ):
        pass


def test_pruning_by_layer_skips_heads_that_are_gone() -> None:
    model, inputs = tiny("bert"), padded_inputs()
    with bm.head_gates(model, off=[(0, 1), (0, 2), (1, 3)]):
        expected = states(model, **inputs)
    assert compat.prune_heads(model, {0: [1]}) is None
    compat.prune_heads(model, {0: [1, 2], 1: [3]})
    torch.testing.assert_close(states(model, **inputs), expected)
    assert model.config.pruned_heads == {0: [1, 2], 1: [3]}


def test_a_model_that_transformers_4_pruned_and_saved_loads(tmp_path: Path) -> None:
    """Version 4 wrote the heads it removed to `pruned_heads` of the configuration."""
    model, inputs = tiny("bert"), padded_inputs()
    bm.prune_heads(model, [(0, 1), (1, 0), (1, 3)])
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    config["pruned_heads"] = config.pop("removed_heads")
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    again = bm.load_pruned(tmp_path).eval()
    assert torch.equal(states(again, **inputs), states(model, **inputs))


def test_indices_of_what_is_kept() -> None:
    heads, index = compat.find_pruneable_heads_and_indices([0, 2], 4, 2, set())
    assert heads == {0, 2} and index.tolist() == [2, 3, 6, 7]
    # Head 0 is gone already: the three that are left are 1, 2 and 3.
    heads, index = compat.find_pruneable_heads_and_indices([0, 2], 3, 2, {0})
    assert heads == {2} and index.tolist() == [0, 1, 4, 5] and index.dtype == torch.long


def test_layers_lose_rows_or_columns() -> None:
    layer, index = nn.Linear(6, 4), torch.tensor([0, 2, 3])
    rows = compat.prune_linear_layer(layer, index)
    assert torch.equal(rows.weight, layer.weight[index])
    assert torch.equal(rows.bias, layer.bias[index])
    columns = compat.prune_layer(layer, index, dim=1)
    assert torch.equal(columns.weight, layer.weight[:, index])
    assert torch.equal(columns.bias, layer.bias) and columns.weight.requires_grad
    conv = Conv1D(4, 6)
    outputs = compat.prune_conv1d_layer(conv, index)
    assert torch.equal(outputs.weight, conv.weight[:, index])
    assert torch.equal(outputs.bias, conv.bias[index])
    inputs = compat.prune_layer(conv, index, dim=0)
    assert torch.equal(inputs.weight, conv.weight[index]) and torch.equal(inputs.bias, conv.bias)
    with pytest.raises(bm.InputError, match="cannot prune a layer of class Embedding"):
        compat.prune_layer(nn.Embedding(3, 4), index)
