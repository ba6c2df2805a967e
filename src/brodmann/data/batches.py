"""Batches: rows of token ids padded to the longest, with the tasks they belong to.

A batch may mix tasks. Its rows are grouped by task; a part knows its rows, its items and their
labels, so that a model reads all rows at once and passes each part to its task's head.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from brodmann.data.encoding import IGNORED, Encoded, ranges
from brodmann.files import Array

if TYPE_CHECKING:
    from torch import Tensor


@dataclass
class Part:
    """The items of one task in a batch."""

    task: str
    rows: slice
    items: Array  # their indices in the encoded split
    labels: "dict[str, Tensor]"
    rows_per_item: Array
    total: int  # number of items of this task in the whole batch, over all processes


@dataclass
class Batch:
    inputs: "dict[str, Tensor]"  # input_ids, attention_mask (and token_type_ids), (row, token)
    parts: list[Part]
    tasks: int = 0  # number of tasks in the whole batch, over all processes

    def to(self, device: Any) -> "Batch":
        for name, tensor in self.inputs.items():
            self.inputs[name] = tensor.to(device, non_blocking=True)
        for part in self.parts:
            part.labels = {k: v.to(device, non_blocking=True) for k, v in part.labels.items()}
        return self


def make_batch(
    pieces: Sequence[tuple[str, Encoded, Array]],
    *,
    pad_id: int,
    totals: Sequence[int] | None = None,
) -> Batch:
    """Make one batch from (task, encoded split, items) pieces."""
    import torch

    row_ids = [(encoded, rows_of_items(encoded, items)) for _, encoded, items in pieces]
    width = max(int(np.diff(e.starts)[rows].max()) for e, rows in row_ids)
    padded = [padded_rows(e, rows, pad_id, width) for e, rows in row_ids]
    inputs = {
        name: torch.from_numpy(np.concatenate([one[name] for one in padded])) for name in padded[0]
    }
    parts, begin = [], 0
    for place, (task, encoded, items) in enumerate(pieces):
        rows = row_ids[place][1]
        labels = {}
        for name, values in encoded.labels.items():
            if name == "right":  # one per row: which of an item's choices are right
                labels[name] = torch.from_numpy(_by_item(values[rows], encoded, items))
            elif len(values) == encoded.items and name != "tags":
                labels[name] = torch.from_numpy(values[items])
            else:
                labels[name] = torch.from_numpy(_padded(values, encoded, rows, width, IGNORED))
        counts = _rows_per_item(encoded, items)
        total = len(items) if totals is None else totals[place]
        span = slice(begin, begin + len(rows))
        parts.append(Part(task, span, items, labels, counts, total))
        begin += len(rows)
    return Batch(inputs, parts, len(parts))


def rows_of_items(encoded: Encoded, items: Array) -> Array:
    """The rows of these items, one item after the other."""
    return ranges(encoded.item_rows[items], _rows_per_item(encoded, items))


def padded_rows(
    encoded: Encoded, rows: Array, pad_id: int, width: int | None = None
) -> dict[str, Array]:
    """What an encoder reads, (row, token), padded to `width` or to the longest row."""
    lengths = np.diff(encoded.starts)[rows]
    width = int(lengths.max()) if width is None else width
    inputs = {
        "input_ids": _padded(encoded.ids, encoded, rows, width, pad_id),
        "attention_mask": np.arange(width) < lengths[:, None],
    }
    if encoded.types is not None:
        inputs["token_type_ids"] = _padded(encoded.types, encoded, rows, width, 0)
    return {name: values.astype(np.int64) for name, values in inputs.items()}


def _rows_per_item(encoded: Encoded, items: Array) -> Array:
    return np.asarray(encoded.item_rows[items + 1] - encoded.item_rows[items])


def _padded(values: Array, encoded: Encoded, rows: Array, width: int, fill: int) -> Array:
    """(row, width) from flat `values`, without a Python loop over rows."""
    starts = encoded.starts[rows]
    lengths = encoded.starts[rows + 1] - starts
    inside = np.arange(width) < lengths[:, None]
    places = np.where(inside, starts[:, None] + np.arange(width), 0)
    return np.where(inside, values[places], np.array(fill, dtype=values.dtype))


def _by_item(values: Array, encoded: Encoded, items: Array) -> Array:
    """(row,) → (item, row of the item), filled with 0."""
    counts = _rows_per_item(encoded, items)
    filled = np.zeros((len(items), int(counts.max())), dtype=values.dtype)
    filled[np.arange(filled.shape[1]) < counts[:, None]] = values
    return filled


def evaluation_order(encoded: Encoded, batch_size: int) -> list[Array]:
    """Batches of items of similar length, longest first (so that memory problems show at once)."""
    order = np.argsort(-encoded.lengths(), kind="stable")
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]


def without_padding(values: Array, form: str, encoded: Encoded, item: int) -> Array:
    """The outputs of one item for its real tokens or choices; `form` is that of the head."""
    first = encoded.item_rows[item]
    if form in ("span", "tokens"):
        return values[: encoded.starts[first + 1] - encoded.starts[first]].copy()
    if form == "choice":
        return values[: encoded.item_rows[item + 1] - first]
    return values
