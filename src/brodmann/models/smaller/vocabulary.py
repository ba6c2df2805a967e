r"""Cut the vocabulary: embedding rows, and pieces of the tokenizer, that no text ever uses.

In a multilingual model most weights are rows of pieces that a user's languages never show. Kept are
the pieces that the given texts are read as, every special token, and every piece of one character
or byte, so that an unseen word falls apart rather than being lost. Texts that were counted are read
exactly as before: the pieces that won among all win among fewer (for byte-pair encoding, every
merge on the way to a kept piece is kept, too). Ids are renumbered in their order.
"""

import itertools
import json
import tempfile
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from brodmann.errors import InputError
from brodmann.files import Array
from brodmann.models.backbone.anatomy import anatomy_of, bare_models, renew_inputs, unwrapped
from brodmann.models.backbone.load import load_tokenizer, quiet

SPACES = "▁Ġ "  # marks of a word's begin in pieces: SentencePiece, byte-level, plain


def pieces_to_keep(tokenizer: Any, used: Iterable[int]) -> Array:
    """Ids, in their order, of the pieces that stay if texts use the pieces `used`."""
    description = _description(tokenizer)
    pieces = _pieces(description["model"])
    kept = {int(one) for one in used} | set(tokenizer.all_special_ids)
    kept |= {entry["id"] for entry in description["added_tokens"]}
    prefix = description["model"].get("continuing_subword_prefix") or ""
    for piece, number in pieces.items():
        bare = piece.removeprefix(prefix) if prefix else piece
        if len(bare.strip(SPACES)) <= 1 or _is_byte(piece):
            kept.add(number)
    if description["model"]["type"] == "BPE":
        names = {number: piece for piece, number in pieces.items()}
        needed, _ = _on_the_way(description["model"], [names[n] for n in kept if n in names])
        kept |= {pieces[piece] for piece in needed}
    return np.array(sorted(kept))


def _is_byte(piece: str) -> bool:
    return len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">")


def cut_vocabulary(model: Any, kept: Array, texts: Collection[str]) -> None:
    """Keep only these pieces of a multi-task model; `texts` must be read as they were before."""
    old = model.tokenizer
    place = {int(number): new for new, number in enumerate(kept)}
    new = cut_tokenizer(old, place)
    for text in texts:
        before, after = (t(text, add_special_tokens=True)["input_ids"] for t in (old, new))
        if [place.get(one) for one in before] != after:
            raise InputError(
                f"the vocabulary of {type(old).__name__} cannot be cut: a text would be read "
                f"differently ({text[:60]!r}); use --vocabulary keep"
            )
    rows = torch.as_tensor(kept)
    for bare in bare_models(model):
        known = anatomy_of(bare)
        _cut_embeddings(bare, rows, place)
        renew_inputs(bare, known)
    model.tokenizer = new
    vars(unwrapped(model)).get("rules", {}).clear()


def _cut_embeddings(bare: Any, rows: torch.Tensor, place: Mapping[int, int]) -> None:
    old = bare.get_input_embeddings()
    if type(old) is not nn.Embedding:
        raise InputError(
            f"{type(bare).__name__}: its embeddings are no table of rows ({type(old).__name__}): "
            "use --vocabulary keep"
        )
    size = old.num_embeddings
    pad = None if old.padding_idx is None else place[old.padding_idx]
    new = nn.Embedding(len(rows), old.embedding_dim, padding_idx=pad, device=old.weight.device)
    weight = old.weight.detach()[rows.to(old.weight.device)].clone()
    new.weight = nn.Parameter(weight, requires_grad=old.weight.requires_grad)
    bare.set_input_embeddings(new)
    for config in {id(module.config): module.config for module in bare.modules()
                   if hasattr(module, "config")}.values():  # fmt: skip
        _renumber(config, size, len(rows), place)


def _renumber(config: Any, before: int, after: int, place: Mapping[int, int]) -> None:
    """Set the size of the vocabulary, and the ids of special tokens, in a configuration."""
    if getattr(config, "vocab_size", None) == before:
        config.vocab_size = after
        for name, value in list(vars(config).items()):
            if name.endswith("_token_id") and isinstance(value, int):
                setattr(config, name, place.get(value))


