"""`builtin:tiny`: a small random encoder with its own tokenizer, for tests and quick trials.

Its vocabulary is the built-in suite's words, with single characters for everything else, so it
needs no file and reads any text.
"""

import string
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

TINY_SIZES = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4}
TINY_SIZES |= {"intermediate_size": 128, "max_position_embeddings": 512}
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CHARACTERS = string.ascii_lowercase + string.digits + string.punctuation + "áéíóúüñ¿¡€ºª–—’“”…"


@cache
def tiny_vocabulary() -> Mapping[str, int]:
    from brodmann.data import builtin

    pieces = list(SPECIAL) + list(CHARACTERS) + [f"##{c}" for c in CHARACTERS]
    for language in builtin.LANGUAGES:
        pieces += builtin.vocabulary(language)
    return MappingProxyType({piece: place for place, piece in enumerate(dict.fromkeys(pieces))})


def tiny_config() -> Any:
    from transformers import BertConfig

    return BertConfig(vocab_size=len(tiny_vocabulary()), pad_token_id=0, **TINY_SIZES)


def tiny_tokenizer() -> Any:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = tiny_vocabulary()
    backend = Tokenizer(models.WordPiece(dict(vocabulary), unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=False)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=TINY_SIZES["max_position_embeddings"],
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )
