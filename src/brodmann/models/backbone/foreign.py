"""Check model files from others: weights, tokenizer, configuration.

Code in such files is never run: every loader passes `trust_remote_code=False`, and attention code
that a configuration wants to fetch from the hub is rejected.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from brodmann.errors import InputError, note
from brodmann.text import listed

NAMED = 3  # a message lists this many keys and counts the rest
MAY_BE_NEW = ("pooler",)  # parts above the encoder: random if a checkpoint has none
NO_CODE = (
    "asks for Python code of its own (auto_map), which Brodmann never runs: use a model that "
    "transformers supports by itself"
)


def asks_for_code(error: Exception) -> bool:
    """Whether transformers rejected files that want their own Python code to be run."""
    return isinstance(error, ValueError) and "trust_remote_code" in str(error)


def reason_of(error: Exception) -> str:
    """One line about another library's error, with its type if the text alone says little."""
    text = " ".join(str(error).split())[:240]
    if isinstance(error, OSError | ValueError | ImportError | RuntimeError) and text:
        return text
    return f"{type(error).__name__}: {text}".rstrip(": ")


def check_config(config: Any, name: str) -> None:
    """Raise InputError for anything but a text encoder or decoder, before weights are read."""
    from transformers import AutoModel

    if getattr(config, "is_encoder_decoder", False):
        raise InputError(
            f"backbone '{name}': {config.model_type} is an encoder-decoder, "
            "expected an encoder (BERT, RoBERTa, ...) or a decoder (GPT-2, Llama, ...)"
        )
    attention = str(getattr(config, "_attn_implementation", None))
    if "/" in attention:
        raise InputError(
            f"backbone '{name}': its config.json asks for attention code from the hub "
            f"('{attention}'), which Brodmann never runs: remove 'attn_implementation' from it"
        )
    if getattr(config, "num_hidden_layers", 1) < 1:
        raise InputError(
            f"backbone '{name}': its config.json has num_hidden_layers = "
            f"{config.num_hidden_layers}, expected at least 1"
        )
    classes = AutoModel._model_mapping.get(type(config), ())
    for model_class in classes if isinstance(classes, tuple) else (classes,):
        if model_class.main_input_name != "input_ids" or not hasattr(config, "hidden_size"):
            raise InputError(
                f"backbone '{name}': {config.model_type} does not read text alone, expected an "
                "encoder (BERT, RoBERTa, ...) or a decoder (GPT-2, Llama, ...)"
            )


def check_weights(found: Mapping[str, Any], name: str) -> None:
    """Raise InputError if encoder weights would be random; note new or unused weights.

    `found` is what transformers returns for `output_loading_info=True`.
    """
    missing, foreign = sorted(found["missing_keys"]), sorted(found["unexpected_keys"])
    if found["mismatched_keys"]:
        key, there, here = sorted(found["mismatched_keys"])[0]
        raise InputError(
            f"backbone '{name}': {_counted(found['mismatched_keys'])} another shape than its "
            f"config.json says ({key}: {_shape(there)}, expected {_shape(here)}): weights and "
            "configuration belong to different models"
        )
    if found["error_msgs"]:
        raise InputError(f"backbone '{name}': {' '.join(str(found['error_msgs'][0]).split())}")
    lacking = [key for key in missing if not key.startswith(MAY_BE_NEW)]
    if lacking:
        others = f"; instead it holds {listed(foreign, NAMED)}" if foreign else ""
        raise InputError(
            f"backbone '{name}': the checkpoint lacks weights of the encoder "
            f"({listed(lacking, NAMED)}){others}: training would start from random "
            "numbers; use the weights that belong to this config.json"
        )
    if missing:
        note(f"{name}: not in the checkpoint, drawn from the seed: {listed(missing, NAMED)}")
    if foreign:
        note(f"{name}: in the checkpoint, not used: {listed(foreign, NAMED)}")


def _counted(keys: Sequence[Any]) -> str:
    return "one weight has" if len(keys) == 1 else f"{len(keys):,} weights have"


def _shape(sizes: Sequence[int]) -> str:
    return " × ".join(str(size) for size in sizes)


def check_tokenizer(tokenizer: Any, model: Any, name: str) -> None:
    """Raise InputError for a tokenizer without words, or with ids that have no embedding."""
    vocabulary = tokenizer.get_vocab()
    if set(vocabulary) <= set(tokenizer.all_special_tokens):
        raise InputError(
            f"backbone '{name}': no tokenizer (tokenizer.json is missing or empty): copy the "
            "model's own beside its weights"
        )
    rows = getattr(model.get_input_embeddings(), "weight", None)
    if rows is not None and max(vocabulary.values()) >= len(rows):
        raise InputError(
            f"backbone '{name}': its tokenizer has ids up to {max(vocabulary.values()):,}, but "
            f"there are only {len(rows):,} embeddings: tokenizer and weights belong to different "
            "models (or call resize_token_embeddings and save the model)"
        )
