"""A model with heads removed equals the gated one, is smaller, and survives saving."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as tf
from tests.families import CONFIGS, SEPARATE, padded_inputs, tiny

import brodmann as bm

REMOVABLE = SEPARATE
SOME = [(0, 0), (0, 1), (1, 2), (1, 3)]
WHOLE = [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)]


def answers(model: Any, inputs: dict[str, Any]) -> torch.Tensor:
    with torch.no_grad():
        return model(**inputs).logits


@pytest.mark.parametrize("heads", [SOME, WHOLE], ids=["some", "whole layer"])
@pytest.mark.parametrize("family", REMOVABLE)
def test_removed_equals_gated_and_is_loaded_again(
    family: str, heads: list[Any], tmp_path: Path
) -> None:
    model = tiny(family, auto=tf.AutoModelForSequenceClassification)
    inputs = padded_inputs()
    with bm.head_gates(model, off=heads):
        gated = answers(model, inputs)
    before = sum(p.numel() for p in model.parameters())
    assert bm.prune_heads(model, heads) is model
    after = sum(p.numel() for p in model.parameters())
    assert after < before - len(heads) * 8 * 32 * 2  # at least Q and O of every head
    torch.testing.assert_close(answers(model, inputs), gated, rtol=1e-5, atol=1e-5)
    model.save_pretrained(tmp_path)
    loaded = bm.load_pruned(tmp_path)
    assert type(loaded) is type(model)
    assert torch.equal(answers(loaded, inputs), answers(model, inputs))
    assert sum(p.numel() for p in loaded.parameters()) == after


@pytest.mark.parametrize("family", ["bert", "gpt2", "deberta-v2", "mpnet"])
def test_removal_in_steps_keeps_the_first_numbers(family: str) -> None:
    at_once, in_steps = (tiny(family, auto=tf.AutoModelForSequenceClassification) for _ in "ab")
    inputs = padded_inputs()
    bm.prune_heads(at_once, [(0, 1), (0, 3), (1, 0)])
    bm.prune_heads(in_steps, {0: [1]})
    bm.prune_heads(in_steps, [(0, 3), (1, 0), (0, 1)])
    assert torch.equal(answers(at_once, inputs), answers(in_steps, inputs))
    assert in_steps.config.removed_heads == {"0": [1, 3], "1": [0]}
    with bm.head_gates(in_steps, off=[(0, 2)]):
        gated = answers(in_steps, inputs)
    bm.prune_heads(at_once, [(0, 2)])
    torch.testing.assert_close(answers(at_once, inputs), gated, rtol=1e-5, atol=1e-5)
    batch = {**inputs, "labels": torch.tensor([0, 1, 1])}
    scores = bm.head_importance(in_steps, {"t": [batch]})
    assert set(scores.removed) == {(0, 1), (0, 3), (1, 0)} and scores.heads == 5
    assert len(scores.least(1.0)) == 5 and (0, 1) not in scores.least(1.0)


def test_another_model_of_the_same_configuration_is_left_alone() -> None:
    config = CONFIGS["bert"]()
    full, small = (tf.BertForSequenceClassification(config).eval() for _ in "ab")
    small.load_state_dict(full.state_dict())
    inputs = padded_inputs()
    with bm.head_gates(full, off=[(0, 2)]):
        before = answers(full, inputs)
    bm.prune_heads(small, [(0, 0), (0, 1)])
    with bm.head_gates(full, off=[(0, 2)]):
        assert torch.equal(answers(full, inputs), before)
    assert not hasattr(config, "removed_heads") and not hasattr(full.config, "removed_heads")
    assert small.config is small.bert.config is small.bert.encoder.config
    assert small.bert.encoder.layer[0].attention.self.config is small.config


@pytest.mark.parametrize("family", ["bert", "llama", "qwen3", "modernbert"])
def test_the_number_format_is_kept(family: str, tmp_path: Path) -> None:
    auto = tf.AutoModelForSequenceClassification
    model = auto.from_config(CONFIGS[family](), dtype=torch.bfloat16).eval()
    bm.prune_heads(model, SOME).save_pretrained(tmp_path)
    loaded = bm.load_pruned(tmp_path)
    assert {p.dtype for p in loaded.parameters()} == {torch.bfloat16}
    inputs = padded_inputs()
    torch.testing.assert_close(answers(loaded, inputs), answers(model, inputs))


def test_tied_weights_and_generation_settings_survive(tmp_path: Path) -> None:
    model = tiny("gpt2", auto=tf.AutoModelForCausalLM)
    model.generation_config.max_new_tokens = 3
    bm.prune_heads(model, SOME).save_pretrained(tmp_path)
    loaded = bm.load_pruned(tmp_path)
    assert loaded.lm_head.weight is loaded.transformer.wte.weight
    assert loaded.generation_config.max_new_tokens == 3


def test_frozen_parts_stay_frozen() -> None:
    model = tiny("deberta").requires_grad_(False)
    bm.prune_heads(model, SOME)
    assert not any(parameter.requires_grad for parameter in model.parameters())


def test_a_pruned_plain_model_is_a_backbone(tmp_path: Path, tasks_of_every_kind: list[Any]) -> None:
    from brodmann.models.backbone.tiny import tiny_config, tiny_tokenizer

    plain = tf.AutoModel.from_config(tiny_config())
    bm.prune_heads(plain, [(0, 0), (2, 3)]).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    model = bm.MultiTaskModel.from_pretrained(tmp_path, tasks_of_every_kind[:1])
    query = model.bare_models()[0].encoder.layer[0].attention.self.query
    assert query.weight.shape == (48, 64)
    model.save_pretrained(tmp_path / "saved")
    again = bm.MultiTaskModel.from_pretrained(tmp_path / "saved")
    texts = ["the red cat"]
    assert again.predict("single", texts) == model.eval().predict("single", texts)


def test_a_pruned_model_can_go_on_learning() -> None:
    model = bm.prune_heads(tiny("bert", auto=tf.AutoModelForSequenceClassification), WHOLE)
    model.train()
    model(**padded_inputs(), labels=torch.tensor([0, 1, 1])).loss.backward()
    query = model.bert.encoder.layer[1].attention.self.query
    assert query.weight.grad is not None and query.weight.shape == (16, 32)


def test_heads_that_share_keys_go_together() -> None:
    model = tiny("llama", auto=tf.AutoModelForSequenceClassification)
    with pytest.raises(bm.InputError, match="remove heads 2 to 3 of layer 1 together, or none"):
        bm.prune_heads(model, [(1, 2)])
    assert not hasattr(model.config, "removed_heads")


def test_shared_layers_cannot_lose_one_head() -> None:
    with pytest.raises(bm.InputError, match=r"share their weights.*use head_gates"):
        bm.prune_heads(tiny("albert"), [(0, 0)])


@pytest.mark.parametrize("architecture", ["shared", "single"])
def test_a_pruned_multitask_model_is_saved_with_its_shape(
    architecture: str, tasks_of_every_kind: list[Any], tmp_path: Path
) -> None:
    model = bm.MultiTaskModel.from_pretrained(
        "builtin:tiny", tasks_of_every_kind, architecture=architecture
    ).eval()
    heads = [(0, 0), (1, 0), (1, 1), (1, 2), (1, 3)]
    texts = ["the red cat sat 1", "a big dog"]
    with bm.head_gates(model, off=heads):
        gated = model.predict("many", texts)
    before = model.parameter_counts()["encoder"]
    bm.prune_heads(model, heads).save_pretrained(tmp_path / "small")
    loaded = bm.MultiTaskModel.from_pretrained(tmp_path / "small")
    assert loaded.parameter_counts()["encoder"] < before
    for one, other in zip(gated, loaded.predict("many", texts), strict=True):
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=1e-5)
    again = bm.MultiTaskModel.from_pretrained(tmp_path / "small")
    bm.prune_heads(again, [(2, 1)])
    assert again.config.removed_heads == {"0": [0], "1": [0, 1, 2, 3], "2": [1]}


def test_a_folder_that_is_no_pruned_model_says_so(tmp_path: Path) -> None:
    with pytest.raises(bm.InputError, match=r"config\.json"):
        bm.load_pruned(tmp_path)
    model = tiny("bert", auto=tf.AutoModelForSequenceClassification)
    model.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(bm.InputError, match=r"model\.safetensors is missing"):
        bm.load_pruned(tmp_path)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_decoder_generates_with_a_whole_layer_gone(family: str) -> None:
    model = tiny(family, auto=tf.AutoModelForCausalLM)
    ids = torch.randint(4, 99, (1, 6))
    options = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 1}
    with bm.head_gates(model, off=WHOLE):
        gated = model.generate(ids, **options)
    assert torch.equal(bm.prune_heads(model, WHOLE).generate(ids, **options), gated)
