"""The inside of transformers' models: one record per family lists the paths of its parts.

Methods that reach inside (gates, importance, removal, freezing) are written once against that
record. A family without one still trains and predicts; methods that need its parts raise an error
that says how to add it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from brodmann.errors import InputError

# How the rows of a projection belong to the heads:
#   "heads"    head after head                     (BERT's query, key, value)
#   "groups"   key-value heads, each shared by a group of query heads      (Llama)
#   "thirds"   all queries, then all keys, then all values                 (GPT-2, ModernBERT)
#   "triples"  query, key and value of the first head, then of the second  (DeBERTa)
_QKV = {"query": "heads", "key": "heads", "value": "heads"}


@dataclass(frozen=True)
class Residual:
    """The residual of a layer that normalises after adding: the added module and the norm."""

    added: str
    norm: str


@dataclass(frozen=True)
class Family:
    """Paths from the bare model (as AutoModel returns it) to its parts."""

    embeddings: tuple[str, ...]  # everything before the first layer
    layers: str  # the list of layers, from the input to the output
    attention: str  # in a layer: the module that holds the projections below
    output: str  # in a layer: W^O, whose input is the concatenated outputs of the heads
    projections: Mapping[str, str]  # in `attention`: the heads' projections, with their layouts
    counts: tuple[str, ...] = ()  # attributes of `attention`: number of heads, total width
    shared_layers: bool = False  # ALBERT: one layer called again and again
    residuals: tuple[Residual, Residual] | None = None  # after attention, after the feed-forward

    @property
    def grouped(self) -> bool:
        return "groups" in self.projections.values()


_COUNTS = ("num_attention_heads", "all_head_size")
_FEED_FORWARD = Residual("output.dropout", "output.LayerNorm")
_BERT = Family(
    ("embeddings",),
    "encoder.layer",
    "attention.self",
    "attention.output.dense",
    _QKV,
    _COUNTS,
    residuals=(Residual("attention.output.dropout", "attention.output.LayerNorm"), _FEED_FORWARD),
)
_DEBERTA = replace(
    _BERT,
    residuals=None,  # its attention has other masks and positions
    projections={"in_proj": "triples", "q_bias": "heads", "v_bias": "heads"}
    | {"pos_proj": "heads", "pos_q_proj": "heads"},
)
_DEBERTA_V2 = replace(
    _BERT,
    residuals=None,
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
        residuals=(Residual("attention.dropout", "attention.LayerNorm"), _FEED_FORWARD),
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


def family_of(model: Any) -> Family:
    """The record of the model's family; InputError says how to add a missing one."""
    kind = model.config.model_type
    if kind not in FAMILIES:
        raise InputError(
            f"{type(model).__name__} (model_type '{kind}') is not in the table of families: "
            "add one line to FAMILIES in brodmann/models/families.py"
        )
    return FAMILIES[kind]


def layers_of(model: Any) -> list[nn.Module]:
    family = family_of(model)
    if family.shared_layers:
        raise InputError(
            f"{type(model).__name__}: its layers share one set of weights, so some of them "
            "cannot be treated separately"
        )
    return list(model.get_submodule(family.layers))


class AroundBackbones(nn.Module):
    """A module that lists the transformers models inside it: encoders, and models around them."""

    def paths(self) -> list[Any]:
        """Every transformers model inside, one per path; paths may share layers."""
        raise NotImplementedError


def bare_models(module: Any) -> list[Any]:
    """The bare transformers models inside any module: its own, or those it is built around."""
    from transformers import PreTrainedModel

    module = unwrapped(module)
    if isinstance(module, AroundBackbones):
        return [path.base_model for path in module.paths()]
    found: list[Any] = []
    seen: set[int] = set()

    def walk(inner: nn.Module) -> None:  # do not descend into a transformers model
        if id(inner) in seen:
            return
        seen.add(id(inner))
        if isinstance(inner, PreTrainedModel):
            found.append(inner)
            return
        for child in inner.children():
            walk(child)

    walk(module)
    if not found:
        raise InputError(f"{type(module).__name__}: contains no transformers model")
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
    """One output projection and the layers it serves: several if layers share weights."""

    attention: nn.Module
    output: nn.Module
    layers: tuple[int, ...]  # in the order of the calls


def head_shape(model: Any) -> tuple[int, int]:
    """(layers, heads per layer) as the model was created; removed heads still count."""
    config = model.config
    inner = getattr(config, "inner_group_num", 1) if family_of(model).shared_layers else 1
    return int(config.num_hidden_layers) * inner, int(config.num_attention_heads)


def head_slots(model: Any) -> list[HeadSlot]:
    """The output projections of a bare model, where the outputs of its heads meet."""
    family = family_of(model)
    if family.shared_layers:
        return _shared_slots(model, family)
    return [
        HeadSlot(layer.get_submodule(family.attention), layer.get_submodule(family.output), (i,))
        for i, layer in enumerate(layers_of(model))
    ]


def every_slot(models: Sequence[Any]) -> list[tuple[Any, HeadSlot]]:
    """(model, slot) of several bare models, each projection once: paths may share layers."""
    found: dict[int, tuple[Any, HeadSlot]] = {}
    for model in models:
        for slot in head_slots(model):
            found.setdefault(id(slot.output), (model, slot))
    return list(found.values())


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


@dataclass(frozen=True)
class ResidualSlot:
    """A residual of one layer: the module whose output is added, and the norm of the sum."""

    added: nn.Module
    norm: nn.Module


def residual_slots(model: Any, architecture: str) -> list[tuple[ResidualSlot, ResidualSlot]]:
    """(after attention, after the feed-forward) of every layer."""
    residuals = family_of(model).residuals
    if residuals is None:
        known = ", ".join(name for name, family in FAMILIES.items() if family.residuals is not None)
        raise InputError(
            f"architecture '{architecture}': the residuals of {model.config.model_type} are not "
            f"known here: use one of {known}, or add them to FAMILIES"
        )
    first, second = residuals
    return [
        (
            ResidualSlot(layer.get_submodule(first.added), layer.get_submodule(first.norm)),
            ResidualSlot(layer.get_submodule(second.added), layer.get_submodule(second.norm)),
        )
        for layer in layers_of(model)
    ]


REMOVED = "removed_heads"  # in a configuration: layer (as text) → heads that were removed


def removed_heads(config: Any) -> dict[int, list[int]]:
    return {int(layer): heads for layer, heads in getattr(config, REMOVED, {}).items()}


def kept_heads(model: Any) -> list[list[int]]:
    """The heads that each layer still has, by their original numbers."""
    layers, heads = head_shape(model)
    gone = removed_heads(model.config)
    return [[h for h in range(heads) if h not in gone.get(layer, ())] for layer in range(layers)]
