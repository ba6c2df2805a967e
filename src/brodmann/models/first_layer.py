"""Inputs of an encoder's first layer: texts before any layer has read them."""

import numpy as np
import torch
from torch import Tensor

from brodmann.data.batches import evaluation_order
from brodmann.data.tasks import Task
from brodmann.files import Array
from brodmann.models.backbone.anatomy import layers_of
from brodmann.models.evaluation import evaluating, unlabelled
from brodmann.models.heads.probes import drawn
from brodmann.models.model_settings import EVALUATION_BATCH
from brodmann.models.multitask import MultiTaskModel
from brodmann.models.representations import mean_over_tokens


@torch.inference_mode()
def first_layer_inputs(
    model: MultiTaskModel,
    task: Task,
    *,
    split: str = "train",
    examples: int | None = 1000,
    batch_size: int = EVALUATION_BATCH,
    seed: int = 0,
) -> Array:
    """(row, size): mean over the real tokens of every row, for sampled examples of the task."""
    places = drawn(len(task.splits[split]), examples, seed)
    encoded = model.encode(task.spec, [task.splits[split][int(place)] for place in places])
    layer = layers_of(model.encoder.backbone_of(task.name))[0]
    seen: list[Tensor] = []
    handle = layer.register_forward_pre_hook(
        lambda _, args, kwargs: seen.append(args[0] if args else kwargs["hidden_states"]),
        with_kwargs=True,
    )
    found = []
    try:
        with evaluating(model):
            for items in evaluation_order(encoded, batch_size):
                batch = unlabelled(model, task.name, encoded, items)
                seen.clear()
                model(batch)
                found.append(
                    mean_over_tokens(seen[0], batch.inputs["attention_mask"]).cpu().numpy()
                )
    finally:
        handle.remove()
    return np.concatenate(found)
