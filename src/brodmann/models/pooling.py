r"""One vector per text: the input of a sequence task's output head.

| pooling | the vector |
|---|---|
| `pooler` | the family's own pooler (BERT: $\tanh(W h_1 + b)$), trained with the checkpoint |
| `first` | $h_1$, the last layer at the first token |
| `mean` | $\frac{1}{n} \sum_t h_t$ over the $n$ real tokens |
| `auto` | the family's own way if it was trained, otherwise `first` |

Many sentence encoders come without a trained pooler: the checkpoint lacks it, or holds the values
it was initialised with. BERT's stock classifier would then read the text through a random layer.
A pooler counts as trained when one of its biases has moved from zero, where every family starts.

Families whose head has its own way of reading (RoBERTa's dense layer at the first token, a
decoder's last real token) keep it under `auto`.

Reference: Reimers & Gurevych 2019, "Sentence-BERT", §3 (pooling strategies).
"""

from typing import Any

import torch
from torch import Tensor, nn

from brodmann.errors import InputError
from brodmann.models.model_settings import OWN, Pooling

UNTRAINED = "first"  # replaces an untrained pooler: scores like `mean`, exports without loss


def resolve_pooling(asked: Pooling, backbone: nn.Module, *, reads_pooler: bool) -> str:
    """Resolve to `own`, `first` or `mean`, depending on whether the stock head reads a pooler."""
    if asked == "pooler" and not reads_pooler:
        family = getattr(backbone.config, "model_type", type(backbone).__name__)
        raise InputError(
            f"pooling = 'pooler': the classifier of {family} reads no pooler: use auto, first or "
            "mean"
        )
    if asked == "first" and is_causal(backbone):
        raise InputError(
            "pooling = 'first': the first token of a decoder sees no other: use auto (the last "
            "token) or mean"
        )
    if asked == "auto":
        return UNTRAINED if reads_pooler and not has_trained_pooler(backbone) else OWN
    return OWN if asked == "pooler" else asked


def has_trained_pooler(backbone: nn.Module) -> bool:
    pooler = getattr(backbone, "pooler", None)
    if not isinstance(pooler, nn.Module):
        return False
    biases = [value for name, value in pooler.named_parameters() if name.endswith("bias")]
    return any(bool((bias != 0).any()) for bias in biases)


def is_causal(backbone: nn.Module) -> bool:
    """Whether a token sees only those before it, tested by reading two tokens."""
    mode = backbone.training
    device = next(backbone.parameters()).device
    backbone.eval()
    try:
        with torch.no_grad():
            ids = torch.tensor([[5, 6], [5, 7]], device=device)
            first = backbone(input_ids=ids).last_hidden_state[:, 0]
    finally:
        backbone.train(mode)
    return bool(torch.allclose(first[0], first[1], atol=1e-6))


def pooled(states: Any, mask: Tensor, pooling: str) -> Tensor:
    """(row, width) vectors from the encoder's states."""
    last: Tensor = states.last_hidden_state
    if pooling == "first":
        return last[:, 0].contiguous()  # stock heads for choices call `view` on it
    weights = mask[..., None].to(last.dtype)
    return (last * weights).sum(1) / weights.sum(1).clamp(min=1)


def describe_pooling(pooling: str) -> str:
    """Describe what the head reads, for terminal, page and model card."""
    return {
        OWN: "the family's own vector",
        "first": "the state of the first token",
        "mean": "the mean of all tokens' states",
    }[pooling]
