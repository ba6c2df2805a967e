"""A vocabulary cut to the texts in use reads them as before, and unseen words by smaller pieces."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import transformers as tf
from tokenizers import models, pre_tokenizers, processors, trainers

import brodmann as bm
from brodmann.models.smaller.vocabulary import cut_vocabulary, pieces_to_keep

TEXTS = [
    f"the {size} {colour} {animal} {verb} near the {place}"
    for size in ("small", "smaller", "smallest")
    for colour in ("red", "reddish", "green", "greenish")
    for animal in ("fox", "foxes", "rabbit", "rabbits")
    for verb in ("sleeps", "slept", "runs", "running")
    for place in ("river", "riverbank", "forest", "forestry")
]
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def byte_pairs(folder: Path) -> tf.PretrainedConfig:
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        TEXTS,
        trainers.BpeTrainer(vocab_size=400, special_tokens=SPECIAL, initial_alphabet=alphabet),
    )
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    tokenizer.save(str(folder / "tokenizer.json"))
    return tf.RobertaConfig(vocab_size=tokenizer.get_vocab_size(), **SMALL)


def unigram(folder: Path) -> tf.PretrainedConfig:
    tokenizer = tokenizers.Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(
        TEXTS, trainers.UnigramTrainer(vocab_size=150, special_tokens=SPECIAL, unk_token="<unk>")
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    return tf.XLMRobertaConfig(vocab_size=tokenizer.get_vocab_size(), **SMALL)


SMALL: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
SMALL |= {"intermediate_size": 37, "max_position_embeddings": 140, "pad_token_id": 1}
KINDS = {"RobertaTokenizer": byte_pairs, "XLMRobertaTokenizer": unigram}


@pytest.fixture(params=list(KINDS))
def model(request: pytest.FixtureRequest, tmp_path: Path) -> bm.MultiTaskModel:
    tf.AutoModel.from_config(KINDS[request.param](tmp_path)).save_pretrained(tmp_path)
    names = {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>"}
    names |= {"unk_token": "<unk>", "pad_token": "<pad>", "tokenizer_class": request.param}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(names))
    return built(tmp_path)


def built(backbone: Any) -> bm.MultiTaskModel:
    rows = [{"text": text, "label": "ab"[place % 2]} for place, text in enumerate(TEXTS[:20])]
    (task,) = bm.load_tasks(
        [{"name": "t", "kind": "classification", "train": rows, "validation": rows}]
    )
    return bm.MultiTaskModel.from_pretrained(backbone, [task]).eval()


def used_by(model: bm.MultiTaskModel, texts: list[str]) -> set[int]:
    return {number for text in texts for number in model.tokenizer(text)["input_ids"]}


def check(model: bm.MultiTaskModel, folder: Path) -> None:
    seen, unseen = TEXTS[:40], ["the rent is near", "green rivers"]
    kept = pieces_to_keep(model.tokenizer, used_by(model, seen))
    before = model.predict("t", seen)
    size, old = model.config.vocab_size, model.tokenizer
    cut_vocabulary(model, kept, seen)
    assert model.config.vocab_size == len(kept) < size
    assert model.bare_models()[0].get_input_embeddings().weight.shape[0] == len(kept)
    assert model.predict("t", seen) == before
    unknown = model.tokenizer.unk_token_id
    for text in unseen:
        ids = model.tokenizer(text)["input_ids"]
        assert unknown not in ids and len(ids) >= len(old(text)["input_ids"])
    model.save_pretrained(folder)
    again = bm.MultiTaskModel.from_pretrained(folder)
    assert again.predict("t", seen + unseen) == model.predict("t", seen + unseen)


def test_byte_pairs_and_unigrams(model: bm.MultiTaskModel, tmp_path: Path) -> None:
    check(model, tmp_path / "saved")


def test_word_pieces(tmp_path: Path) -> None:
    check(built("builtin:tiny"), tmp_path)


def test_heads_can_be_removed_afterwards_and_before(tmp_path: Path) -> None:
    model = built("builtin:tiny")
    kept = pieces_to_keep(model.tokenizer, used_by(model, TEXTS[:3]))
    bm.prune_heads(model, [(0, 0)])
    cut_vocabulary(model, kept, TEXTS[:3])
    bm.prune_heads(model, [(1, 2)])
    model.save_pretrained(tmp_path)
    again = bm.MultiTaskModel.from_pretrained(tmp_path)
    assert again.predict("t", TEXTS[:3]) == model.predict("t", TEXTS[:3])
    assert again.config.removed_heads == {"0": [0], "1": [2]}


def test_a_text_that_would_be_read_differently_is_refused() -> None:
    model = built("builtin:tiny")
    kept = pieces_to_keep(model.tokenizer, ())
    before = model.predict("t", TEXTS[:1])
    with pytest.raises(bm.InputError, match="would be read differently"):
        cut_vocabulary(model, kept, [TEXTS[0]])
    assert model.predict("t", TEXTS[:1]) == before


def test_the_pad_id_of_the_model_follows(tmp_path: Path) -> None:
    model = built("builtin:tiny")
    kept = pieces_to_keep(model.tokenizer, used_by(model, TEXTS))
    old = int(model.tokenizer.pad_token_id)
    cut_vocabulary(model, kept, TEXTS)
    new = int(np.flatnonzero(kept == old)[0])
    assert model.config.pad_token_id == model.tokenizer.pad_token_id == new
