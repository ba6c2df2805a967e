"""Tiny random models of every family, for tests that hold for all of them."""

from typing import Any

import torch
import transformers as tf

SMALL: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
SMALL |= {"intermediate_size": 37, "vocab_size": 99, "max_position_embeddings": 64}
SMALL |= {"pad_token_id": 1}
NAMED: dict[str, Any] = {"bos_token_id": 2, "eos_token_id": 2}
RELATIVE: dict[str, Any] = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
CONFIGS: dict[str, Any] = {
    "bert": lambda: tf.BertConfig(**SMALL),
    "roberta": lambda: tf.RobertaConfig(**SMALL),
    "xlm-roberta": lambda: tf.XLMRobertaConfig(**SMALL),
    "electra": lambda: tf.ElectraConfig(embedding_size=16, **SMALL),
    "distilbert": lambda: tf.DistilBertConfig(
        dim=32, n_layers=2, n_heads=4, hidden_dim=37, vocab_size=99, pad_token_id=1
    ),
    "albert": lambda: tf.AlbertConfig(embedding_size=16, **SMALL),
    "mpnet": lambda: tf.MPNetConfig(**SMALL),
    "modernbert": lambda: tf.ModernBertConfig(**SMALL, **NAMED, cls_token_id=3, sep_token_id=2),
    "deberta": lambda: tf.DebertaConfig(**SMALL, **RELATIVE),
    "deberta-v2": lambda: tf.DebertaV2Config(**SMALL, **RELATIVE, position_buckets=8),
    "deberta-v3": lambda: tf.DebertaV2Config(
        **SMALL, **RELATIVE, position_buckets=8, share_att_key=True, norm_rel_ebd="layer_norm"
    ),
    "gpt2": lambda: tf.GPT2Config(
        n_embd=32, n_layer=2, n_head=4, vocab_size=99, n_positions=64, pad_token_id=1, **NAMED
    ),
    "openai-gpt": lambda: tf.OpenAIGPTConfig(
        n_embd=32, n_layer=2, n_head=4, vocab_size=99, n_positions=64, pad_token_id=1
    ),
    "llama": lambda: tf.LlamaConfig(**SMALL, **NAMED, num_key_value_heads=2),
    "mistral": lambda: tf.MistralConfig(**SMALL, **NAMED, num_key_value_heads=2),
    "qwen2": lambda: tf.Qwen2Config(**SMALL, num_key_value_heads=2),
    "qwen3": lambda: tf.Qwen3Config(**SMALL, num_key_value_heads=2, head_dim=8),
}


SHARED_LAYERS = ("albert",)  # one set of weights for several layers
SEPARATE = [family for family in CONFIGS if family not in SHARED_LAYERS]


def shaken(model: Any) -> Any:
    """Weights large enough that every head and bias matters (fresh ones are tiny or zero)."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.add_(0.3 * noise)
    return model


def tiny(family: str, attention: str | None = None, auto: Any = tf.AutoModel) -> Any:
    options = {} if attention is None else {"attn_implementation": attention}
    torch.manual_seed(0)
    return shaken(auto.from_config(CONFIGS[family](), **options)).eval()


def padded_inputs(rows: int = 3, length: int = 10) -> dict[str, torch.Tensor]:
    ids = torch.randint(4, 99, (rows, length))
    ids[0, length - 3 :] = 1
    return {"input_ids": ids, "attention_mask": (ids != 1).long()}
