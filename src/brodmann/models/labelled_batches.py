"""Batches for a stock classifier of transformers, from rows with texts and labels.

For any checkpoint that was trained elsewhere: its own tokenizer, and the labels that its
configuration names.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from brodmann.errors import InputError, did_you_mean

IGNORED = -100  # the label of a token that is not judged
LONGEST = 512  # tokens, if the tokenizer names no limit


@dataclass(frozen=True)
class Columns:
    """The columns of a labelled table."""

    text: str = "text"
    pair: str | None = None
    label: str = "label"

    def names(self) -> list[str]:
        return [name for name in (self.text, self.pair, self.label) if name is not None]


def labelled_batches(
    model: Any,
    tokenizer: Any,
    rows: Iterable[Mapping[str, Any]],
    columns: Columns,
    *,
    batch_size: int = 32,
) -> list[dict[str, Any]]:
    """Padded batches with labels, of similar length, on the model's device.

    A text is a string, or a list of words for a token classifier, whose labels are as many tags.
    Labels are the names or the numbers that the model's configuration knows.
    """
    listed = list(rows)
    if not listed:
        raise InputError("no rows: expected at least one text with its label")
    for column in columns.names():
        for place, row in enumerate(listed):
            if row.get(column) is None:
                known = did_you_mean(column, list(row))
                raise InputError(f"row {place + 1}: column '{column}' is missing or empty{known}")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
        model.config.pad_token_id = tokenizer.pad_token_id
    by_word = not isinstance(listed[0][columns.text], str)
    encode = _encode_words if by_word else _encode_texts
    items = encode(model, tokenizer, listed, columns)
    items.sort(key=lambda item: len(item["input_ids"]))
    starts = range(0, len(items), batch_size)
    return [_padded(items[s : s + batch_size], tokenizer, model.device) for s in starts]


def label_number(config: Any, value: Any, where: str) -> int | float:
    """A label as the model's own number; for a regression, the number itself."""
    if config.num_labels == 1:
        try:
            return float(value)
        except (TypeError, ValueError):
            raise InputError(f"{where}: label {value!r:.60}: expected a number") from None
    known = {str(name): int(number) for name, number in (config.label2id or {}).items()}
    if str(value) in known:
        return known[str(value)]
    folded = {name.casefold(): number for name, number in known.items()}
    if str(value).casefold() in folded:
        return folded[str(value).casefold()]
    try:
        number = int(str(value))
    except ValueError:
        number = -1
    if 0 <= number < config.num_labels:
        return number
    names = ", ".join(list(known)[:8])
    raise InputError(
        f"{where}: label {str(value)!r:.60} is unknown to the model, which has {names} "
        f"(or 0 to {config.num_labels - 1})"
    )


def _encode_texts(
    model: Any, tokenizer: Any, rows: Sequence[Mapping[str, Any]], columns: Columns
) -> list[dict[str, Any]]:
    limit = _limit(model, tokenizer)
    first = [str(row[columns.text]) for row in rows]
    second = None if columns.pair is None else [str(row[columns.pair]) for row in rows]
    encoded = tokenizer(first, second, truncation=True, max_length=limit)
    return [
        {name: values[place] for name, values in encoded.items()}
        | {"labels": label_number(model.config, row[columns.label], f"row {place + 1}")}
        for place, row in enumerate(rows)
    ]


def _encode_words(
    model: Any, tokenizer: Any, rows: Sequence[Mapping[str, Any]], columns: Columns
) -> list[dict[str, Any]]:
    """Tags go to the first token of every word; the others are not judged."""
    if columns.pair is not None:
        raise InputError("a second text cannot be combined with tags for words")
    limit = _limit(model, tokenizer)
    items = []
    for place, row in enumerate(rows):
        words, tags = list(row[columns.text]), row[columns.label]
        if isinstance(tags, str) or len(words) != len(tags):
            raise InputError(
                f"row {place + 1}: expected one tag for each of the {len(words)} words"
            )
        encoded = tokenizer(words, is_split_into_words=True, truncation=True, max_length=limit)
        labels, before = [], None
        for word in encoded.word_ids():
            first = word is not None and word != before
            where = f"row {place + 1}"
            labels.append(label_number(model.config, tags[word], where) if first else IGNORED)
            before = word
        items.append({**encoded, "labels": labels})
    return items


def _limit(model: Any, tokenizer: Any) -> int:
    positions = getattr(model.config, "max_position_embeddings", None) or LONGEST
    return int(min(tokenizer.model_max_length, positions, LONGEST))


def _padded(items: list[dict[str, Any]], tokenizer: Any, device: Any) -> dict[str, Any]:
    inputs = [{k: v for k, v in item.items() if k != "labels"} for item in items]
    batch = dict(tokenizer.pad(inputs, return_tensors="pt"))
    width = batch["input_ids"].shape[1]
    labels = [item["labels"] for item in items]
    if isinstance(labels[0], list):
        labels = [[*tags, *[IGNORED] * (width - len(tags))] for tags in labels]
    batch["labels"] = torch.tensor(labels)
    return {name: value.to(device) for name, value in batch.items()}
