"""Texts as token ids, computed once and cached: flat arrays from which batches are cut.

A *row* is one sequence that the encoder reads, an *item* what a batch counts (one row, or the rows
of one question's choices), an *example* what the user gave (a long context makes several items).
"""

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from brodmann.errors import InputError, note
from brodmann.files import Array, cache_folder, digest, read_arrays, whole_file

if TYPE_CHECKING:
    from brodmann.data.tasks import Example, TaskSpec

CACHE_VERSION = 3  # increase when the arrays of an encoding change their meaning
IGNORED = -100  # torch's own mark for a label that does not count
# Tokenised together: the tokenizer's output takes many times the memory of the final arrays.
PIECE_ROWS = 1_000
PIECE_CHARACTERS = 500_000


class Tokenizer(Protocol):
    """What reading texts asks of a tokenizer: transformers' own and the runtime's offer it."""

    def __call__(self, first: list[str], second: list[str] | None = None, /, **options: Any) -> Any:
        """Lists by name, one entry per row: `input_ids`, `token_type_ids` if there are segments.

        The options are `add_special_tokens`; `truncation` (False, True: the longer text of a pair
        first, or "only_second") with `max_length`; `return_overflowing_tokens` with `stride`, which
        adds further windows and `overflow_to_sample_mapping`; `return_offsets_mapping` and
        `return_special_tokens_mask`. `sequence_ids(row)` tells the texts of a pair apart.
        """

    def num_special_tokens_to_add(self, pair: bool = False) -> int: ...


@dataclass
class Encoded:
    """One split of one task, tokenised."""

    ids: Array  # (token,) all rows one after the other
    starts: Array  # (row + 1,) where each row begins in `ids`
    item_rows: Array  # (item + 1,) the first row of each item
    item_example: Array  # (item,)
    truncated: int  # examples that lost text
    types: Array | None = None  # (token,) segment of each token, if the tokenizer has segments
    labels: dict[str, Array] = field(default_factory=dict)  # one entry per item, or per token
    places: dict[str, Array] = field(default_factory=dict)  # per token: its position in the text

    @property
    def items(self) -> int:
        return len(self.item_example)

    @property
    def examples(self) -> int:
        return int(self.item_example.max()) + 1 if len(self.item_example) else 0

    def lengths(self) -> Array:
        """The longest row of each item, by which bucketing sorts."""
        rows = np.diff(self.starts)
        return np.maximum.reduceat(rows, self.item_rows[:-1]) if len(rows) else rows

    def only(self, examples: Array) -> "Encoded":
        """The encoding of some examples, in the order given."""
        order = np.argsort(self.item_example, kind="stable")
        begins = np.searchsorted(self.item_example[order], np.arange(self.examples + 1))
        owned = [order[begins[e] : begins[e + 1]] for e in examples]
        items = np.concatenate(owned)
        counts = self.item_rows[items + 1] - self.item_rows[items]
        rows = ranges(self.item_rows[items], counts)
        lengths = np.diff(self.starts)[rows]
        tokens = ranges(self.starts[rows], lengths)
        places = {"tags": tokens, "right": rows}  # labels per token and row; others per item
        return Encoded(
            ids=self.ids[tokens],
            starts=np.concatenate([[0], np.cumsum(lengths)]),
            item_rows=np.concatenate([[0], np.cumsum(counts)]),
            item_example=np.repeat(np.arange(len(owned)), [len(part) for part in owned]),
            truncated=0,
            types=None if self.types is None else self.types[tokens],
            labels={name: v[places.get(name, items)] for name, v in self.labels.items()},
            places={name: values[tokens] for name, values in self.places.items()},
        )


def ranges(starts: Array, counts: Array) -> Array:
    """start, start + 1, … of every range, concatenated."""
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.asarray(np.repeat(starts, counts) + within)


