"""Sentence representations of a task's encoder: the mean of a layer's states over real tokens."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from brodmann.data.batches import evaluation_order
from brodmann.data.encoding import one_row_an_example
from brodmann.errors import InputError
from brodmann.files import Array
from brodmann.models.evaluation import evaluating, unlabelled
from brodmann.models.model_settings import EVALUATION_BATCH
from brodmann.models.multitask import MultiTaskModel


@torch.inference_mode()
def sentence_representations(
    model: MultiTaskModel, task: str, texts: Sequence[str], *, batch_size: int = EVALUATION_BATCH
) -> Array:
    """(text, size) from the path or encoder of `task`; the model's mode is restored."""
    model.spec(task)
    if not texts:
        raise InputError("representations: no texts")
    length = model.settings.max_length
    encoded = one_row_an_example(model.tokenizer, [{"text": text} for text in texts], length)
    found = np.zeros((len(texts), int(model.config.hidden_size)), dtype=np.float32)
    with evaluating(model):
        for items in evaluation_order(encoded, batch_size):
            batch = unlabelled(model, task, encoded, items)
            states = model.states(batch.inputs, batch.parts)[0].last_hidden_state
            found[items] = mean_over_tokens(states, batch.inputs["attention_mask"]).cpu().numpy()
    return found


@contextlib.contextmanager
def keeping_layers(model: MultiTaskModel) -> Iterator[None]:
    """Inside the block, encoders return the states of all layers."""
    configs = {id(bare.config): bare.config for bare in model.bare_models()}.values()
    before = [(config, config.output_hidden_states) for config in configs]
    try:
        for config in configs:
            config.output_hidden_states = True
        yield
    finally:
        for config, flag in before:
            config.output_hidden_states = flag


def middle_layer(states: Any) -> Tensor:
    """The states between the lower and the upper half of the layers (see `keeping_layers`).

    The last layer's for families that return no others, or in another shape (Funnel).
    """
    last: Tensor = states.last_hidden_state
    layers = states.get("hidden_states") or states.get("decoder_hidden_states")
    if not layers:
        return last
    # A layer that belongs to several paths is listed once for each of them.
    distinct = [state for n, state in enumerate(layers) if n == 0 or state is not layers[n - 1]]
    middle: Tensor = distinct[len(distinct) // 2]
    return middle if middle.shape == last.shape else last


def mean_over_tokens(states: Tensor, mask: Tensor) -> Tensor:
    """(row, size): the mean over each row's real tokens, those with 1 in the attention mask."""
    real = mask[..., None]
    return (states.float() * real).sum(dim=1) / real.sum(dim=1)
