"""Pictures and sound: the same calls find and gate the heads of other transformers."""

from typing import Any

import pytest
import torch
import transformers as tf
from tests.conformance import answer, judged, same, some_gates
from tests.families import shaken

import brodmann as bm

SMALL: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
SMALL |= {"intermediate_size": 37}
PICTURE: dict[str, Any] = {**SMALL, "image_size": 16, "patch_size": 8}
TEXT: dict[str, Any] = {**SMALL, "vocab_size": 99, "max_position_embeddings": 16}
SOUND: dict[str, Any] = {**SMALL, "conv_dim": (8, 8), "conv_kernel": (10, 8), "vocab_size": 9}
SOUND |= {"conv_stride": (5, 8), "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 4}
SOUND |= {"num_conv_pos_embedding_groups": 2}
WHISPER: dict[str, Any] = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2}
WHISPER |= {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "vocab_size": 99}
WHISPER |= {"encoder_ffn_dim": 37, "decoder_ffn_dim": 37, "max_source_positions": 12}
WHISPER |= {"max_target_positions": 16, "pad_token_id": 0, "decoder_start_token_id": 1}
WHISPER |= {"bos_token_id": 1, "eos_token_id": 2, "num_mel_bins": 8}
MODELS: dict[str, Any] = {
    "vit": lambda: tf.ViTModel(tf.ViTConfig(**PICTURE)),
    "clip": lambda: tf.CLIPModel(tf.CLIPConfig(text_config=TEXT, vision_config=PICTURE)),
    "clip text": lambda: tf.CLIPTextModel(tf.CLIPTextConfig(**TEXT)),
    "clip vision": lambda: tf.CLIPVisionModel(tf.CLIPVisionConfig(**PICTURE)),
    "wav2vec2": lambda: tf.Wav2Vec2Model(tf.Wav2Vec2Config(**SOUND)),
    "hubert": lambda: tf.HubertModel(tf.HubertConfig(**SOUND)),
    "whisper": lambda: tf.WhisperModel(tf.WhisperConfig(**WHISPER)),
}
STACKS = {
    "clip": {"vision_model": range(2), "text_model": range(2, 4)},  # in the order of the calls
    "whisper": {"encoder": range(2), "decoder": range(2, 4), "cross": range(4, 6)},
}


def build(name: str) -> Any:
    torch.manual_seed(0)
    return shaken(MODELS[name]()).eval()


@pytest.mark.parametrize("name", MODELS)
def test_gates_agree_with_the_judge(name: str) -> None:
    model = build(name)
    found = bm.anatomy(model)
    if name in STACKS:
        assert found.stacks == STACKS[name]
    assert found.shape == (sum(map(len, found.stacks.values())), 4)
    gates = some_gates(found)
    expected, interface = judged(model, found, gates)
    with bm.head_gates(model, gates):
        assert same(answer(model, found), expected)
    assert interface


def test_importance_and_removal_for_pictures() -> None:
    torch.manual_seed(0)
    model = shaken(tf.ViTForImageClassification(tf.ViTConfig(**PICTURE, num_labels=3))).eval()
    batch = {"pixel_values": torch.rand(4, 3, 16, 16), "labels": torch.tensor([0, 1, 2, 0])}
    scores = bm.head_importance(model, {"pictures": [batch]})
    one = {name: value[1:2] for name, value in batch.items()}
    gates = torch.ones(2, 4, requires_grad=True)
    with bm.head_gates(model, gates):
        model(**one).loss.backward()
    alone = bm.head_importance(model, {"one": [one]})
    torch.testing.assert_close(torch.from_numpy(alone.values[0]).float(), gates.grad.abs())
    least = scores.least(0.25)
    with torch.no_grad(), bm.head_gates(model, off=least):
        expected = model(batch["pixel_values"]).logits
    bm.prune_heads(model, least)
    with torch.no_grad():
        torch.testing.assert_close(model(batch["pixel_values"]).logits, expected)