def encode_task(
    examples: Sequence["Example"],
    spec: "TaskSpec",
    tokenizer: Any,
    *,
    max_length: int,
    stride: int,
    cache: bool = True,
) -> Encoded:
    """Tokenise, or reuse what an earlier run with the same texts and tokenizer cached."""
    from brodmann.data.kinds import KINDS

    if not cache:
        return KINDS[spec.kind].encode(examples, spec, tokenizer, max_length, stride)
    key = digest(
        [CACHE_VERSION, max_length, stride, spec.kind, spec.labels, spec.target_mean],
        [spec.target_scale, spec.unanswerable, spec.scheme],
        tokenizer_fingerprint(tokenizer),
        *examples,
    )
    path = cache_folder() / "tokens" / f"{key}.npz"
    with contextlib.suppress(InputError, KeyError):  # missing or damaged: tokenise again
        return _load(path)
    encoded = KINDS[spec.kind].encode(examples, spec, tokenizer, max_length, stride)
    try:
        _save(encoded, path)
    except (InputError, OSError) as error:
        _note_unusable(path.parent, error)
    return encoded


_noted: set[Path] = set()  # caches that the user has been told about


def _note_unusable(folder: Path, error: InputError | OSError) -> None:
    """Note an unusable cache: it only saves time, so the run continues without it."""
    if folder not in _noted:
        _noted.add(folder)
        cause = error.__cause__ if isinstance(error, InputError) else error
        reason = getattr(cause, "strerror", None) or str(error)
        note(
            f"{folder}: cannot cache tokenised texts ({reason}): continuing without; "
            "set BRODMANN_CACHE to another folder"
        )


def tokenizer_fingerprint(tokenizer: Any) -> str:
    """Digest of everything that decides the ids: the whole tokenizer with special tokens."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        state = json.dumps(tokenizer.get_vocab())
    else:
        forget_last_call(tokenizer)
        state = backend.to_str()
    return digest(
        [state, tokenizer.padding_side, tokenizer.truncation_side, tokenizer.name_or_path]
    )


def forget_last_call(tokenizer: Any) -> None:
    """Reset the truncation and padding that the last call left in the tokenizer.

    The next call sets its own; a file or fingerprint must not depend on earlier calls.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        backend.no_truncation()
        backend.no_padding()


def encode_texts(
    tokenizer: Tokenizer, first: Sequence[str], second: Sequence[str] | None, max_length: int
) -> tuple[Array, Array, Array | None, int]:
    """One row per text or pair, cut to `max_length`: ids, starts, segments, number of cut texts."""
    sizes = map(len, first) if second is None else map(_both, first, second)
    parts = [
        _encode_piece(tokenizer, first[i:j], None if second is None else second[i:j], max_length)
        for i, j in pieces(sizes)
    ]
    ids, starts, types, cut = zip(*parts, strict=True)
    whole_types = None if types[0] is None else np.concatenate(types)
    return np.concatenate(ids), _following(starts), whole_types, sum(cut)


def _both(one: str, two: str) -> int:
    return len(one) + len(two)


def pieces(sizes: Iterable[int]) -> Iterator[tuple[int, int]]:
    """(begin, end) of texts to tokenise together; `sizes` are their numbers of characters.

    There is at least one piece, which is empty if there are no rows.
    """
    begin, end, characters = 0, 0, 0
    for size in sizes:
        if end > begin and (end - begin == PIECE_ROWS or characters + size > PIECE_CHARACTERS):
            yield begin, end
            begin, characters = end, 0
        end += 1
        characters += size
    yield begin, end


