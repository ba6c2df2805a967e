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

    row_ids: list[tuple[Encoded, Array]] = []
    for _, encoded, items in pieces:
        counts = encoded.item_rows[items + 1] - encoded.item_rows[items]
        row_ids.append((encoded, ranges(encoded.item_rows[items], counts)))
    lengths = [np.diff(e.starts)[rows] for e, rows in row_ids]
    width = max(int(length.max()) for length in lengths)
    inputs: dict[str, Tensor] = {}
    ids = [_padded(e.ids, e, rows, width, pad_id) for e, rows in row_ids]
    inputs["input_ids"] = torch.from_numpy(np.concatenate(ids).astype(np.int64))
    masks = [np.arange(width) < length[:, None] for length in lengths]
    inputs["attention_mask"] = torch.from_numpy(np.concatenate(masks).astype(np.int64))
    if row_ids[0][0].types is not None:
        types = [_padded(e.types, e, rows, width, 0) for e, rows in row_ids if e.types is not None]
        inputs["token_type_ids"] = torch.from_numpy(np.concatenate(types).astype(np.int64))
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
        counts = encoded.item_rows[items + 1] - encoded.item_rows[items]
        total = len(items) if totals is None else totals[place]
        span = slice(begin, begin + len(rows))
        parts.append(Part(task, span, items, labels, counts, total))
        begin += len(rows)
    return Batch(inputs, parts, len(parts))


def _padded(values: Array, encoded: Encoded, rows: Array, width: int, fill: int) -> Array:
    """(row, width) from flat `values`, without a Python loop over rows."""
    starts = encoded.starts[rows]
    lengths = encoded.starts[rows + 1] - starts
    inside = np.arange(width) < lengths[:, None]
    places = np.where(inside, starts[:, None] + np.arange(width), 0)
    return np.where(inside, values[places], np.array(fill, dtype=values.dtype))


def _by_item(values: Array, encoded: Encoded, items: Array) -> Array:
    """(row,) → (item, row of the item), filled with 0."""
    counts = encoded.item_rows[items + 1] - encoded.item_rows[items]
    filled = np.zeros((len(items), int(counts.max())), dtype=values.dtype)
    filled[np.arange(filled.shape[1]) < counts[:, None]] = values
    return filled


def evaluation_order(encoded: Encoded, batch_size: int) -> list[Array]:
    """Batches of items of similar length, longest first (so that memory problems show at once)."""
    order = np.argsort(-encoded.lengths(), kind="stable")
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
