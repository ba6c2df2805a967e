"""Training throughput of `shared` against the transformers Trainer: same task, data, precision.

    python benchmarks/training.py [--data FOLDER] [--steps 30] [--rounds 3] [--out FILE]

Three comparisons, as ratios in one run, the sides taking turns:
- equal batches: both get the very same batches of equal length (no padding to save on either side);
- mixed-length text against the Trainer's default (random) batches;
- mixed-length text against the Trainer's grouping by length.
Both sides train one epoch over the same examples with AdamW, clipping and a linear schedule,
without evaluation, saving or logging; the clock runs from the first batch to the last step.
With --data the mixed-length text is SST-2 and QNLI's paragraphs from FOLDER; without it, texts
with a similar spread of lengths are made from the built-in suite.
"""

import argparse
import gzip
import json
import os
import statistics
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
import transformers

import brodmann as bm
from brodmann.models.backbone.load import load_backbone

LENGTH = 128
BATCH = 32


def mixed_rows(folder: Path | None, count: int) -> list[dict[str, Any]]:
    """Texts from a few words to a paragraph, in random order."""
    generator = np.random.default_rng(0)
    if folder is not None:
        texts = [row["sentence"] for row in _lines(folder / "sst2" / "train.jsonl.gz")]
        texts = (
            texts[: count // 2]
            + [row["sentence"] for row in _lines(folder / "qnli" / "train.jsonl.gz")][
                : count - count // 2
            ]
        )
    else:
        from brodmann.data import builtin

        rows = builtin.generate("sentiment", sizes={"train": 4 * count}, seed=0)["train"]
        pool = iter(row["text"] for row in rows)
        sizes = generator.choice([1, 1, 1, 2, 3, 5, 8], size=count)
        texts = [" ".join(next(pool) for _ in range(min(int(size), 4))) for size in sizes]
    order = generator.permutation(len(texts))
    return [{"text": texts[i], "label": int(i % 2)} for i in order]


def _lines(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def equal_rows(rows: list[dict[str, Any]], tokenizer: Any, words: int = 40) -> list[dict[str, Any]]:
    """The same texts joined and cut so that every row has exactly as many tokens."""
    ids = [i for row in rows for i in tokenizer(row["text"], add_special_tokens=False)["input_ids"]]
    texts = []
    for start in range(0, len(ids) - words, words):
        text = tokenizer.decode(ids[start : start + words])
        if len(tokenizer(text, add_special_tokens=False)["input_ids"]) == words:
            texts.append(text)
    return [{"text": text, "label": i % 2} for i, text in enumerate(texts[: len(rows)])]


def ours(rows: list[dict[str, Any]], steps: int, precision: str) -> float:
    """Examples per second."""
    task = bm.load_task("t", kind="classification", train=rows, validation=rows[:8])
    model = bm.MultiTaskModel.from_pretrained("builtin:minilm", [task], max_length=LENGTH)
    marks: list[float] = []

    def report(event: str, facts: dict[str, Any]) -> None:
        if event in ("start", "step"):
            marks.append(time.perf_counter())

    bm.fit(
        model, [task], epochs=1, max_steps=steps, batch_size=BATCH, learning_rate=5e-5,
        precision=precision, evaluate_every=10**9, keep="last", report=report,
    )  # fmt: skip
    return BATCH * (len(marks) - 1) / (marks[-1] - marks[0])


class Marks(transformers.TrainerCallback):  # type: ignore[misc]
    def __init__(self) -> None:
        self.times: list[float] = []

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self.times.append(time.perf_counter())

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.times.append(time.perf_counter())


def theirs(rows: list[dict[str, Any]], steps: int, precision: str, *, group: bool) -> float:
    backbone = load_backbone("builtin:minilm")
    tokenizer = backbone.tokenizer
    source = backbone.model.name_or_path
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        source, num_labels=2, dtype=torch.float32
    )
    encoded = [
        {**tokenizer(row["text"], truncation=True, max_length=LENGTH), "labels": row["label"]}
        for row in rows
    ]
    marks = Marks()
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder, max_steps=steps, per_device_train_batch_size=BATCH, learning_rate=5e-5,
            warmup_steps=max(1, steps // 10), bf16=precision == "bf16", use_cpu=True,
            save_strategy="no", logging_strategy="no", report_to=[], disable_tqdm=True,
            dataloader_drop_last=True,
            train_sampling_strategy="group_by_length" if group else "random",
        )  # fmt: skip
        transformers.Trainer(
            model=model,
            args=arguments,
            train_dataset=encoded,
            data_collator=transformers.DataCollatorWithPadding(tokenizer),
            callbacks=[marks],
        ).train()
    return BATCH * (len(marks.times) - 1) / (marks.times[-1] - marks.times[0])


def compare(name: str, limit: float, rounds: int, our_side: Any, their_side: Any) -> dict[str, Any]:
    our_side()  # warm up
    pairs = [(our_side(), their_side()) for _ in range(rounds)]
    ratios = [a / b for a, b in pairs]
    result = {
        "comparison": name,
        "ours": statistics.median(a for a, _ in pairs),
        "theirs": statistics.median(b for _, b in pairs),
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "expected": limit,
    }
    print(
        f"{name:<34} {result['ours']:6.1f} against {result['theirs']:6.1f} examples/s: "
        f"{result['ratio']:.2f} × (expected at least {limit})",
        flush=True,
    )
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    rows = mixed_rows(options.data, options.steps * BATCH)
    tokenizer = load_backbone("builtin:minilm").tokenizer
    equal = equal_rows(rows, tokenizer)
    steps, precision = options.steps, options.precision
    equal_steps = min(steps, len(equal) // BATCH)
    results = [
        compare(
            "equal batches", 0.97, options.rounds,
            lambda: ours(equal, equal_steps, precision),
            lambda: theirs(equal, equal_steps, precision, group=False),
        ),
        compare(
            "mixed lengths, default batches", 1.6, options.rounds,
            lambda: ours(rows, steps, precision),
            lambda: theirs(rows, steps, precision, group=False),
        ),
        compare(
            "mixed lengths, grouped by length", 0.97, options.rounds,
            lambda: ours(rows, steps, precision),
            lambda: theirs(rows, steps, precision, group=True),
        ),
    ]  # fmt: skip
    if options.out is not None:
        document = {
            "settings": {k: str(v) if isinstance(v, Path) else v for k, v in vars(options).items()},
            "threads": torch.get_num_threads(),
            "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
            "results": results,
        }
        document["settings"]["data"] = options.data is not None
        options.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
