"""Batches: padding, mixed tasks, several rows an item, and the order of evaluation."""

from typing import Any

import numpy as np

from brodmann.data.batches import evaluation_order, make_batch
from brodmann.data.encoding import encode_task
from brodmann.models.backbone.tiny import tiny_tokenizer


def test_a_mixed_batch_holds_every_row_once_with_its_own_labels(
    tasks_of_every_kind: list[Any],
) -> None:
    tokenizer = tiny_tokenizer()
    pieces = []
    for task in tasks_of_every_kind:
        data = encode_task(
            task.splits["train"], task.spec, tokenizer, max_length=32, stride=8, cache=False
        )
        pieces.append((task.name, data, np.array([3, 0])))
    batch = make_batch(pieces, pad_id=0)
    ids, mask = batch.inputs["input_ids"].numpy(), batch.inputs["attention_mask"].numpy()
    assert sum(part.rows.stop - part.rows.start for part in batch.parts) == len(ids)
    assert (ids[mask == 0] == 0).all() and (ids[:, 0] == tokenizer.cls_token_id).all()
    for part, (name, data, items) in zip(batch.parts, pieces, strict=True):
        assert part.task == name and part.total == 2
        row = part.rows.start
        for item, count in zip(items, part.rows_per_item, strict=True):
            for own in range(int(data.item_rows[item]), int(data.item_rows[item]) + int(count)):
                length = int(data.starts[own + 1] - data.starts[own])
                expected = data.ids[data.starts[own] : data.starts[own + 1]]
                assert ids[row, :length].tolist() == expected.tolist()
                assert mask[row].sum() == length
                row += 1
        assert row == part.rows.stop
    shapes = {
        part.task: {k: tuple(v.shape) for k, v in part.labels.items()} for part in batch.parts
    }
    assert shapes["single"] == {"label": (2,)} and shapes["many"] == {"label": (2, 2)}
    assert shapes["where"] == {"first": (2,), "last": (2,)}
    assert shapes["tag"] == {"tags": (2, ids.shape[1])}


def test_evaluation_reads_everything_once_from_long_to_short(
    tasks_of_every_kind: list[Any],
) -> None:
    for task in tasks_of_every_kind:
        data = encode_task(
            task.splits["train"], task.spec, tiny_tokenizer(), max_length=12, stride=3, cache=False
        )
        order = evaluation_order(data, 5)
        assert sorted(np.concatenate(order).tolist()) == list(range(data.items))
        longest = [int(data.lengths()[items].max()) for items in order]
        assert longest == sorted(longest, reverse=True)