def _description(tokenizer: Any) -> dict[str, Any]:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise InputError(
            f"{type(tokenizer).__name__}: has no tokenizer.json, so its vocabulary cannot be cut: "
            "use --vocabulary keep"
        )
    found: dict[str, Any] = json.loads(backend.to_str())
    if found["model"]["type"] not in ("WordPiece", "WordLevel", "Unigram", "BPE"):
        raise InputError(f"vocabularies of {found['model']['type']} tokenizers cannot be cut")
    return found


def _pieces(model: Mapping[str, Any]) -> dict[str, int]:
    if model["type"] == "Unigram":
        return {piece: number for number, (piece, _) in enumerate(model["vocab"])}
    return dict(model["vocab"])


def cut_tokenizer(tokenizer: Any, place: Mapping[int, int]) -> Any:
    """The same tokenizer with the pieces of `place` alone, under their new numbers."""
    description = _description(tokenizer)
    model = description["model"]
    if model["type"] == "Unigram":
        model["vocab"] = [model["vocab"][old] for old in place if old < len(model["vocab"])]
        if model.get("unk_id") is not None:
            model["unk_id"] = place[model["unk_id"]]
    else:
        kept = {piece: place[old] for piece, old in model["vocab"].items() if old in place}
        if model["type"] == "BPE":
            _, merges = _on_the_way(model, kept)
            model["merges"] = [merge for merge in model["merges"] if _merge(merge) in merges]
        model["vocab"] = kept
    for entry in description["added_tokens"]:
        entry["id"] = place[entry["id"]]
    _renumber_post_processor(description["post_processor"], place)
    if description.get("padding"):
        description["padding"]["pad_id"] = place[description["padding"]["pad_id"]]
    with tempfile.TemporaryDirectory() as folder, quiet():
        tokenizer.save_pretrained(folder)
        for stale in ("vocab.txt", "vocab.json", "merges.txt", "added_tokens.json", "spiece.model"):
            (Path(folder) / stale).unlink(missing_ok=True)
        written = json.dumps(description, ensure_ascii=False)
        (Path(folder) / "tokenizer.json").write_text(written, encoding="utf-8")
        settings_file = Path(folder) / "tokenizer_config.json"
        settings = json.loads(settings_file.read_text(encoding="utf-8"))
        if "added_tokens_decoder" in settings:
            settings["added_tokens_decoder"] = {
                str(place[int(old)]): entry
                for old, entry in settings["added_tokens_decoder"].items()
            }
            settings_file.write_text(json.dumps(settings, ensure_ascii=False), encoding="utf-8")
        found = load_tokenizer(folder, folder)
    found.name_or_path = tokenizer.name_or_path
    return found


def _renumber_post_processor(part: Any, place: Mapping[int, int]) -> None:
    """Change ids wherever a post-processor names them: lists of ids, or pairs (token, id)."""
    if isinstance(part, dict):
        if "ids" in part and "tokens" in part:
            part["ids"] = [place[old] for old in part["ids"]]
        for name, value in part.items():
            if name in ("sep", "cls") and isinstance(value, list):
                part[name] = [value[0], place[value[1]]]
            else:
                _renumber_post_processor(value, place)
    elif isinstance(part, list):
        for value in part:
            _renumber_post_processor(value, place)


def _merge(merge: Any) -> tuple[str, str]:
    first, second = merge if isinstance(merge, list) else merge.split(" ", 1)
    return first, second


def _on_the_way(
    model: Mapping[str, Any], wanted: Iterable[str]
) -> tuple[set[str], set[tuple[str, str]]]:
    """Pieces and merges that byte-pair encoding passes through on its way to the wanted pieces."""
    rank = {_merge(merge): place for place, merge in enumerate(model["merges"])}
    pieces: set[str] = set()
    merges: set[tuple[str, str]] = set()
    known = model["vocab"]
    for piece in wanted:
        parts = list(piece)
        while True:
            pairs = [pair for pair in itertools.pairwise(parts) if pair in rank]
            if not pairs:
                break
            best = min(pairs, key=rank.__getitem__)
            merges.add(best)
            parts = _swept(parts, best)
            pieces.update(part for part in parts if part in known)
    return pieces, merges


def _swept(parts: list[str], pair: tuple[str, str]) -> list[str]:
    """Every occurrence of the pair joined, from left to right."""
    found, at = [], 0
    while at < len(parts):
        if tuple(parts[at : at + 2]) == pair:
            found.append(parts[at] + parts[at + 1])
            at += 2
        else:
            found.append(parts[at])
            at += 1
    return found
