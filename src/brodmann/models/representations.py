"""Sentences as a task's encoder represents them: the mean of its last layer over real tokens."""

from collections.abc import Sequence

import numpy as np
import torch

from brodmann.artifacts import Array
from brodmann.data.batches import Part, make_batch
from brodmann.data.encoding import one_row_an_example
from brodmann.errors import InputError
from brodmann.models.multitask import MultiTaskModel


@torch.inference_mode()
def sentence_representations(
    model: MultiTaskModel, task: str, texts: Sequence[str], *, batch_size: int = 64
) -> Array:
    """(text, size) by the path or encoder of `task`; the model's mode is as before afterwards."""
    model.spec(task)
    if not texts:
        raise InputError("representations: no texts")
    length = model.settings.max_length
    encoded = one_row_an_example(model.tokenizer, [{"text": text} for text in texts], length)
    pad_id = int(model.tokenizer.pad_token_id)
    training = model.training
    model.eval()
    found = np.zeros((len(texts), int(model.config.hidden_size)), dtype=np.float32)
    order = np.argsort(-encoded.lengths(), kind="stable")
    try:
        for begin in range(0, len(order), batch_size):
            items = order[begin : begin + batch_size]
            batch = make_batch([(task, encoded, items)], pad_id=pad_id).to(model.device)
            ones = np.ones(len(items), int)
            part = Part(task, slice(0, len(items)), items, {}, ones, len(items))
            states = model.encoder(batch.inputs, [part])[0].last_hidden_state.float()
            mask = batch.inputs["attention_mask"][..., None]
            found[items] = ((states * mask).sum(dim=1) / mask.sum(dim=1)).cpu().numpy()
    finally:
        model.train(training)
    return found
