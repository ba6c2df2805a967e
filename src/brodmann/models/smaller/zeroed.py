"""Cut models at full size: zeros in place of heads and neurons, for stock classes."""

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from brodmann.errors import InputError
from brodmann.files import Array
from brodmann.models.backbone import load as backbones
from brodmann.models.backbone.anatomy import forget_cuts, head_slots, kept_heads
from brodmann.models.backbone.feed_forward import feed_forwards, neurons_left, sizes_of
from brodmann.models.heads.slices import output_columns, output_weight


def at_full_size(model: Any) -> Any:
    """A copy of a cut bare model with zeros in place of what was removed: the same answers."""
    config = copy.deepcopy(model.config)
    forget_cuts(config)
    full = backbones.build_bare(config, None, seed=0)
    whole, cut = full.state_dict(), model.state_dict()
    for name, value in cut.items():
        if name not in whole:
            raise InputError(
                f"'{name}': the bias of an emptied block has no place in {type(full).__name__}: "
                "export it --to onnx"
            )
        if whole[name].shape == value.shape:
            whole[name] = value.clone()
    for slot in head_slots(full):
        kept = kept_heads(model)[slot.layers[0]]
        if len(kept) == slot.part.heads:
            continue
        columns = np.asarray(output_columns(slot, slot.part.heads)[:, kept].any(axis=1))
        _fill(whole, cut, f"{slot.part.output}.weight", output_weight(slot)[1], columns)
        for projection in slot.part.projections:
            _fill(whole, cut, projection.path, projection.dimension, projection.kept(kept))
    left = neurons_left(model)
    for block in feed_forwards(full):
        size = left[block.output]
        if size == block.neurons:
            continue
        first = np.arange(block.neurons) < max(size, 1)  # which ones is not recorded: any will do
        dimension = sizes_of(full.get_submodule(block.output))[2]
        _fill(whole, cut, f"{block.output}.weight", dimension, first)
        for path in block.inputs:
            module = full.get_submodule(path)
            rows = block.rows(first)
            _fill(whole, cut, f"{path}.weight", sizes_of(module)[3], rows)
            if f"{path}.bias" in whole:
                _fill(whole, cut, f"{path}.bias", 0, rows)
    full.load_state_dict(whole)
    return full.eval()


def _fill(
    whole: dict[str, Tensor], cut: dict[str, Tensor], name: str, dimension: int, kept: Array
) -> None:
    """Zeros at full size, with the stored values where something was kept."""
    whole[name] = torch.zeros_like(whole[name])
    if name in cut:
        whole[name].index_copy_(dimension, torch.from_numpy(np.flatnonzero(kept)), cut[name])