def in_pieces(
    examples: Sequence["Example"],
    size: Callable[["Example"], int],
    encode: Callable[[Sequence["Example"]], Encoded],
) -> Encoded:
    """Apply `encode` to some examples at a time; the result is the same as for all at once."""
    parts = [(examples[i:j], encode(examples[i:j])) for i, j in pieces(map(size, examples))]
    if len(parts) == 1:
        return parts[0][1]
    firsts = np.cumsum([0, *(len(few) for few, _ in parts)])
    found = [part for _, part in parts]
    types = [part.types for part in found if part.types is not None]
    # Labels exist if every example has some.
    labels = [name for name in found[0].labels if all(name in part.labels for part in found)]
    return Encoded(
        ids=np.concatenate([part.ids for part in found]),
        starts=_following([part.starts for part in found]),
        item_rows=_following([part.item_rows for part in found]),
        item_example=np.concatenate(
            [part.item_example + first for part, first in zip(found, firsts, strict=False)]
        ),
        truncated=sum(part.truncated for part in found),
        types=np.concatenate(types) if types else None,
        labels={name: np.concatenate([part.labels[name] for part in found]) for name in labels},
        places={n: np.concatenate([part.places[n] for part in found]) for n in found[0].places},
    )


def _following(starts: Sequence[Array]) -> Array:
    """Concatenate the starts of pieces, each with its end as the last entry."""
    ends = np.cumsum([0, *(part[-1] for part in starts)])
    shifted = [part[:-1] + before for part, before in zip(starts, ends, strict=False)]
    return np.concatenate([*shifted, ends[-1:]])


def _encode_piece(
    tokenizer: Tokenizer, first: Sequence[str], second: Sequence[str] | None, max_length: int
) -> tuple[Array, Array, Array | None, int]:
    pairs = (list(first),) if second is None else (list(first), list(second))
    whole = tokenizer(*pairs, truncation=False, return_attention_mask=False, verbose=False)
    rows = list(whole["input_ids"])
    types = list(whole["token_type_ids"]) if "token_type_ids" in whole else None
    long = [index for index, row in enumerate(rows) if len(row) > max_length]
    if long:
        # Only long texts are tokenised again: the tokenizer knows how to cut around special tokens.
        cut = tokenizer(
            *([texts[index] for index in long] for texts in pairs),
            truncation=True,
            max_length=max_length,
            return_attention_mask=False,
        )
        for place, index in enumerate(long):
            rows[index] = cut["input_ids"][place]
            if types is not None:
                types[index] = cut["token_type_ids"][place]
    ids, starts = flatten(rows)
    return ids, starts, None if types is None else flatten(types, np.uint8)[0], len(long)


def flatten(rows: Sequence[Sequence[int]], dtype: Any = np.int32) -> tuple[Array, Array]:
    starts = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum([len(row) for row in rows], out=starts[1:])
    ids = np.fromiter((i for row in rows for i in row), dtype=dtype, count=int(starts[-1]))
    return ids, starts


def one_row_an_example(
    tokenizer: Tokenizer, examples: Sequence["Example"], max_length: int
) -> Encoded:
    """The encoding for every kind that reads one text or one pair."""
    pair = [example.get("text_pair") for example in examples]
    second = None if all(text is None for text in pair) else [text or "" for text in pair]
    texts = [example["text"] for example in examples]
    ids, starts, types, truncated = encode_texts(tokenizer, texts, second, max_length)
    count = np.arange(len(examples) + 1)
    return Encoded(ids, starts, count, count[:-1], truncated, types)


def _save(encoded: Encoded, path: Path) -> None:
    arrays = {"ids": encoded.ids, "starts": encoded.starts, "item_rows": encoded.item_rows}
    arrays |= {"item_example": encoded.item_example, "truncated": np.array(encoded.truncated)}
    if encoded.types is not None:
        arrays["types"] = encoded.types
    arrays |= {f"labels.{name}": values for name, values in encoded.labels.items()}
    arrays |= {f"places.{name}": values for name, values in encoded.places.items()}
    with whole_file(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def _load(path: Path) -> Encoded:
    arrays = read_arrays(path)
    return Encoded(
        ids=arrays["ids"],
        starts=arrays["starts"],
        item_rows=arrays["item_rows"],
        item_example=arrays["item_example"],
        truncated=int(arrays["truncated"]),
        types=arrays.get("types"),
        labels=_with_prefix(arrays, "labels."),
        places=_with_prefix(arrays, "places."),
    )


def _with_prefix(arrays: dict[str, Array], prefix: str) -> dict[str, Array]:
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
