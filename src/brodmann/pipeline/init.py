"""`brodmann init`: a starter configuration and small sample files that it runs on."""

import csv
import io
import json
from pathlib import Path

from brodmann.data import builtin
from brodmann.data.builtin.random_words import WORD
from brodmann.errors import InputError
from brodmann.files import write_text

SAMPLES = 400
STARTER = """\
# A run of Brodmann: `brodmann run brodmann.toml`. Delete what you do not need.
# Data paths are relative to this file; the run folder is output/name in the current folder.

name = "first"
output = "runs"
seed = 0

# One table per task. Kinds and their columns:
#   classification  text, [text_pair], label         one of several labels
#   multilabel      text, [text_pair], label         any number of labels ("a|b", or a JSON list)
#   regression      text, [text_pair], label         a number
#   choice          text, choices, label             which of the choices is right
#   span            question, context, answer        a stretch of the context (or nothing)
#   tokens          tokens, tags                     one tag per word (entities)
# Without `validation`, a tenth of the training examples is held out.

[[tasks]]
name = "mood"
kind = "classification"
train = "reviews.csv"
text = "text"
label = "mood"
# labels = ["negative", "positive"]   # default: found in the data
# class_weights = "balanced"
# metric = "f1"                       # default: accuracy

[[tasks]]
name = "subject"                      # a second label column of the same file
kind = "classification"
train = "reviews.csv"
text = "text"
label = "subject"

[[tasks]]
name = "names"
kind = "tokens"
train = "names.jsonl"
tokens = "tokens"
tags = "tags"
# weight = 0.5                        # its loss counts half

[model]
backbone = "builtin:minilm"           # or a hub id, a folder, builtin:tiny
architecture = "shared"               # or single (one model per task), ca_mtl, hmnet, …
# freeze = 0.5                        # lower half of the layers; "encoder": all of it
max_length = 128
# pooling = "auto"                    # the vector that represents a text: pooler, first or mean

[training]
epochs = "auto"                       # 3 to 20, for about 300 steps
batch_size = 32
learning_rate = "auto"                # by the width of the encoder: 2e-4 for MiniLM
# rates = { heads = 1e-3 }            # a separate rate for a part of the model
precision = "auto"                    # bf16 if it is fast, else float32
sampling = "proportional"             # uniform, sqrt, temperature, annealed, uncertainty
# sampling_parameters = { tau = 2.0 }
# evaluate_every = 200                # steps; otherwise after every epoch
# early_stopping = 3

[map]                                 # which heads matter to which task
examples = 1000                       # per task, from its training data

[dissociation]                        # scores of every task with every task's top heads off
alpha = 0.3                           # the share of all heads
# curve = [0.1, 0.2, 0.4, 0.5]        # further shares
draws = 20                            # random heads to compare with
"""


def write_starter(folder: Path) -> list[Path]:
    contents = {"brodmann.toml": STARTER, "reviews.csv": _reviews(), "names.jsonl": _names()}
    for name in contents:
        if (folder / name).exists():
            raise InputError(f"{folder / name}: already exists: nothing was written")
    for name, text in contents.items():
        write_text(folder / name, text)
    return [folder / name for name in contents]


def _reviews() -> str:
    """A table with one text column and two label columns: two tasks over the same texts."""
    rows = builtin.generate("sentiment", "en", sizes={"train": SAMPLES}, seed=0)["train"]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["text", "mood", "subject"])
    for row in rows:
        writer.writerow([row["text"], row["label"], _subject(row["text"])])
    return buffer.getvalue()


def _subject(text: str) -> str:
    words = {word.strip(".,'").lower() for word in text.split()}
    people = words & {"i", "my", "we", "our", "me", "us"}
    return "personal" if people else "general"


def _names() -> str:
    """Sentences with tagged names; every third is a review, in which no word is a name.

    Without such sentences, a model learns that every text has names, and finds some in any text.
    """
    plain = iter(
        builtin.generate("sentiment", "en", sizes={"train": SAMPLES // 3}, seed=1)["train"]
    )
    named = iter(builtin.generate("entities", "en", sizes={"train": SAMPLES}, seed=0)["train"])
    rows = [
        _without_names(next(plain)["text"]) if place % 3 == 2 else next(named)
        for place in range(SAMPLES)
    ]
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _without_names(text: str) -> dict[str, list[str]]:
    words = WORD.findall(text)  # the words that a prediction reads
    return {"tokens": words, "tags": ["O"] * len(words)}
