"""What tests ask again and again, named after the property."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

Weights = Any  # a model, its state, tensors in order, or a folder with saved weights


def weights(what: Weights) -> dict[str, Tensor]:
    """By name, and copies: training a model on does not change them.

    A folder is that of a run or of a model.
    """
    if isinstance(what, Path):
        folder = what / "model" if (what / "model").is_dir() else what
        return load_file(folder / "model.safetensors")
    if isinstance(what, torch.nn.Module):
        what = what.state_dict()
    if isinstance(what, Mapping):
        return {name: value.detach().clone() for name, value in what.items()}
    assert isinstance(what, Iterable)
    return {str(place): value.detach().clone() for place, value in enumerate(what)}


def differing(one: Weights, other: Weights) -> list[str]:
    """Names of the weights that are not the same bits; both must have the same names."""
    ours, theirs = weights(one), weights(other)
    assert ours.keys() == theirs.keys()
    return [name for name in ours if not torch.equal(ours[name], theirs[name])]


def assert_same_bits(one: Weights, other: Weights) -> None:
    assert differing(one, other) == []


def assert_other_bits(one: Weights, other: Weights) -> None:
    assert differing(one, other) != []


def assert_keeps_bits(of: Weights, within: Weights) -> None:
    """All of one is in the other as it was; the other may have more."""
    ours, theirs = weights(of), weights(within)
    assert ours.keys() <= theirs.keys()
    assert_same_bits(ours, {name: theirs[name] for name in ours})
