"""Where heads are is discovered exactly, cheaply, and without a trace in the model."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
import transformers as tf
from tests.conformance import judge_family
from tests.families import CONFIGS, SMALL, tiny
from tests.small_models import model_types
from torch import nn

import brodmann as bm
from brodmann.models.backbone import anatomy as remembered
from brodmann.models.backbone.anatomy import anatomy_of
from brodmann.models.backbone.discovery import discover
from brodmann.models.backbone.reach import HeadTensor, keeps_apart, lies_side_by_side, reach

# Fused and separate projections, groups, sinks, rotary positions, norms over heads, encoder and
# decoder, mixture of experts, and attention outside of transformers' interface.
VARIED = ["camembert", "gpt_neox", "opt", "gemma3_text", "gpt_oss", "olmo2", "mixtral", "bart"]
VARIED += ["modernbert-decoder", "nomic_bert", "rembert", "gptj", "xlm"]
NOT_REMOVABLE = {"olmo2"}  # its norms reach over all heads


@pytest.mark.parametrize("family", VARIED)
def test_gates_importance_and_removal_agree_with_their_judges(family: str) -> None:
    verdict = judge_family(family, dict(model_types())[family])
    assert verdict.gates and verdict.importance, verdict
    assert verdict.removal is (family not in NOT_REMOVABLE), verdict


def test_layouts_of_fused_projections_are_told_apart() -> None:
    """GPT-2 stacks all queries, then keys, then values; GPT-NeoX has one triple per head."""
    thirds = anatomy_of(tiny("gpt2")).attentions[0].projections[0].reach.argmax(axis=1)
    assert thirds.tolist() == [head for _ in range(3) for head in range(4) for _ in range(8)]
    config = tf.GPTNeoXConfig(**{**SMALL, "pad_token_id": 1})
    triples = anatomy_of(tf.AutoModel.from_config(config)).attentions[0].projections[0].reach
    assert triples.argmax(axis=1).tolist() == [head for head in range(4) for _ in range(24)]


def test_a_group_shares_its_rows() -> None:
    found = anatomy_of(tiny("llama"))
    rows = {one.path.split(".")[-2]: one.reach for one in found.attentions[0].projections}
    assert found.group == 2
    assert rows["q_proj"].sum(axis=1).tolist() == [1] * 32
    assert rows["k_proj"][0].tolist() == [True, True, False, False]
    assert rows["v_proj"][-1].tolist() == [False, False, True, True]


@pytest.mark.parametrize("family", ["bert", "deberta-v2", "llama"])
def test_the_model_is_left_as_it_was(family: str) -> None:
    model = tiny(family).train()
    model.get_input_embeddings().requires_grad_(False)
    calls: list[int] = []
    model.register_forward_hook(lambda *_: calls.append(1))
    before = copy.deepcopy(model.state_dict())
    asked = [parameter.requires_grad for parameter in model.parameters()]
    attention = model.config._attn_implementation
    torch.manual_seed(7)
    state = torch.get_rng_state()
    discover(model)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(module.training for module in model.modules())
    assert [parameter.requires_grad for parameter in model.parameters()] == asked
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.config._attn_implementation == attention
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not calls and len(model._forward_hooks) == 1  # foreign hooks are neither run nor lost
    assert sum(len(module._forward_pre_hooks) for module in model.modules()) == 0


def test_it_is_remembered_by_class_and_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[Any] = []
    original = tf.BertModel.forward

    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        passes.append(self)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(tf.BertModel, "forward", counted)
    monkeypatch.setattr(remembered, "_of_configuration", {})
    one, other = tf.BertModel(tf.BertConfig(**SMALL)), tf.BertModel(tf.BertConfig(**SMALL))
    assert anatomy_of(one) is anatomy_of(other) is anatomy_of(copy.deepcopy(one))
    assert len(passes) == 1
    deeper = tf.BertModel(tf.BertConfig(**{**SMALL, "num_hidden_layers": 3}))
    assert anatomy_of(deeper).shape == (3, 4)
    replaced = tf.BertModel(tf.BertConfig(**SMALL))
    for layer in replaced.encoder.layer:  # as wrappers of other libraries do it
        layer.attention.self.query = nn.Sequential(layer.attention.self.query)
    paths = [one.path for one in anatomy_of(replaced).attentions[0].projections]
    assert "encoder.layer.0.attention.self.query.0.weight" in paths


def test_several_stacks_are_addressed_by_name() -> None:
    config = tf.BartConfig(
        d_model=32, encoder_layers=2, decoder_layers=3, encoder_attention_heads=4,
        decoder_attention_heads=2, encoder_ffn_dim=37, decoder_ffn_dim=37, vocab_size=99,
        max_position_embeddings=64, pad_token_id=1, bos_token_id=2, eos_token_id=2,
        decoder_start_token_id=2,
    )  # fmt: skip
    torch.manual_seed(0)
    model = tf.BartModel(config).eval()
    found = bm.anatomy(model)
    stacks = {"encoder": range(2), "decoder": range(2, 5), "cross": range(5, 8)}
    assert found.stacks == stacks and found.shape == (8, 4)
    ids = torch.randint(4, 99, (2, 6))

    def states(**gates: Any) -> torch.Tensor:
        with torch.no_grad(), bm.head_gates(model, **gates):
            return model(input_ids=ids, decoder_input_ids=ids[:, :4]).last_hidden_state

    by_name = states(off={"cross": [(1, 0)], "encoder": [(0, 3)]})
    assert torch.equal(by_name, states(off=[(6, 0), (0, 3)]))
    values = {"decoder": torch.rand(3, 2)}
    whole = torch.ones(8, 4)
    whole[2:5, :2] = values["decoder"]
    assert torch.equal(states(gates=values), states(gates=whole))
    with pytest.raises(bm.InputError, match="no stack 'middle': encoder, decoder, cross"):
        states(off={"middle": [(0, 0)]})
    with pytest.raises(bm.InputError, match=r"'decoder' have shape \(2, 2\): expected \(3, 2\)"):
        states(gates={"decoder": torch.ones(2, 2)})
    scores = bm.head_importance(
        model,
        {"t": [{"input_ids": ids, "decoder_input_ids": ids[:, :4]}]},
        loss=lambda outputs, _: outputs.last_hidden_state.square().mean(dim=(1, 2)),
    )
    assert (2, 2) in scores.removed and (2, 2) not in scores.ranking()  # the decoder has two heads
    assert len(scores.ranking()) == 2 * 4 + 3 * 2 + 3 * 2


def test_what_cannot_be_established_is_one_clear_line() -> None:
    class Mixed(tf.BertModel):
        """Adds the heads up before W^O sees them."""

    model = Mixed(tf.BertConfig(**SMALL))
    for layer in model.encoder.layer:
        layer.attention.output.dense = _Mixing(layer.attention.output.dense)
    with pytest.raises(bm.InputError) as caught:
        bm.anatomy(model)
    assert str(caught.value) == (
        "Mixed: attention of 4 heads was found in 'encoder.layer.0.attention.self', but "
        "'encoder.layer.0.attention.output.dense.inner' mixes the heads before any other module"
    )
    small = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
    video = tf.AutoModel.from_config(
        tf.TimesformerConfig(**small, image_size=16, patch_size=8, intermediate_size=37)
    )
    with pytest.raises(bm.InputError, match="its forward pass fails on the smallest input"):
        bm.anatomy(video)


class _Mixing(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return self.inner(states + states.mean(dim=-1, keepdim=True))


def test_a_model_without_values_shows_its_structure() -> None:
    with torch.device("meta"):
        model = tf.BertModel(tf.BertConfig())
    found = anatomy_of(model)
    assert found.shape == (12, 12) and found.layers == "encoder.layer"
    assert found.attentions[0].projections == ()


def test_reach_finds_single_and_several_heads() -> None:
    leaf = torch.rand(6, requires_grad=True)
    own = leaf[:4].reshape(1, 4) * torch.tensor([1.0, 2.0, 3.0, 4.0])
    both = own + torch.stack([leaf[4], leaf[4], leaf[5] * 0, leaf[5] * 0])
    (found,) = reach([HeadTensor(both, 1)], [leaf], [0])
    expected = np.zeros((6, 4), dtype=bool)
    expected[range(4), range(4)] = True
    expected[4, :2] = True
    assert np.array_equal(found, expected)


def test_heads_side_by_side_are_told_from_mixed_ones() -> None:
    leaf = torch.rand(1, 3, 4, 2, requires_grad=True)
    heads = HeadTensor(leaf, 2)
    assert keeps_apart(heads, leaf.flatten(2) * 3)[0] is True
    assert keeps_apart(heads, leaf.flatten(2).cumsum(-1))[0] is False
    assert keeps_apart(heads, leaf.transpose(2, 3).flatten(2))[0] is False
    assert keeps_apart(heads, torch.rand(1, 3, 8, requires_grad=True) * 2)[0] is None


def test_only_the_same_memory_unchanged_lies_side_by_side() -> None:
    given = torch.rand(1, 3, 4, 2)
    assert lies_side_by_side(given, 2, given.flatten(2))
    assert lies_side_by_side(given, 2, given.reshape(3, 8))
    assert not lies_side_by_side(given, 2, given.flatten(2) * 1)
    assert not lies_side_by_side(given, 2, given.transpose(2, 3).flatten(2))
    assert not lies_side_by_side(given, 1, given.flatten(2))
    assert not lies_side_by_side(given, 2, given.reshape(1, 6, 4))
    given[0, 0, 0] += given[0, 0, 1]  # in place: a head now holds something of another
    assert not lies_side_by_side(given, 2, given.flatten(2))


@pytest.mark.parametrize("family", CONFIGS)
def test_every_row_of_a_projection_belongs_to_someone(family: str) -> None:
    for part in anatomy_of(tiny(family)).attentions:
        assert part.gate == part.output and part.whole is None
        for projection in part.projections:
            assert projection.reach.any(axis=1).all()
