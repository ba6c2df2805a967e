"""Shapes of the papers' backbones, and the number of parameters of an architecture on one.

Counted on models without weights (torch's meta device), so that nothing is downloaded and a large
model takes no memory.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from brodmann.data.tasks import TaskSpec
from brodmann.models.backbone.load import load_config

BERT = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
        "intermediate_size": 3072}  # fmt: skip
LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16,
         "intermediate_size": 4096}  # fmt: skip
ROBERTA = {"vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1}
DEBERTA = {"vocab_size": 128100, "type_vocab_size": 0, "relative_attention": True,
           "position_buckets": 256, "norm_rel_ebd": "layer_norm", "share_att_key": True,
           "pos_att_type": ["p2c", "c2p"], "position_biased_input": False}  # fmt: skip
KNOWN: dict[str, tuple[str, dict[str, Any]]] = {  # name → (model type, settings that differ)
    "bert-base-uncased": ("bert", BERT),
    "bert-large-uncased": ("bert", LARGE),
    "bert-base-multilingual-uncased": ("bert", {**BERT, "vocab_size": 105879}),
    "bert-base-multilingual-cased": ("bert", {**BERT, "vocab_size": 119547}),
    "roberta-base": ("roberta", {**BERT, **ROBERTA}),
    "roberta-large": ("roberta", {**LARGE, **ROBERTA}),
    "huawei-noah/TinyBERT_General_6L_768D": ("bert", {**BERT, "num_hidden_layers": 6}),
    "microsoft/deberta-v3-base": ("deberta-v2", {**BERT, **DEBERTA}),
    "openai-community/openai-gpt": ("openai-gpt", {}),
    "openai-community/gpt2-medium": ("gpt2", {"n_embd": 1024, "n_layer": 24, "n_head": 16}),
}


@dataclass(frozen=True)
class Shape:
    """The shape of one backbone."""

    config: Any  # transformers'
    layers: int
    heads: int
    width: int
    inner: int

    @property
    def matrices(self) -> int:
        """Number of layer parameters that a token is multiplied by."""
        return self.layers * (4 * self.width**2 + 2 * self.width * self.inner)

    @classmethod
    def of(cls, backbone: str) -> "Shape":
        if backbone in KNOWN:
            import transformers

            kind, sizes = KNOWN[backbone]
            config = transformers.AutoConfig.for_model(kind, **sizes)
        else:
            config = load_config(backbone)
        return cls(
            config,
            layers=config.num_hidden_layers,
            heads=config.num_attention_heads,
            width=config.hidden_size,
            inner=getattr(config, "intermediate_size", None) or 4 * config.hidden_size,
        )


def encoder_counts(
    shape: Shape,
    architecture: str,
    parameters: Mapping[str, Any],
    tasks: Sequence[Any],
    max_length: int,
) -> tuple[int, int, float]:
    """(all parameters of the encoder, those that one task uses, those a token is multiplied by).

    `tasks` have `name`, `kind` and `group`.
    """
    described = tuple((task.name, task.kind, task.group) for task in tasks)
    settings = shape.config.to_json_string()
    total, active, backbone = _counted(
        settings, architecture, json.dumps(parameters, sort_keys=True), described, max_length
    )
    return total, active, shape.matrices + max(0, active - backbone)


@cache
def _counted(
    settings: str,
    architecture: str,
    parameters: str,
    tasks: tuple[tuple[str, str, str | None], ...],
    max_length: int,
) -> tuple[int, int, int]:
    """(all, active, backbone) parameters, cached: many cells of a grid have the same shape."""
    import torch
    import transformers

    from brodmann.models.encoders import ARCHITECTURES

    values = json.loads(settings)
    config = transformers.AutoConfig.for_model(values.pop("model_type"), **values)
    with torch.device("meta"):
        plain = transformers.AutoModel.from_config(config, trust_remote_code=False)
        backbone = sum(p.numel() for p in plain.parameters())
        specs = [TaskSpec(name=name, kind=kind, group=group) for name, kind, group in tasks]
        encoder = ARCHITECTURES[architecture].build(
            plain, specs, max_length, **json.loads(parameters)
        )
    total = sum(p.numel() for p in encoder.parameters())
    activated = encoder.activated_parameters()
    if activated is not None:
        return total, activated, backbone
    # A task's own parameters are used by that task alone.
    own = sum(p.numel() for name, _, _ in tasks for p in encoder.task_parameters(name))
    return total, total - own + own // len(tasks), backbone
