"""How many planted label errors confident learning finds, and how many of its suspects are planted.

A tenth of the labels of a generated task is made wrong, in the training and the validation rows. A
model learns from the former, and `bm.mistakes` suspects some of the latter. Besides the usual
model, a linear one on words and pairs of words shows what a weaker model can do.

    python benchmarks/label_errors.py
"""

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

import brodmann as bm
from brodmann.analysis.label_errors import suspected

NOISE = 0.1


def planted(name: str, train: int, seed: int) -> tuple[bm.Task, set[int]]:
    """A task with wrong labels, and the validation rows that have them."""
    (task,) = bm.load_tasks([{"use": name, "limit": {"train": train, "validation": 400}}])
    random, count = np.random.default_rng(seed), len(task.spec.label_list)
    rows: set[int] = set()
    for split in ("train", "validation"):
        for row, example in enumerate(task.splits[split]):
            if random.random() < NOISE:
                example["label"] = (example["label"] + int(random.integers(1, count))) % count
                rows |= {row} if split == "validation" else set()
    return task, rows


def show(what: str, found: set[int], rows: set[int]) -> None:
    hits = len(found & rows)
    print(
        f"{what}: {len(found)} suspected, {len(rows)} planted, "
        f"precision {hits / max(len(found), 1):.2f}, recall {hits / len(rows):.2f}",
        flush=True,
    )


def main() -> None:
    for name, train in (("builtin/topic", 800), ("builtin/sentiment", 1000)):
        task, rows = planted(name, train, seed=0)
        model = bm.MultiTaskModel.from_pretrained("builtin:minilm", [task])
        bm.fit(model, [task], epochs=3, learning_rate=1e-4, progress=False)
        document = bm.mistakes(model, [task]).tasks[task.name]
        show(f"{name}, MiniLM", {case["row"] for case in document["suspects"]}, rows)
    for seed in range(3):
        task, rows = planted("builtin/topic", 1500, seed)
        texts = {s: [e["text"] for e in task.splits[s]] for s in ("train", "validation")}
        labels = {s: np.array([e["label"] for e in task.splits[s]]) for s in texts}
        words = TfidfVectorizer(ngram_range=(1, 2)).fit(texts["train"])
        linear = LogisticRegression().fit(words.transform(texts["train"]), labels["train"])
        chances = linear.predict_proba(words.transform(texts["validation"]))
        found = set(suspected(labels["validation"], chances)[0].tolist())
        show(f"builtin/topic, linear model, seed {seed}", found, rows)


if __name__ == "__main__":
    main()
