"""Small random models of every family that transformers has, by one rule for all configurations.

No family is named here. A configuration class lists its settings; those whose names say what they
count (layers, heads, widths, experts, tokens) get small values, the rest keep their defaults.
"""

import contextlib
import inspect
import re
import warnings
from collections.abc import Iterator
from typing import Any

import torch
import transformers as tf
from transformers.models.auto import configuration_auto, modeling_auto

from tests.families import shaken

# The first pattern that matches a setting's name decides its value.
RULES: tuple[tuple[str, Any], ...] = (
    (r"^(num_)?(key_value|kv)_heads?$|_num_(key_value|kv)_heads$|^(num|n)_kv_heads$", 2),
    (r"^multi_query_group_num$|^num_key_value_heads.*$|^linear_num_key_heads$", 2),
    (r"_ratio$|_multiplier$|_factor$|_theta$|_eps$|^rope_|_rate$|_std$|_prob$|_scal(e|ing)$", None),
    (r"num_hidden_groups|inner_group_num|layer_period|layer_offset|every_n", None),
    (r"^(num|n)_?(\w+_)?heads?$|^(en|de)coder_attention_heads$|mamba_n_heads|linear_num_value_", 4),
    (r"(qk_)?rope_head_dim$|qk_nope_head_dim$|v_head_dim$", 8),
    (r"(^|_)head_dim$|^d_kv$|^kv_channels$", 24),
    (r"^rotary_dim$|^coordinate_size$|^shape_size$", 16),
    (r"attention_head_size$|^(key|value)_length$|key_head_dim$|value_head_dim$", 24),
    (r"(kv|q)_lora_rank$|_lora_rank$", 16),
    (r"^num_(hidden_|encoder_|decoder_)?layers$|^n_layers?$|^(en|de)coder_layers$|^depth$", 2),
    (r"^first_k_dense_replace$|^num_dense_layers$|num_nextn_predict_layers|num_kv_shared", 0),
    (r"^num_experts_per_tok$|^moe_k$|^moe_topk$|^num_selected_experts$|^top_k_experts$", 2),
    (r"experts$|^moe_num_experts$", 4),
    (r"^n_group$|^topk_group$|^n_shared_experts$|^num_shared_experts$", 1),
    (r"vocab_size(_per_layer_input)?$|^n_tokens$", 99),
    (r"max_position|n_positions|n_ctx|max_seq_len|max_length|max_source|max_target", 64),
    (r"sliding_window$|^attention_chunk_size$|^local_attention$", 4),
    (r"^(hidden_size|d_model|n_embd|dim|embed_dim|emb_dim|word_embed_proj_dim)$", 96),
    (r"^(\w+_)?(hidden_size|embedding_size|hidden_dim|emb_dim|embed_dim|inner_dim)$", 96),
    (r"intermediate_size|ffn_dim|^d_ff$|ffn_hidden_size|^d_inner$|^n_inner$|moe_\w*_size$", 64),
    (r"^image_size$", 16),
    (r"^patch_size$", 8),
)
LARGEST = 5_000_000  # weights of a model that still counts as small
AUTO = {
    "sequence": tf.AutoModelForSequenceClassification,
    "tokens": tf.AutoModelForTokenClassification,
    "causal": tf.AutoModelForCausalLM,
}
_NAMES = {
    "sequence": modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
    "tokens": modeling_auto.MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES,
    "causal": modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
}


def model_types() -> list[tuple[str, str]]:
    """(model type, key of AUTO) of every family with one of the three kinds of model."""
    found: dict[str, str] = {}
    for auto, names in _NAMES.items():
        for name in names:
            found.setdefault(name, auto)
    return sorted(found.items())


def small_config(config_class: Any, **own: Any) -> Any:
    """A configuration of this class with few and narrow layers."""
    parameters = inspect.signature(config_class.__init__).parameters
    nested = getattr(config_class, "sub_configs", {}) or {}
    chosen: dict[str, Any] = {}
    for name, parameter in parameters.items():
        if name in nested and nested[name].__name__ != "AutoConfig":
            chosen[name] = small_config(nested[name])
        elif isinstance(parameter.default, int | None) and not isinstance(parameter.default, bool):
            value = _small(name, parameter.default)
            if value is not None:
                chosen[name] = value
    return config_class(**{**chosen, **own})


def _small(name: str, default: int | None) -> Any:
    if name.endswith(("_token_id", "_token_index")):
        return None if default is None or default < 90 else 3
    for pattern, value in RULES:
        if re.search(pattern, name):
            return None if default is None and value != 24 else value
    return None


# Tried in turn: some families need as many key-value heads as heads, others more layers before one
# of them attends.
VARIANTS: tuple[dict[str, Any], ...] = (
    {},
    {"num_key_value_heads": 4},
    {"num_hidden_layers": 4},
    {"num_hidden_layers": 4, "num_key_value_heads": 4},
    {"num_hidden_layers": 8},
)


def small_variants(model_type: str, auto: str, attention: str | None = None) -> Iterator[Any]:
    """Small models of one family, the plainest first; the last error if none can be built."""
    error: Exception | None = None
    built = False
    takes = inspect.signature(configuration_auto.CONFIG_MAPPING[model_type].__init__).parameters
    for own in VARIANTS:
        if not set(own) <= set(takes):
            continue
        try:
            model = build_small(model_type, auto, attention, **own)
        except Exception as found:  # configurations and modules raise whatever they like
            error = error or found
            continue
        built = True
        yield model
    if not built and error is not None:
        raise error


def build_small(model_type: str, auto: str, attention: str | None = None, **own: Any) -> Any:
    """A small model with weights that matter, in eval mode."""
    config = small_config(configuration_auto.CONFIG_MAPPING[model_type], **own)
    options = {} if attention is None else {"attn_implementation": attention}
    with silence(), torch.device("meta"):
        weights = AUTO[auto].from_config(config, **options).num_parameters()
    if weights > LARGEST:
        raise ValueError(f"its small form still has {weights:,} weights")
    torch.manual_seed(0)
    with silence():
        model = AUTO[auto].from_config(config, dtype=torch.float32, **options)
    return shaken(model).eval()


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Hide what transformers says about odd configurations."""
    level = tf.logging.get_verbosity()
    tf.logging.set_verbosity_error()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        tf.logging.set_verbosity(level)
