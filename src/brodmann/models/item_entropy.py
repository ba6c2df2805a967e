"""How certain a model is of its answers: the entropy of each, and that of a uniform answer."""

import numpy as np
import torch

from brodmann.data.encoding import Encoded
from brodmann.data.kinds import KINDS
from brodmann.files import Array
from brodmann.models.backbone.precision import autocast
from brodmann.models.evaluation import evaluating, unlabelled
from brodmann.models.multitask import MultiTaskModel


@torch.no_grad()
def item_entropies(
    model: MultiTaskModel,
    task: str,
    encoded: Encoded,
    items: Array,
    *,
    precision: str = "float32",
) -> tuple[Array, Array] | None:
    """(H, H') of these items with the current model, dropout off; None if answers have no entropy.

    The model's mode is restored.
    """
    spec = model.spec(task)
    kind = KINDS[spec.kind]
    if kind.entropy is None:
        return None
    if not len(items):
        return np.zeros(0), np.zeros(0)
    with evaluating(model), autocast(model.device, precision):
        batch = unlabelled(model, task, encoded, items)
        logits = model(batch).logits[0]
    if kind.HEAD == "choice":
        counts = torch.as_tensor(batch.parts[0].rows_per_item, device=logits.device)
        real = torch.arange(logits.shape[1], device=logits.device) < counts[:, None]
    else:
        real = batch.inputs["attention_mask"].bool()
    found, uniform = kind.entropy(logits.float(), real)
    return found.double().cpu().numpy(), uniform.double().cpu().numpy()
