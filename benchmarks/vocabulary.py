"""How much of a vocabulary its users need: pieces kept, texts read alike, weights saved.

    python benchmarks/vocabulary.py FOLDER --out benchmarks/results/vocabulary.json

FOLDER holds sst2/, ag_news/, qnli/, xnli_en/ and xnli_es/. A vocabulary of 30,000 pieces is trained
on English and Spanish texts; kept are the pieces that the English training texts use. Held-out
English texts say how often a text is read differently, and how much longer. The same for MiniLM's
own vocabulary. XLM-R's weights are counted from its configuration; its own vocabulary is not here.
"""

import argparse
import gzip
import json
import os
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import tokenizers
import torch
import transformers as tf
from tokenizers import models, pre_tokenizers, processors, trainers

import brodmann as bm
from brodmann.models.smaller.vocabulary import cut_tokenizer, pieces_to_keep

ENGLISH = {"sst2": ["sentence"], "ag_news": ["text"], "qnli": ["question", "sentence"]}
PIECES = 30_000
HELD_OUT = 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", help="folder with the datasets")
    parser.add_argument("--out", default="vocabulary.json")
    chosen = parser.parse_args()
    source = Path(chosen.data)
    english = [text for name, columns in ENGLISH.items() for text in texts(source, name, columns)]
    both = ["premise", "hypothesis"]
    spanish = texts(source, "xnli_es", both, "validation")
    english += texts(source, "xnli_en", both, "validation")
    held_out, english = english[::10][:HELD_OUT], [t for n, t in enumerate(english) if n % 10]
    multilingual = trained(english + spanish * 5)
    minilm = bm.MultiTaskModel.from_pretrained("builtin:minilm", toy()).tokenizer
    found: dict[str, Any] = {
        "english and spanish": counted(multilingual, english, held_out),
        "builtin:minilm": counted(minilm, english, held_out),
        "xlm-roberta-base": xlm_r(),
    }
    Path(chosen.out).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


def texts(source: Path, name: str, columns: list[str], split: str = "train") -> list[str]:
    with gzip.open(source / name / f"{split}.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [row[column] for row in rows for column in columns]


def trained(corpus: list[str]) -> Any:
    """A Unigram tokenizer like XLM-R's."""
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = tokenizers.Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=PIECES, special_tokens=special, unk_token="<unk>")
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    return tf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


def toy() -> Any:
    rows = [{"text": text, "label": text} for text in ("a", "b")]
    task = {"name": "t", "kind": "classification", "train": rows, "validation": rows}
    return bm.load_tasks([task])


def counted(tokenizer: Any, english: list[str], held_out: list[str]) -> dict[str, Any]:
    used = {number for ids in tokenizer(english)["input_ids"] for number in ids}
    kept = pieces_to_keep(tokenizer, used)
    place = {int(old): new for new, old in enumerate(kept)}
    small = cut_tokenizer(tokenizer, place)
    before, after = tokenizer(held_out)["input_ids"], small(held_out)["input_ids"]
    pairs = list(zip(before, after, strict=True))
    changed = sum([place.get(one) for one in old] != new for old, new in pairs)
    return {
        "pieces": len(tokenizer),
        "kept": len(kept),
        "texts": len(english),
        "held-out texts read differently": changed / len(held_out),
        "longer": sum(map(len, after)) / sum(map(len, before)),
        "unknown": sum(small.unk_token_id in ids for ids in after) / len(held_out),
    }


def xlm_r() -> dict[str, int]:
    """Weights of XLM-R base in all, and with other numbers of pieces."""
    with torch.device("meta"):
        sizes = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12}
        sizes |= {"intermediate_size": 3072, "max_position_embeddings": 514, "type_vocab_size": 1}
        found = {}
        for pieces in (250_002, 60_000, 30_000):
            model = tf.XLMRobertaModel(
                tf.XLMRobertaConfig(vocab_size=pieces, **sizes), add_pooling_layer=False
            )
            found[f"{pieces:,} pieces"] = sum(p.numel() for p in model.parameters())
    return found


if __name__ == "__main__":
    main()
