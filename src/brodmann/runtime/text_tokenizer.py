"""A tokenizer read from tokenizer.json, which encodes texts as transformers would.

It fulfils `Tokenizer` of `data/encoding.py`, so that texts, pairs, windows and words are read by
the same code as in training. Both call the same library, one of whose tokenizers keeps the cut of
the last call: calls from several threads take turns.
"""

import threading
from pathlib import Path
from typing import Any

from brodmann.errors import InputError

STRATEGIES = {True: "longest_first", "only_second": "only_second"}


class Encodings(dict[str, list[Any]]):
    """The rows of one call by name; `sequence_ids` tells the texts of a pair apart."""

    def __init__(self, rows: list[Any], **lists: list[Any]) -> None:
        super().__init__(lists)
        self.rows = rows

    def sequence_ids(self, row: int) -> list[int | None]:
        found: list[int | None] = self.rows[row].sequence_ids
        return found


class TextTokenizer:
    """tokenizer.json with what transformers adds to it from other files."""

    def __init__(
        self, path: Path, *, segments: bool, cut_from: str, split_special_tokens: bool
    ) -> None:
        import tokenizers

        try:
            self.backend = tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8"))
        except Exception as error:  # the library raises a bare Exception
            reason = " ".join(str(error).split())[:200]
            raise InputError(
                f"{path}: the installed tokenizers {tokenizers.__version__} cannot read it "
                f"({reason}): update tokenizers"
            ) from error
        self.backend.no_padding()
        self.backend.encode_special_tokens = split_special_tokens
        self.segments, self.cut_from = segments, cut_from
        self.turn = threading.Lock()

    def num_special_tokens_to_add(self, pair: bool = False) -> int:
        return int(self.backend.num_special_tokens_to_add(pair))

    def __call__(
        self,
        first: list[str],
        second: list[str] | None = None,
        /,
        *,
        truncation: bool | str = False,
        max_length: int = 0,
        stride: int = 0,
        add_special_tokens: bool = True,
        return_overflowing_tokens: bool = False,
        **_: Any,  # every list is always returned
    ) -> Encodings:
        texts = first if second is None else list(zip(first, second, strict=True))
        with self.turn:
            if truncation:
                self.backend.enable_truncation(
                    max_length,
                    stride=stride,
                    strategy=STRATEGIES[truncation],
                    direction=self.cut_from,
                )
            else:
                self.backend.no_truncation()
            found = self.backend.encode_batch(texts, add_special_tokens=add_special_tokens)
        windows = [
            [encoding, *(encoding.overflowing if return_overflowing_tokens else ())]
            for encoding in found
        ]
        rows = [row for several in windows for row in several]
        lists = {
            "input_ids": [row.ids for row in rows],
            "offset_mapping": [row.offsets for row in rows],
            "special_tokens_mask": [row.special_tokens_mask for row in rows],
            "overflow_to_sample_mapping": [n for n, several in enumerate(windows) for _ in several],
        }
        if self.segments:
            lists["token_type_ids"] = [row.type_ids for row in rows]
        return Encodings(rows, **lists)
