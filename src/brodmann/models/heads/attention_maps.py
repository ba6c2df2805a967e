r"""Attention-map similarity: how similarly two models attend to the same texts, head by head.

For every layer and head, the mean over texts of the cosine between the two models' attention maps
$\mathrm{softmax}(QK^T/\sqrt{d})$, flattened, without padding. Batches are reduced one by one, so
memory does not grow with the number of texts.

Reference: Fei et al. 2022, "Coarse-to-Fine: Hierarchical Multi-task Learning for Natural Language
Understanding" (HMNet), Figures 5 and 6.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from brodmann.data.batches import evaluation_order
from brodmann.data.tasks import Task
from brodmann.errors import InputError, did_you_mean
from brodmann.files import Array
from brodmann.models.backbone.anatomy import head_shape, head_slots, removed_heads
from brodmann.models.evaluation import evaluating, unlabelled
from brodmann.models.heads.probes import drawn
from brodmann.models.multitask import MultiTaskModel


@torch.inference_mode()
def attention_map_similarity(
    first: MultiTaskModel,
    second: MultiTaskModel,
    task: Task,
    *,
    split: str = "validation",
    examples: int | None = 500,
    batch_size: int = 32,
    seed: int = 0,
) -> Array:
    """(layer, head) similarity of two models that both have `task` and read the same tokens."""
    if split not in task.splits:
        known = did_you_mean(split, task.splits)
        raise InputError(f"attention maps: task '{task.name}' has no split '{split}'{known}")
    bares = [model.encoder.backbone_of(task.name).base_model for model in (first, second)]
    if head_shape(bares[0]) != head_shape(bares[1]):
        raise InputError("attention maps: the two models differ in layers or heads")
    if any(removed_heads(bare.config) for bare in bares):
        raise InputError("attention maps: a model has removed heads: compare whole models")
    places = drawn(len(task.splits[split]), examples, seed)
    rows = [task.splits[split][int(place)] for place in places]
    encoded = first.encode(task.spec, rows)
    other = second.encode(task.spec, rows)
    if not np.array_equal(encoded.ids, other.ids):
        raise InputError(
            "attention maps: the two models read different tokens (tokenizer, max_length)"
        )
    total, count = torch.zeros(head_shape(bares[0]), dtype=torch.float64), 0
    with (
        evaluating(first),
        evaluating(second),
        watch_maps(bares[0]) as one,
        watch_maps(bares[1]) as two,
    ):
        for items in evaluation_order(encoded, batch_size):
            maps: list[list[Tensor]] = []
            for model, seen, bare in ((first, one, bares[0]), (second, two, bares[1])):
                one.clear()
                two.clear()  # one model may be both
                batch = unlabelled(model, task.name, encoded, items)
                model(batch)
                maps.append(_check_maps(seen, bare))
            mask = batch.inputs["attention_mask"]
            for layer, (a, b) in enumerate(zip(*maps, strict=True)):
                total[layer] += _cosines(a, b, mask).cpu().double().sum(dim=0)
            count += len(mask)
    return np.asarray((total / count).numpy())


def _cosines(a: Tensor, b: Tensor, mask: Tensor) -> Tensor:
    """(row, head) cosines of maps (row, head, token, token), without padding on either side."""
    real = (mask[:, None, :, None] * mask[:, None, None, :]).float()
    x, y = (a.float() * real).flatten(2), (b.float() * real).flatten(2)
    return torch.nn.functional.cosine_similarity(x, y, dim=-1)


@contextlib.contextmanager
def watch_maps(bare: Any) -> Iterator[list[Tensor | None]]:
    """Collect the maps of every forward pass, layer by layer; None where a module returns none.

    Only eager attention returns maps, so it is used inside the block.
    """
    seen: list[Tensor | None] = []

    def watch(_: Any, __: Any, output: Any) -> None:
        maps = output[1] if isinstance(output, tuple | list) and len(output) > 1 else None
        seen.append(maps.detach() if isinstance(maps, Tensor) else None)

    before = bare.config._attn_implementation
    handles = [slot.attention.register_forward_hook(watch) for slot in head_slots(bare)]
    bare.set_attn_implementation("eager")
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()
        bare.set_attn_implementation(before)


def _check_maps(seen: list[Tensor | None], bare: Any) -> list[Tensor]:
    found = [maps for maps in seen if maps is not None]
    if len(found) < len(seen):
        raise InputError(f"{type(bare).__name__}: its attention does not return its maps")
    return found
